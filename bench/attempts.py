"""Agent exit to next agent start, against a bare asyncio loop that spawns and waits."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.agent import gaps
from bench.measure import BURST, Options, Row, compared, script
from bench.world import World, agent_of, patient, task_of, world

if TYPE_CHECKING:
    from pathlib import Path

WARM_UP = 3
"""First gaps of a burst that do not count: templates and caches are cold."""


@dataclass(frozen=True, slots=True)
class Case:
    """One line of the table."""

    what: str
    with_git: bool
    at_most: float


LIVES_MS = 20
CASES = (
    Case(
        "agent exit to next start, history on, git off; agents of 20 ms",
        with_git=False,
        at_most=2.0,
    ),
    Case(
        "the same with git snapshot, summary, store; 100 files; agents of 20 ms",
        with_git=True,
        at_most=8.0,
    ),
)


async def _product(made: World, repo: Path, case: Case) -> list[float]:
    stamps = made.fresh("stamps")
    name = stamps.name
    settings = patient(max_retries=BURST + WARM_UP)
    loop = made.loop(repo, with_git=case.with_git, settings=settings)
    command = made.agent.exits(stamps, after_ms=LIVES_MS)
    result = await loop.run_agent_loop(agent_of(name, command), task_of(name))
    found = gaps(stamps)[WARM_UP:]
    if len(found) != BURST:
        raise RuntimeError(f"{len(found)} gaps instead of {BURST}: {result}")
    return found


async def _bare(made: World) -> list[float]:
    stamps = made.fresh("stamps")
    command = made.agent.exits(stamps, after_ms=LIVES_MS)
    for _ in range(BURST + WARM_UP + 1):
        process = await asyncio.create_subprocess_exec(*command)
        await process.wait()
    return gaps(stamps)[WARM_UP:]


async def _compare(made: World, case: Case, options: Options) -> Row:
    repo = made.repository(100) if case.with_git else made.folder()
    return await compared(
        lambda: _product(made, repo, case),
        lambda: _bare(made),
        options.rounds(),
        what=case.what,
        against="bare asyncio",
        at_most=case.at_most,
        note=made.note,
    )


async def measure(options: Options) -> list[Row]:
    """Measure without and with git."""
    with world() as made:
        return [await _compare(made, case, options) for case in CASES]


if __name__ == "__main__":
    script(measure)
