"""The Messages API of Anthropic: `POST /v1/messages`."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tests.models.forms import Failure, Question, Telling, event, pause
from tests.models.script import Fault, five_hours
from tests.models.tools import Tool, Use

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

USUAL = {
    "rate_limit": (
        429,
        "rate_limit_error",
        "This request would exceed your organization's rate limit of 50 requests per minute.",
    ),
    "usage_limit": (
        429,
        "rate_limit_error",
        "This request would exceed your account's rate limit. Please try again later.",
    ),
    "auth": (401, "authentication_error", "invalid x-api-key"),
    "overloaded": (529, "overloaded_error", "Overloaded"),
    "context": (
        400,
        "invalid_request_error",
        "prompt is too long: 250000 tokens > 200000 maximum",
    ),
}


def question(path: str, body: Mapping[str, Any]) -> Question:
    """Read a request; tools that the provider runs have no schema."""
    del path
    tools = tuple(
        Tool(each["name"], each.get("input_schema", {})) for each in body.get("tools", ())
    )
    return Question(str(body.get("model", "")), bool(body.get("stream")), tools)


def events(question: Question, telling: Telling) -> list[bytes]:
    """Write an answer as a stream."""
    usage = _usage(telling)
    begun = {**_message(question, telling), "usage": {**usage, "output_tokens": 1}}
    end = {
        "type": "message_delta",
        "delta": {"stop_reason": _stop(telling), "stop_sequence": None},
        "usage": usage,
    }
    told = [{"type": "message_start", "message": begun}]
    for index, block in enumerate(telling.blocks):
        told += _block(index, block, telling)
    told += [end, {"type": "message_stop"}]
    return [event(each, str(each["type"])) for each in told]


def _block(index: int, block: str | Use, telling: Telling) -> Iterator[dict[str, Any]]:
    deltas: list[dict[str, Any]]
    if isinstance(block, str):
        start: dict[str, Any] = {"type": "text", "text": ""}
        deltas = [{"type": "text_delta", "text": each} for each in telling.pieces(block)]
    else:
        start = {**_use(block), "input": {}}
        text = json.dumps(block.arguments)
        deltas = [
            {"type": "input_json_delta", "partial_json": each} for each in telling.pieces(text)
        ]
    yield {"type": "content_block_start", "index": index, "content_block": start}
    for each in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": each}
    yield {"type": "content_block_stop", "index": index}


def whole(question: Question, telling: Telling) -> Mapping[str, Any]:
    """Write an answer as one document."""
    content = [
        {"type": "text", "text": each} if isinstance(each, str) else _use(each)
        for each in telling.blocks
    ]
    ending = {"content": content, "stop_reason": _stop(telling), "usage": _usage(telling)}
    return {**_message(question, telling), **ending}


def _message(question: Question, telling: Telling) -> dict[str, Any]:
    return {
        "id": f"msg_{telling.identity}",
        "type": "message",
        "role": "assistant",
        "model": question.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _use(use: Use) -> dict[str, Any]:
    identity = f"toolu_{use.identity}"
    return {"type": "tool_use", "id": identity, "name": use.tool.name, "input": use.arguments}


def _stop(telling: Telling) -> str:
    return "tool_use" if telling.uses else "end_turn"


def _usage(telling: Telling) -> dict[str, Any]:
    usage = telling.usage
    return {
        "input_tokens": usage.input - usage.cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": usage.output,
    }


def failure(fault: Fault) -> Failure:
    """Write an error instead of an answer; a plan's limit is told by headers alone."""
    headers = {} if fault.retry_after is None else pause(fault.retry_after)
    if fault.resets_at is not None and fault.kind == "usage_limit":
        headers |= five_hours(fault.resets_at)
    elif fault.resets_at is not None:
        resets = datetime.fromtimestamp(fault.resets_at, UTC).isoformat().replace("+00:00", "Z")
        headers |= {
            "anthropic-ratelimit-requests-limit": "50",
            "anthropic-ratelimit-requests-remaining": "0",
            "anthropic-ratelimit-requests-reset": resets,
        }
    return Failure(USUAL[fault.kind][0], _error(fault), headers)


def _error(fault: Fault) -> dict[str, Any]:
    _, kind, message = USUAL[fault.kind]
    error = {"type": kind, "message": fault.message or message}
    return {"type": "error", "error": error, "request_id": "req_scripted"}
