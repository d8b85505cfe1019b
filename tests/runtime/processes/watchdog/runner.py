"""A runner with agents that try to outlive it; run as a script.

    python runner.py FOLDER LEVEL COUNT [ATTACK]

Each agent has a folder of its own in FOLDER, with a lock that all that descends from it holds. When
all attacks stand it says `up`, and then does what it is told on standard input: `abort`, `exhaust`
(take memory without end), `threads` (make threads without end, and abort for want of one), `spin`,
`end` (stop all, and end) or `leave` (end as if nothing was running).
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.isolation.workspace_sandbox import OpenedPaths, SandboxPaths, around
from runtime.limits import NO_LIMITS, Limits
from runtime.process import SpawnOrder, TerminalManager
from runtime.processes.cgroups import probe
from tests.runtime.isolation.inside import given
from tests.runtime.processes import attackers
from tests.runtime.processes.attack_control import command

if TYPE_CHECKING:
    from runtime.isolation.sandbox import Sandbox
    from runtime.process import AgentProcess

ATTACKS = {
    "process": ("daemon", "deaf", "stopped", "leaderless"),
    # What such a one leaves behind ends with its first process.
    "container": ("daemon", "deaf", "stopped"),
}
SUSPENDED, LIMITED = 4, 3
"""Each so manieth agent is held still, or has limits where this machine enforces them."""


def mark_of(folder: Path, number: int) -> str:
    """Name the spawn of an agent: the next runner of the same test uses the same, no other."""
    return f"watched-{zlib.crc32(os.fsencode(folder.parent)):x}-{number}"


def _sandbox(folder: Path, level: str) -> Sandbox | None:
    choice = given() if level == "container" else None
    if choice is None:
        return None
    nothing = folder / "nothing"
    nothing.mkdir()
    programs = OpenedPaths(readable=(Path(attackers.__file__).parent, Path(sys.prefix)))
    return around(choice, SandboxPaths(folder, nothing, nothing), opened=programs)


async def _agent(
    terminals: TerminalManager, folder: Path, level: str, number: int, attack: str
) -> AgentProcess:
    folder.mkdir()  # noqa: ASYNC240  # nothing else goes on
    limited = number % LIMITED == 0 and probe.capabilities().processes.base is not None
    attacks = ATTACKS[level]
    order = SpawnOrder(
        agent_id=f"agent-{number}",
        attempt=1,
        spawn_id=mark_of(folder.parent, number),
        command=command(attack or attacks[number % len(attacks)], folder),
        cwd=folder,
        stdin=Path(os.devnull),
        log=folder / "log",
        env={},
        log_cap=1 << 20,
        limits=Limits(processes=300) if limited else NO_LIMITS,
        sandbox=_sandbox(folder, level),
    )
    process = await terminals.spawn(order)
    while not (folder / "up").exists():  # noqa: ASYNC110  # a file tells
        await asyncio.sleep(0.005)
    if number % SUSPENDED == 0 and not attack:
        await process.suspend()
    return process


def _exhaust() -> None:
    taken = []
    while True:
        taken.append(b"x" * (1 << 20))


def _make_threads() -> None:
    try:
        while True:
            threading.Thread(target=threading.Event().wait, daemon=True).start()
    except RuntimeError:
        os.abort()


def _spin() -> None:
    while True:
        pass


DEATHS = {"abort": os.abort, "exhaust": _exhaust, "threads": _make_threads, "spin": _spin}


async def main(folder: Path, level: str, count: int, attack: str = "") -> None:
    terminals = TerminalManager(folder)
    await asyncio.gather(
        *(_agent(terminals, folder / str(number), level, number, attack) for number in range(count))
    )
    heard = asyncio.create_task(asyncio.to_thread(sys.stdin.readline))
    await asyncio.sleep(0)  # its thread is there before there is no room for one
    print("up", flush=True)  # noqa: T201  # this is how it talks
    while not heard.done():
        # As any runner does: it takes what ended off the process table.
        terminals.sample()
        await asyncio.wait((heard,), timeout=0.5)
    word = heard.result().strip()
    if word in DEATHS:
        DEATHS[word]()
    if word == "end":
        await terminals.aclose(0.1)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), *sys.argv[4:]))
