"""The Gemini API: `POST .../models/MODEL:generateContent` and `:streamGenerateContent`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.models.forms import Failure, Question, Telling, event, pause
from tests.models.tools import Tool, Use

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.models.script import Fault

TYPES = "type.googleapis.com/google.rpc"
USUAL = {
    "rate_limit": (
        429,
        "RESOURCE_EXHAUSTED",
        "You exceeded your current quota: requests per minute.",
    ),
    "usage_limit": (
        429,
        "RESOURCE_EXHAUSTED",
        "You exceeded your current quota: requests per day.",
    ),
    "auth": (
        401,
        "UNAUTHENTICATED",
        "Request had invalid authentication credentials. Expected an API key.",
    ),
    "overloaded": (503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
    "context": (
        400,
        "INVALID_ARGUMENT",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    ),
}
QUOTAS = {
    "rate_limit": "GenerateRequestsPerMinutePerProjectPerModel",
    "usage_limit": "GenerateRequestsPerDayPerProjectPerModel-FreeTier",
}


def question(path: str, body: Mapping[str, Any]) -> Question:
    """Read a request; the model and whether to stream are in its path."""
    model, _, action = path.rpartition("/")[2].partition(":")
    declared = [
        each for group in body.get("tools", ()) for each in group.get("functionDeclarations", ())
    ]
    tools = tuple(
        Tool(each["name"], each.get("parametersJsonSchema") or each.get("parameters", {}))
        for each in declared
    )
    return Question(model, action == "streamGenerateContent", tools)


def events(question: Question, telling: Telling) -> list[bytes]:
    """Write an answer as a stream."""
    parts = list(_parts(telling, pieces=True)) or [{"text": ""}]
    chunks = [_chunk(question, telling, [each]) for each in parts]
    chunks[-1]["candidates"][0]["finishReason"] = "STOP"
    chunks[-1]["usageMetadata"] = _usage(telling)
    return [event(each) for each in chunks]


def whole(question: Question, telling: Telling) -> Mapping[str, Any]:
    """Write an answer as one document."""
    chunk = _chunk(question, telling, list(_parts(telling, pieces=False)))
    chunk["candidates"][0]["finishReason"] = "STOP"
    return {**chunk, "usageMetadata": _usage(telling)}


def _parts(telling: Telling, *, pieces: bool) -> Iterator[dict[str, Any]]:
    for block in telling.blocks:
        if isinstance(block, Use):
            call = {"id": block.identity, "name": block.tool.name, "args": block.arguments}
            yield {"functionCall": call}
        elif pieces:
            yield from ({"text": each} for each in telling.pieces(block))
        else:
            yield {"text": block}


def _chunk(question: Question, telling: Telling, parts: list[dict[str, Any]]) -> dict[str, Any]:
    content = {"role": "model", "parts": parts}
    return {
        "candidates": [{"index": 0, "content": content}],
        "modelVersion": question.model,
        "responseId": telling.identity,
    }


def _usage(telling: Telling) -> dict[str, int]:
    usage = telling.usage
    return {
        "promptTokenCount": usage.input,
        "cachedContentTokenCount": usage.cached,
        # Here the reasoning is beside the answer, not within it.
        "candidatesTokenCount": usage.output - usage.reasoning,
        "thoughtsTokenCount": usage.reasoning,
        "totalTokenCount": usage.input + usage.output,
    }


def failure(fault: Fault) -> Failure:
    """Write an error instead of an answer."""
    body = _error(fault)
    headers = {} if fault.retry_after is None else pause(fault.retry_after)
    return Failure(body["error"]["code"], body, headers)


def _error(fault: Fault) -> dict[str, Any]:
    status, name, message = USUAL[fault.kind]
    details: list[dict[str, Any]] = []
    if fault.kind in QUOTAS:
        violation = {
            "quotaMetric": "generativelanguage.googleapis.com/generate_content_requests",
            "quotaId": QUOTAS[fault.kind],
        }
        details.append({"@type": f"{TYPES}.QuotaFailure", "violations": [violation]})
    if fault.retry_after is not None:
        delay = f"{fault.retry_after:g}s"
        details.append({"@type": f"{TYPES}.RetryInfo", "retryDelay": delay})
    error = {
        "code": status,
        "message": fault.message or message,
        "status": name,
        **({"details": details} if details else {}),
    }
    return {"error": error}
