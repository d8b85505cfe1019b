"""A runner starts after a crash: 1,000 unfinished lifecycles, 100 of them with a dead agent."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from bench.agent import stamps_of
from bench.measure import Options, Row, best, limited, script
from bench.world import World, agent_of, patient, task_of, world
from lifecycle.machine.states import (
    About,
    AwaitingHuman,
    Blocked,
    Process,
    PrPending,
    Signal,
    State,
    Suspended,
    Tally,
    Working,
)
from lifecycle.record import AgentLifecycle
from lifecycle.store.sqlite.store import SqliteStore
from lifecycle.working_copy import facts_of

if TYPE_CHECKING:
    from pathlib import Path

FAR = 4_000_000_000.0
NO_PROCESS = 4_194_300
"""A number near the largest a process can have; its start time does not fit anyway."""
WAITS = 9
"""For each lifecycle in the middle of an attempt, so many wait."""


def _state(number: int) -> State:
    tally = Tally(attempt=3, spawn_count=2, retry_count=1)
    word = Signal(type="blocked", blocked_on=("a word",), summary="waits")
    match number % (WAITS + 1):
        case 0:
            spawn_id = f"agent-T{number}.00000000.7.0"
            process = Process(pid=NO_PROCESS, start_time=1, boot_id="past", spawn_id=spawn_id)
            return Working(tally=tally, process=process, since=1.0)
        case 1 | 2:
            pr = Signal(type="pr_created", pr_url="local://pr/1")
            return PrPending(tally=tally, since=1.0, until=FAR, word=pr, url="local://pr/1")
        case 3:
            return AwaitingHuman(tally=tally, about=About.QUESTION, text="?", since=1.0, until=FAR)
        case 4:
            blocked = Blocked(tally=tally, since=1.0, until=FAR, word=word)
            return Suspended(tally=tally, inner=blocked, since=1.0)
        case _:
            return Blocked(tally=tally, since=1.0, until=FAR, word=word)


async def _crashed(repo: Path, command: tuple[str, ...], count: int) -> int:
    """Write the records a crashed runner left; return how many were in the middle of an attempt."""
    state = repo / ".loopwright"
    state.mkdir(mode=0o700)
    store = await SqliteStore.open(state / "state.db")
    working = 0
    records = []
    for number in range(count):
        name = f"T{number}"
        record = AgentLifecycle(
            agent_id=f"agent-{name}",
            task=name,
            task_id=name,
            created_at=1.0,
            birth="00000000",
            facts=facts_of(task_of(name), agent_of(name, command)),
            work=_state(number),
        )
        record.derive()
        working += isinstance(record.work, Working)
        records.append(record)
    await asyncio.gather(*(store.create(record) for record in records))
    await store.aclose()
    return working


async def _recover(made: World, count: int) -> float:
    repo = made.folder()
    stamps = made.fresh("stamps")
    command = made.agent.stays(stamps)
    working = await _crashed(repo, command, count)
    settings = patient(max_live_agents=working, retry_interval=30.0)
    loop = made.loop(repo, with_git=False, settings=settings)
    began = time.perf_counter()
    runs = [
        asyncio.create_task(
            loop.run_agent_loop(agent_of(f"T{number}", command), task_of(f"T{number}"))
        )
        for number in range(count)
    ]
    while len(stamps_of(stamps)) < working:
        await asyncio.sleep(0.01)
        failed = [run for run in runs if run.done()]
        if failed:
            raise RuntimeError(f"a loop ended while it was recovered: {failed[0].result()}")
    took = time.perf_counter() - began
    missing = [n for n in range(count) if f"agent-T{n}" not in loop.engine.running()]
    if missing:
        raise RuntimeError(f"{len(missing)} lifecycles were not taken up")
    await loop.shutdown()
    await asyncio.gather(*runs)
    return took


async def measure(options: Options) -> list[Row]:
    """Measure from the start of the runner until all wait again or have their next agent."""
    count = 100 if options.quick else 1000
    with world() as made:

        async def attempt() -> Row:
            took = await _recover(made, count)
            return limited(
                what=f"recovery of {count:,} unfinished lifecycles, one in ten with a dead agent",
                ours=f"{took:.2f} s",
                value=took,
                at_most=5.0,
                reach="< 5 s",
                samples=1,
                note=made.note,
            )

        return [await best(attempt)]


if __name__ == "__main__":
    script(measure)
