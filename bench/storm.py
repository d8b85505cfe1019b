"""Many loops at once: no breakpoint is lost."""

from __future__ import annotations

import asyncio
import time

from bench.measure import Options, Row, best, script
from bench.world import World, agent_of, patient, said, task_of, world

PATIENCE = 240.0
"""Seconds after which a breakpoint that was not acted upon counts as lost."""


async def _all_heard(made: World, options: Options) -> Row:
    count = 100 if options.quick else 1000
    repo = made.folder()
    stamps = made.fresh("stamps")
    loop = made.loop(repo, with_git=False, settings=patient(max_live_agents=count, max_retries=0))

    async def one(name: str) -> bool:
        summary = f"done by {name}"
        text = said(name, type="task_complete", summary=summary)
        command = made.agent.says(stamps, text, delay_ms=500)
        result = await loop.run_agent_loop(agent_of(name, command), task_of(name))
        return result.summary == summary and result.spawn_count == 1

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
    """Look for lost breakpoints."""
    with world() as made:
        return [await best(lambda: _all_heard(made, options))]


if __name__ == "__main__":
    script(measure)
