"""The Responses API of OpenAI: `POST .../responses`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.models import openai
from tests.models.forms import Question, Telling, event
from tests.models.tools import Tool, Use

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

failure = openai.failure


def question(path: str, body: Mapping[str, Any]) -> Question:
    """Read a request; the tools of an MCP server may come as a namespace."""
    del path
    tools = tuple(tool for each in body.get("tools", ()) for tool in _tools(each))
    return Question(str(body.get("model", "")), bool(body.get("stream")), tools)


def _tools(offered: Mapping[str, Any]) -> Iterator[Tool]:
    kind = offered["type"]
    if kind == "namespace":
        for each in offered["tools"]:
            yield Tool(each["name"], each.get("parameters", {}), str(offered["name"]))
    elif kind == "function":
        yield Tool(offered["name"], offered.get("parameters", {}))


def events(question: Question, telling: Telling) -> list[bytes]:
    """Write an answer as a stream."""
    begun = {**_response(question, telling), "status": "in_progress"}
    told: list[dict[str, Any]] = [{"type": "response.created", "response": begun}]
    for index, item in enumerate(_items(telling)):
        told += _item(index, item, telling)
    end = whole(question, telling)
    told.append({"type": "response.completed", "response": end})
    return [
        event({**each, "sequence_number": number}, str(each["type"]))
        for number, each in enumerate(told)
    ]


def _item(index: int, item: dict[str, Any], telling: Telling) -> Iterator[dict[str, Any]]:
    where = {"item_id": item["id"], "output_index": index}
    if item["type"] == "message":
        part = item["content"][0]
        empty = {**item, "status": "in_progress", "content": []}
        yield {"type": "response.output_item.added", "output_index": index, "item": empty}
        yield {"type": "response.content_part.added", **where, "content_index": 0, "part": part}
        for each in telling.pieces(part["text"]):
            yield {
                "type": "response.output_text.delta",
                **where,
                "content_index": 0,
                "delta": each,
            }
    else:
        yield {"type": "response.output_item.added", "output_index": index, "item": item}
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def whole(question: Question, telling: Telling) -> Mapping[str, Any]:
    """Write an answer as one document."""
    return {
        **_response(question, telling),
        "status": "completed",
        "incomplete_details": None,
        "output": list(_items(telling)),
        "usage": _usage(telling),
    }


def _response(question: Question, telling: Telling) -> dict[str, Any]:
    return {
        "id": f"resp_{telling.identity}",
        "object": "response",
        "created_at": 1,
        "model": question.model,
        "output": [],
        "usage": None,
        "error": None,
    }


def _items(telling: Telling) -> Iterator[dict[str, Any]]:
    for number, block in enumerate(telling.blocks):
        if isinstance(block, str):
            part = {"type": "output_text", "text": block, "annotations": []}
            yield {
                "id": f"msg_{telling.identity}_{number}",
                "type": "message",
                "role": "assistant",
                "status": "completed",
                "content": [part],
            }
        else:
            yield _call(block)


def _call(use: Use) -> dict[str, Any]:
    call = {"call_id": f"call_{use.identity}", "status": "completed", "name": use.tool.name}
    space = {"namespace": use.tool.namespace} if use.tool.namespace else {}
    return {
        "id": f"fc_{use.identity}",
        "type": "function_call",
        "arguments": json.dumps(use.arguments),
        **space,
        **call,
    }


def _usage(telling: Telling) -> dict[str, Any]:
    usage = telling.usage
    return {
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cached},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.input + usage.output,
    }
