"""Attempts of all lifecycles since an instant: who worked when, on what, and how it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from orchestrator.runner.server_interface import RunnerPort

MOST = 1000


class AttemptSpanForm(TypedDict):
    """When one attempt worked."""

    agent_id: str
    task_id: str
    attempt: int
    program: str
    started_at: float
    ended_at: float | None
    """null while it works"""
    outcome: str
    plan: str
    tokens: int | None
    cost_usd: float | None
    """null where it is not known, which is not nothing"""


class AttemptSpansForm(TypedDict):
    """Attempts, the newest first."""

    items: list[AttemptSpanForm]


async def attempts(
    runner: RunnerPort, since: float, *, plan: str = "", limit: int = MOST
) -> AttemptSpansForm:
    """Return the attempts that went on after an instant."""
    found = await runner.store.attempts_since(since, plan=plan, limit=limit)
    return {
        "items": [
            {
                "agent_id": each.agent_id,
                "task_id": each.task_id,
                "attempt": each.attempt,
                "program": each.program,
                "started_at": each.started_at,
                "ended_at": each.ended_at,
                "outcome": each.outcome,
                "plan": each.plan,
                "tokens": each.tokens,
                "cost_usd": each.cost_usd,
            }
            for each in found
        ]
    }
