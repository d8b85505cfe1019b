"""What simulated claude and codex write, in the form of their recorded runs. Pure."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

PRICE = 3e-6
"""Dollars per token."""
MODEL = "opus"


def line(fields: dict[str, Any]) -> str:
    """Write one event as the programs do."""
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False)


def cost_of(tokens: int) -> float:
    """Return what the program says that it cost."""
    return round(tokens * PRICE, 6)


def clock_time(at: float) -> str:
    """Name an instant as codex does: the local time of day alone."""
    return datetime.fromtimestamp(at).astimezone().strftime("%I:%M %p").lstrip("0")


# --- claude -----------------------------------------------------------------------------------


def claude_begins() -> list[str]:
    """Return the first line."""
    return [line({"type": "system", "subtype": "init", "session_id": "s", "model": MODEL})]


def claude_step(number: int, tokens: int) -> list[str]:
    """Return one answer of the model, with what it used."""
    usage = {"input_tokens": tokens - 100, "output_tokens": 100}
    content = [{"type": "text", "text": f"step {number}"}]
    message = {"id": f"msg_{number}", "role": "assistant", "content": content, "usage": usage}
    return [line({"type": "assistant", "message": message, "parent_tool_use_id": None})]


def claude_ends(tokens: int, **more: Any) -> list[str]:
    """Return the last line, with the sums of the run."""
    per = {"inputTokens": tokens, "outputTokens": 0, "costUSD": cost_of(tokens)}
    fields = {"type": "result", "subtype": "success", "is_error": False, "result": "Done."}
    fields |= {"usage": {"input_tokens": tokens, "output_tokens": 0}, "stop_reason": "end_turn"}
    fields |= {"terminal_reason": "completed", "total_cost_usd": cost_of(tokens)}
    fields["model_usage_since_last_result"] = {MODEL: per} if tokens else {}
    return [line(fields | more)]


CLAUDE_ERRORS: dict[str, tuple[str, int | None, str, str]] = {
    "rate_limit": ("rate_limit", 429, "usage_limit_reached", "You've hit your 5-hour limit"),
    "overloaded": ("overloaded", 529, "", "API Error: 529 Overloaded."),
    "network": ("unknown", None, "", "API Error: Connection refused (ECONNREFUSED)"),
    "auth": ("authentication_failed", 401, "", "Invalid API key · Fix external API key"),
    "context_overflow": ("", 400, "", "Prompt is too long"),
}


def claude_fails(kind: str, tokens: int, reset: float | None) -> list[str]:
    """Return how it says that the provider, or the key, is in its way."""
    error, status, code, words = CLAUDE_ERRORS[kind]
    told: dict[str, Any] = {"is_api_error_message": True, "api_error_status": status}
    told |= {"error": error, "api_error": code}
    said = []
    if reset is not None:
        info = {"status": "rejected", "resetsAt": int(reset), "rateLimitType": "five_hour"}
        said.append(line({"type": "rate_limit_event", "rate_limit_info": info}))
    content = [{"type": "text", "text": words}]
    message = {"id": "error", "role": "assistant", "content": content}
    said.append(line({"type": "assistant", "message": message, **told}))
    reason = "prompt_too_long" if kind == "context_overflow" else "api_error"
    end = {"is_error": True, "result": words, "terminal_reason": reason}
    return [*said, *claude_ends(tokens, **end, api_error_status=status, api_error=code)]


# --- codex ------------------------------------------------------------------------------------


def codex_begins() -> list[str]:
    """Return the first lines."""
    return [line({"type": "thread.started", "thread_id": "t"}), line({"type": "turn.started"})]


def codex_step(number: int) -> list[str]:
    """Return one message; what it used comes at the end."""
    item = {"id": f"item_{number}", "type": "agent_message", "text": f"step {number}"}
    return [line({"type": "item.completed", "item": item})]


def codex_ends(tokens: int) -> list[str]:
    """Return the last line, with the sums of the run."""
    return [line({"type": "turn.completed", "usage": {"input_tokens": tokens, "output_tokens": 0}})]


CODEX_ERRORS = {
    "rate_limit": "You’ve hit your usage limit. Try again later.",  # noqa: RUF001  # as recorded
    "overloaded": "unexpected status 529 <unknown status code>: Overloaded, url: http://x/v1",
    "network": "stream disconnected before completion: error sending request",
    "auth": "unexpected status 401 Unauthorized: invalid x-api-key, url: http://x/v1",
    "context_overflow": "Codex ran out of room in the model's context window.",
}
CODEX_WAITS = line(
    {"type": "error", "message": "Reconnecting... waiting for network (Connection failed: error)"}
)


def codex_fails(kind: str, reset: float | None) -> list[str]:
    """Return how it says that the provider, or the key, is in its way."""
    words = CODEX_ERRORS[kind]
    if reset is not None:
        words = words.replace("Try again later", f"Try again at {clock_time(reset)}")
    failed = {"type": "turn.failed", "error": {"message": words}}
    return [line({"type": "error", "message": words}), line(failed)]


COMMAND_ERRORS = {
    "network": "error: connect error: connection refused",
    "context_overflow": "error: prompt is too long",
    "error": "error: something went wrong",
}
"""What a program without events writes when it fails."""
