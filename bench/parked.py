"""500 loops that wait: what they cost a core, in memory, in threads."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import re
import resource
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from bench.measure import Options, Row, script
from bench.world import World, agent_of, patient, task_of, world
from ci.local import LocalCIProvider
from lifecycle.errors import LifecycleError
from lifecycle.machine.states import Blocked

if TYPE_CHECKING:
    from lifecycle.loop import AgentLifecycleLoop

LOOPS = 500
WATCHED_S = 40.0
"""Longer than `retry_interval`, so that every loop has looked at its blocker once."""


def _uss() -> int:
    """Return the memory that only this process has, in bytes; 0 where the system does not tell."""
    smaps = Path("/proc/self/smaps_rollup")
    if not smaps.exists():
        return 0
    private = re.findall(r"^Private_(?:Clean|Dirty):\s+(\d+) kB", smaps.read_text(), re.MULTILINE)
    return 1024 * sum(map(int, private))


def _threads() -> int:
    tasks = Path("/proc/self/task")
    return len(os.listdir(tasks)) if tasks.exists() else 0  # noqa: PTH208  # names only


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def _park(
    made: World, loop: AgentLifecycleLoop, names: list[str]
) -> list[asyncio.Task[object]]:
    """Start loops whose agents are blocked at once; return when all of them wait."""
    waiting: set[str] = set()
    tasks: list[asyncio.Task[object]] = []
    for name in names:
        word = {"type": "blocked", "task_id": name, "summary": "waits", "blocked_on": ["a word"]}
        entry = {f"agent-{name}": {"lifecycle_state": "blocked", "breakpoint": word}}
        command = made.agent.says(made.fresh("stamps"), json.dumps(entry))
        running = loop.run_agent_loop(agent_of(name, command), task_of(name))
        tasks.append(asyncio.create_task(running))
    while len(waiting) < len(names):
        await asyncio.sleep(0.05)
        for name in names:
            with suppress(LifecycleError):  # it has not opened yet
                owner = loop.engine.owner(f"agent-{name}")
                if owner is not None and isinstance(owner.state, Blocked):
                    waiting.add(name)
        failed = [task for task in tasks if task.done()]
        if failed:
            raise RuntimeError(f"a loop ended instead of waiting: {failed[0].result()}")
    return tasks


def _loops(options: Options) -> int:
    return 100 if options.quick else LOOPS


async def _measure(made: World, options: Options, *, whole: bool) -> tuple[float, float, int]:
    """Return share of a core, bytes of each loop, threads; `whole` is with git and local CI."""
    repo = made.repository(20) if whole else made.folder()
    loop = made.loop(
        repo,
        with_git=whole,
        settings=patient(retry_interval=30.0, max_live_agents=20),
        ci=LocalCIProvider(repo) if whole else None,
    )
    few = await _park(made, loop, [f"W{number}" for number in range(10)])
    gc.collect()
    before = _uss()
    count = _loops(options)
    many = await _park(made, loop, [f"T{number}" for number in range(count)])
    await asyncio.sleep(2.0)  # what a living agent needed is let go of after a while
    gc.collect()
    each = (_uss() - before) / count
    seconds = 5.0 if options.quick else WATCHED_S
    began = _cpu()
    await asyncio.sleep(seconds)
    used = (_cpu() - began) / seconds
    threads = _threads()
    await loop.shutdown()
    await asyncio.gather(*few, *many)
    return used, each, threads


async def measure(options: Options) -> list[Row]:
    """Measure all three at once; the share of a core also with all that is on by default."""
    count = _loops(options)
    with world() as made:
        used, each, threads = await _measure(made, options, whole=False)
        found = [
            _share(used, count, "git off", made),
            _memory(each, count, made),
            _count(threads, count),
        ]
        used, _, _ = await _measure(made, options, whole=True)
        return [*found, _share(used, count, "git and local CI on", made)]


def _share(used: float, count: int, how: str, made: World) -> Row:
    return Row(
        what=f"{count} parked loops, {how}: share of one core",
        against="",
        ours=f"{used:.3%}",
        reach="<= 0.1 %",
        ok=used <= 0.001,
        badness=used / 0.001,
        samples=1,
        note=made.note,
    )


def _memory(each: float, count: int, made: World) -> Row:
    return Row(
        what=f"{count} parked loops: memory of each (USS)",
        against="",
        ours=f"{each / 1024:.1f} KiB",
        reach="<= 32 KiB",
        ok=each <= 32 * 1024,
        badness=each / (32 * 1024),
        samples=1,
        note=made.note,
    )


def _count(threads: int, count: int) -> Row:
    return Row(
        what=f"{count} parked loops: threads in all",
        against="",
        ours=str(threads),
        reach="<= 8",
        ok=threads <= 8,
        badness=threads / 8,
        samples=1,
    )


if __name__ == "__main__":
    script(measure)
