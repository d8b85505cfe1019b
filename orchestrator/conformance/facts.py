"""The facts of a run in words and as JSON, the same in all cases. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runtime.agents.fields import line_of

if TYPE_CHECKING:
    from orchestrator.conformance.trial import Ran


def shown(ran: Ran) -> str:
    """Name the outcome, and why."""
    if ran.outcome is None or not ran.outcome.detail:
        return ran.ending
    return f"{ran.ending} ({line_of(ran.outcome.detail, 200)})"


def unfinished(ran: Ran) -> str:
    """Say why a run was no whole one; '' if it ended by itself and nothing of it is left."""
    if ran.ended_by is not None:
        return f"it did not end by itself within {ran.seconds:.0f} s"
    if ran.report.survivors:
        return f"processes {list(ran.report.survivors)} outlived even KILL"
    return f"its parser failed: {ran.problem}" if ran.outcome is None else ""


def facts_of(ran: Ran) -> dict[str, Any]:
    """Return what every verdict on a run is judged by."""
    found: dict[str, Any] = {
        "outcome": ran.ending,
        "exit_code": ran.code,
        "run_seconds": round(ran.seconds, 2),
        "printed_bytes": ran.written,
        "unread_prompt_bytes": ran.unread,
        "left_behind": ran.report.left_behind,
    }
    if ran.outcome is not None:
        found |= {
            "detail": ran.outcome.detail,
            "tool_calls": ran.outcome.tool_calls,
            "denied": list(ran.outcome.denied),
            "cost_usd": ran.outcome.cost_usd,
        }
    return found
