"""Starting a program in a box, against `bwrap` by hand."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.measure import BURST, Options, Row, best, compared, in_turns, script
from bench.world import World, world
from runtime.isolation.around import Place, around
from runtime.isolation.box import Engine
from runtime.isolation.errors import IsolationUnavailableError
from runtime.isolation.probe import choose
from runtime.process import SpawnOrder

if TYPE_CHECKING:
    from runtime.isolation.box import Box

WHAT = "run /bin/true to its end, level container"
BY_HAND = (
    "bwrap", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp",  # noqa: S108  # inside of the box
    "--unshare-all", "--new-session", "--die-with-parent", "/bin/true",
)  # fmt: skip


async def _boxed(made: World, box: Box) -> list[float]:
    times = []
    for number in range(BURST):
        order = SpawnOrder(
            agent_id="boxed",
            attempt=1,
            spawn_id=f"{made.fresh('box').name}.{number}",
            command=("/bin/true",),
            cwd=box.workspace,
            stdin=Path(os.devnull),
            log=made.fresh("log"),
            env={},
            log_cap=65_536,
            box=box,
        )
        began = time.perf_counter()
        process = await made.terminals.spawn(order)
        how = await process.wait()
        times.append(time.perf_counter() - began)
        await process.sweep(1.0)
        if how.code != 0:
            raise RuntimeError(f"{how}: {order.log.read_text()}")
    return times


async def _by_hand() -> list[float]:
    times = []
    for _ in range(BURST):
        began = time.perf_counter()
        process = await asyncio.create_subprocess_exec(*BY_HAND)
        code = await process.wait()
        times.append(time.perf_counter() - began)
        if code != 0:
            raise RuntimeError(f"{' '.join(BY_HAND)} ended with {code}")
    return times


async def measure(options: Options) -> list[Row]:
    """Measure where bubblewrap works; elsewhere there is nothing to compare."""
    try:
        choice = choose("container", network=False, engine=Engine.BUBBLEWRAP)
    except IsolationUnavailableError as refusal:
        print(f"no row for boxes: {refusal}", file=sys.stderr)
        return []
    with world() as made:
        folder = made.folder()
        box = around(choice, Place(folder, made.folder(), made.folder()))
        if box is None:
            raise RuntimeError("a container without a box")

        async def attempt() -> Row:
            mine, theirs = await in_turns(lambda: _boxed(made, box), _by_hand, options.rounds())
            return compared(
                what=WHAT,
                against="bwrap by hand",
                mine=mine,
                theirs=theirs,
                at_most=4.0,
                note=made.note,
            )

        return [await best(attempt)]


if __name__ == "__main__":
    script(measure)
