"""What both APIs of OpenAI share: their errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.models.forms import Failure, pause

if TYPE_CHECKING:
    from tests.models.script import Fault

USUAL = {
    "rate_limit": (
        429,
        "requests",
        "rate_limit_exceeded",
        "Rate limit reached for requests per min (RPM): Limit 3, Used 3, Requested 1.",
    ),
    "usage_limit": (429, "usage_limit_reached", None, "The usage limit has been reached"),
    "auth": (
        401,
        "invalid_request_error",
        "invalid_api_key",
        "Incorrect API key provided. You can find your API key in your account settings.",
    ),
    "overloaded": (
        503,
        "server_error",
        "server_is_overloaded",
        "The engine is currently overloaded, please try again later",
    ),
    "context": (
        400,
        "invalid_request_error",
        "context_length_exceeded",
        "Your input exceeds the context window of this model. Please adjust it and try again.",
    ),
}


def failure(fault: Fault) -> Failure:
    """Write an error instead of an answer."""
    headers = {} if fault.retry_after is None else pause(fault.retry_after)
    if fault.retry_after is not None and fault.kind == "rate_limit":
        headers["x-ratelimit-reset-requests"] = f"{fault.retry_after:.0f}s"
    return Failure(USUAL[fault.kind][0], {"error": _error(fault)}, headers)


def _error(fault: Fault) -> dict[str, Any]:
    """Write the error itself; only a plan's limit tells when it ends."""
    _, kind, code, message = USUAL[fault.kind]
    told: dict[str, Any] = {
        "message": fault.message or message,
        "type": kind,
        "param": None,
        "code": code,
    }
    if fault.kind == "usage_limit":
        told["plan_type"] = "plus"
        if fault.resets_at is not None:
            told["resets_at"] = fault.resets_at
    return told
