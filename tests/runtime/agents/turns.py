"""What claude prints of its turns and of its work in the background, as events."""

from __future__ import annotations

from typing import Any

INIT = {"type": "system", "subtype": "init", "session_id": "s", "model": "m"}
BEHIND = {
    "type": "system",
    "subtype": "task_started",
    "tool_use_id": "t1",
    "is_backgrounded": True,
}
NOTIFIED = {"type": "system", "subtype": "task_notification", "tool_use_id": "t1"}


def result(tokens: int = 100, cost: float = 1.0, **more: Any) -> dict[str, Any]:
    """End a turn, and say what was used since the turn before."""
    since = {"m": {"inputTokens": tokens, "costUSD": cost}} if tokens else {}
    return {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "result": "I wait.",
        "usage": {"input_tokens": tokens},
        "model_usage_since_last_result": since,
        "total_cost_usd": cost,
        **more,
    }
