"""Breakpoint written by a living agent to the start of the next, against watchfiles by default.

Ours is the whole thing on a repository of 100 files: watch, stop, snapshot, summary, store, the
event that clears the block, spawn. The peer watches, kills and spawns, and does nothing else.
"""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

import watchfiles

from bench.agent import gaps
from bench.measure import Options, Row, compared, script
from bench.world import World, agent_of, patient, said, task_of, world
from ci.events import CIEvent, CIEventType
from lifecycle.machine.states import Blocked

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.reporting import Committed

BURST = 10
WARM_UP = 2
SPEAKS_AFTER_MS = 60
"""Long enough for both watches to be up; not a multiple of what either of them sleeps."""
A_WORD = "a word"
"""What each attempt is blocked on, and an event that the caller hands in clears at once."""


def _blocked(name: str) -> str:
    return said(name, type="blocked", blocked_on=[A_WORD])


async def _product(made: World, repo: Path) -> list[float]:
    stamps = made.fresh("stamps")
    name = stamps.name
    # The first attempt blocks for free; each that blocks again on the same costs a retry.
    settings = patient(max_retries=BURST + WARM_UP - 1)
    event = CIEvent(
        type=CIEventType.BUILD_SUCCESS, event_id=name, at=0.0, branch=f"agent/agent-{name}"
    )

    def clear(news: Committed) -> None:
        if news.after == Blocked.__name__ != news.before:
            loop.engine.hear(event)

    loop = made.loop(repo, with_git=True, settings=settings, observers=(clear,))
    command = made.agent.says(stamps, _blocked(name), delay_ms=SPEAKS_AFTER_MS)
    result = await loop.run_agent_loop(agent_of(name, command), task_of(name))
    found = gaps(stamps)[WARM_UP:]
    if len(found) != BURST:
        raise RuntimeError(f"{len(found)} gaps instead of {BURST}: {result}")
    await loop.cleanup_agent(f"agent-{name}")
    return found


async def _watchfiles(made: World) -> list[float]:
    stamps = made.fresh("stamps")
    folder = made.folder()
    command = made.agent.says(
        stamps, _blocked("T"), delay_ms=SPEAKS_AFTER_MS, file=folder / "communications.json"
    )

    running: list[asyncio.subprocess.Process] = []

    async def begin() -> None:
        # The watch does not tell what was there before it, so it gets time to come up.
        await asyncio.sleep(0.5)
        running.append(await asyncio.create_subprocess_exec(*command))

    beginning = asyncio.create_task(begin())
    count = 0
    async for changes in watchfiles.awatch(folder):
        if not any(name.endswith("communications.json") for _, name in changes):
            continue
        process = running.pop()
        process.send_signal(signal.SIGTERM)
        await process.wait()
        count += 1
        if count > BURST + WARM_UP:
            break
        running.append(await asyncio.create_subprocess_exec(*command))
    await beginning
    return gaps(stamps)[WARM_UP:][:BURST]


async def measure(options: Options) -> list[Row]:
    """Measure; few samples suffice, the peer waits for its own step most of the time."""
    with world() as made:
        repo = made.repository(100)
        row = await compared(
            lambda: _product(made, repo),
            lambda: _watchfiles(made),
            2 if options.quick else 10,
            what="breakpoint written to next start, all on; 100 files",
            against="watchfiles defaults, kill, spawn",
            at_most=0.35,
            note=made.note,
        )
        return [row]


if __name__ == "__main__":
    script(measure)
