"""How much of each limit is left in this runner. Must not change anything."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from orchestrator.control import costs

if TYPE_CHECKING:
    from orchestrator.control.spent import BudgetsForm
    from orchestrator.runner.server_interface import RunnerPort


async def budgets_now(runner: RunnerPort) -> BudgetsForm:
    """Return every limit that holds now, and the programs that rest."""
    present = runner.now()
    shared = runner.engine.shared
    await shared.program_limits.learn(runner.store)
    items: Any = await asyncio.to_thread(_parts, runner, present)
    rests = shared.program_limits.known(present)
    return {
        "items": items,
        "programs": [
            {"program": each.program, "why": each.why, "until": each.until} for each in rests
        ],
    }


def _parts(runner: RunnerPort, present: float) -> list[dict[str, Any]]:
    database = runner.engine.machine.paths.database
    limits = runner.settings().model_dump()
    found = costs.budgets(database, limits, present)
    return [part.to_json() for part in found]
