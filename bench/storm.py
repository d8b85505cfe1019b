"""Many loops at once: attempts per second with instant agents, and no breakpoint lost."""

from __future__ import annotations

import asyncio
import json
import time

from bench.agent import stamps_of
from bench.measure import Options, Row, best, script, spread
from bench.world import World, agent_of, patient, task_of, world

LOOPS = 100
ROUNDS = 5
PATIENCE = 240.0
"""Seconds after which a breakpoint that was not acted upon counts as lost."""


async def _product(made: World, each: int) -> float:
    repo = made.folder()
    stamps = made.fresh("stamps")
    loop = made.loop(
        repo, with_git=False, settings=patient(max_retries=each - 1, max_live_agents=LOOPS)
    )
    command = made.agent.exits(stamps)
    began = time.perf_counter()
    await asyncio.gather(
        *(
            loop.run_agent_loop(agent_of(f"T{number}", command), task_of(f"T{number}"))
            for number in range(LOOPS)
        )
    )
    took = time.perf_counter() - began
    started = len(stamps_of(stamps))
    if started != LOOPS * each:
        raise RuntimeError(f"{started} attempts instead of {LOOPS * each}")
    return started / took


async def _bare(made: World, each: int) -> float:
    command = made.agent.exits(made.fresh("stamps"))

    async def one() -> None:
        for _ in range(each):
            process = await asyncio.create_subprocess_exec(*command)
            await process.wait()

    began = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(LOOPS)))
    return LOOPS * each / (time.perf_counter() - began)


async def _throughput(made: World, options: Options) -> Row:
    each = 3 if options.quick else 10
    mine: list[float] = []
    theirs: list[float] = []
    for number in range(2 if options.quick else ROUNDS):
        for ours in (True, False) if number % 2 else (False, True):
            if ours:
                mine.append(await _product(made, each))
            else:
                theirs.append(await _bare(made, each))
    ratio = sorted(mine)[len(mine) // 2] / sorted(theirs)[len(theirs) // 2]
    return Row(
        what=f"{LOOPS} loops at once, instant agents, git off: attempts per second",
        against="bare asyncio, same agents",
        ours=spread(mine, 1.0, "/s"),
        floor=spread(theirs, 1.0, "/s"),
        ratio=ratio,
        reach=">= 0.5x",
        ok=ratio >= 0.5,
        badness=0.5 / ratio,
        samples=len(mine),
        note=made.note,
    )


async def _all_heard(made: World, options: Options) -> Row:
    count = 100 if options.quick else 1000
    repo = made.folder()
    stamps = made.fresh("stamps")
    loop = made.loop(repo, with_git=False, settings=patient(max_live_agents=count, max_retries=0))

    async def one(name: str) -> bool:
        said = {"type": "task_complete", "task_id": name, "summary": f"done by {name}"}
        entry = {f"agent-{name}": {"lifecycle_state": "complete", "breakpoint": said}}
        command = made.agent.says(stamps, json.dumps(entry), delay_ms=500)
        result = await loop.run_agent_loop(agent_of(name, command), task_of(name))
        return result.summary == said["summary"] and result.spawn_count == 1

    began = time.perf_counter()
    tasks = [asyncio.create_task(one(f"T{number}")) for number in range(count)]
    done, late = await asyncio.wait(tasks, timeout=PATIENCE)
    took = time.perf_counter() - began
    if late:
        await loop.shutdown()
    heard = sum(task.result() for task in done)
    return Row(
        what=f"{count:,} loops at once, living agents: breakpoints lost",
        against="",
        ours=f"{count - heard} lost; all done in {took:.1f} s",
        reach="0",
        ok=heard == count,
        badness=1.0 if heard == count else 2.0,
        samples=count,
        note=made.note,
    )


async def measure(options: Options) -> list[Row]:
    """Measure throughput, then look for lost breakpoints."""
    with world() as made:
        return [
            await best(lambda: _throughput(made, options)),
            await best(lambda: _all_heard(made, options)),
        ]


if __name__ == "__main__":
    script(measure)
