"""The Chat Completions API of OpenAI and of the many that speak it: `POST .../chat/completions`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.models import openai
from tests.models.forms import Question, Telling, event
from tests.models.tools import Tool

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

failure = openai.failure


def question(path: str, body: Mapping[str, Any]) -> Question:
    """Read a request."""
    del path
    functions = [each["function"] for each in body.get("tools", ())]
    tools = tuple(Tool(each["name"], each.get("parameters", {})) for each in functions)
    return Question(str(body.get("model", "")), bool(body.get("stream")), tools)


def events(question: Question, telling: Telling) -> list[bytes]:
    """Write an answer as a stream; its last event before the end is the usage."""
    start: dict[str, Any] = {
        "id": f"chatcmpl-{telling.identity}",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": question.model,
    }
    chunks: list[dict[str, Any]]
    chunks = [{"index": 0, "delta": each, "finish_reason": None} for each in _deltas(telling)]
    chunks.append({"index": 0, "delta": {}, "finish_reason": _finish(telling)})
    return [
        *(event({**start, "choices": [each], "usage": None}) for each in chunks),
        event({**start, "choices": [], "usage": _usage(telling)}),
        b"data: [DONE]\n\n",
    ]


def _deltas(telling: Telling) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": ""}
    for each in telling.pieces(telling.text):
        yield {"content": each}
    for index, call in enumerate(_calls(telling)):
        arguments = call["function"]["arguments"]
        named = {**call["function"], "arguments": ""}
        yield {"tool_calls": [{"index": index, **call, "function": named}]}
        for each in telling.pieces(arguments):
            yield {"tool_calls": [{"index": index, "function": {"arguments": each}}]}


def whole(question: Question, telling: Telling) -> Mapping[str, Any]:
    """Write an answer as one document."""
    message = {
        "role": "assistant",
        "content": telling.text,
        "refusal": None,
        **({"tool_calls": _calls(telling)} if telling.uses else {}),
    }
    return {
        "id": f"chatcmpl-{telling.identity}",
        "object": "chat.completion",
        "created": 1,
        "model": question.model,
        "choices": [{"index": 0, "message": message, "finish_reason": _finish(telling)}],
        "usage": _usage(telling),
    }


def _calls(telling: Telling) -> list[dict[str, Any]]:
    return [
        {
            "id": f"call_{each.identity}",
            "type": "function",
            "function": {"name": each.tool.name, "arguments": json.dumps(each.arguments)},
        }
        for each in telling.uses
    ]


def _finish(telling: Telling) -> str:
    return "tool_calls" if telling.uses else "stop"


def _usage(telling: Telling) -> dict[str, Any]:
    usage = telling.usage
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }
