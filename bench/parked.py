"""500 loops that wait: what they cost a core, in memory, in threads."""

from __future__ import annotations

import asyncio
import gc
import os
import re
from pathlib import Path

from bench.measure import Options, Row, cpu, limited, script
from bench.world import World, patient, world
from ci.local.provider import LocalCIProvider
from lifecycle.machine.states import Blocked, State

LOOPS = 500
WORD = {"type": "blocked", "blocked_on": ["a word"]}
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


def _waits(state: State | None) -> bool:
    return isinstance(state, Blocked)


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
    few = await made.park(loop, [f"W{number}" for number in range(10)], _waits, **WORD)
    gc.collect()
    before = _uss()
    count = _loops(options)
    many = await made.park(loop, [f"T{number}" for number in range(count)], _waits, **WORD)
    await asyncio.sleep(2.0)  # what a living agent needed is released after a while
    gc.collect()
    each = (_uss() - before) / count
    seconds = 5.0 if options.quick else WATCHED_S
    began = cpu()
    await asyncio.sleep(seconds)
    used = (cpu() - began) / seconds
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
    return limited(
        what=f"{count} parked loops, {how}: share of one core",
        ours=f"{used:.3%}",
        value=used,
        at_most=0.001,
        reach="<= 0.1 %",
        samples=1,
        note=made.note,
    )


def _memory(each: float, count: int, made: World) -> Row:
    return limited(
        what=f"{count} parked loops: memory of each (USS)",
        ours=f"{each / 1024:.1f} KiB",
        value=each,
        at_most=32 * 1024,
        reach="<= 32 KiB",
        samples=1,
        note=made.note,
    )


def _count(threads: int, count: int) -> Row:
    return limited(
        what=f"{count} parked loops: threads in all",
        ours=str(threads),
        value=threads,
        at_most=8,
        reach="<= 8",
        samples=1,
    )


if __name__ == "__main__":
    script(measure)
