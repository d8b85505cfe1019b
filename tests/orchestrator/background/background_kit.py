"""What the tests of runners in the background share.

Such runners are nobody's children: they are found by their lock and their command line.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lifecycle.store.lock import holder
from runtime import proc_table
from tests.orchestrator.loopkit import BIN, Live, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.orchestrator.loopkit import World

LOOPWRIGHT = str(BIN / "loopwright")


def run(world: World, *args: str, code: int = 0) -> Live:
    """Run a command to its end, in a process of its own: what it starts must outlive it."""
    with Live(world, args, {}) as live:
        live.ends(code)
    return live


def runner(world: World) -> dict[str, Any] | None:
    """Return who holds the lock of the repository."""
    return holder(world.repo / ".loopwright")


def lives(pid: int) -> bool:
    """Tell whether a process is there."""
    row = proc_table.read_row(pid)
    return row is not None and not row.dead


def of_world(world: World) -> list[int]:
    """Return the processes that work in the folder of this test or were started with it."""
    found = []
    for each in Path("/proc").iterdir():
        if not each.name.isdigit() or int(each.name) == os.getpid():
            continue
        with suppress(OSError):
            told = (each / "cmdline").read_bytes() + os.fsencode((each / "cwd").readlink())
            if os.fsencode(world.folder) in told and lives(int(each.name)):
                found.append(int(each.name))
    return found


@contextmanager
def nothing_left(world: World) -> Iterator[None]:
    """End what a failing test left; nothing may be left by one that passes."""
    try:
        yield
        if sys.platform == "linux":
            until(lambda: not of_world(world), lambda: f"left: {of_world(world)}")
    finally:
        said = runner(world)
        if said is not None and isinstance(said.get("pid"), int):
            os.kill(said["pid"], signal.SIGTERM)
            until(lambda: not lives(said["pid"]), "the runner of this test has ended")
