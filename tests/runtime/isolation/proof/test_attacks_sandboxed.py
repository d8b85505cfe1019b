"""What escapes the end of a plain process does not escape the end of a sandbox or its runner."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runtime import proc_table
from runtime.isolation.workspace_sandbox import OpenedPaths, SandboxPaths, around
from runtime.limits import NO_LIMITS, Limits
from runtime.processes.cgroups import probe
from tests.runtime.isolation.inside import given
from tests.runtime.process_fixtures import GRACE, Stage, staged, until
from tests.runtime.processes import attackers
from tests.runtime.processes.attack_control import command, held

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from runtime.isolation.sandbox import Sandbox
    from runtime.proc_tree import ProcessRow
    from runtime.process import AgentProcess

UNDYING = ["daemon", "leaderless", "deaf", "stopped", "bomb", "comet", "comets"]
"""Each outlives terminate() and kill() where there is no sandbox: see test_attacks_process.py."""
ABLE = probe.capabilities()


LEADERLESS = ("leaderless", "comet", "holder")


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(tmp_path) as stage:
        yield stage
        (tmp_path / "over").touch()


def box_in(folder: Path) -> Sandbox | None:
    choice = given()
    if choice is None:
        return None
    programs = OpenedPaths(readable=(Path(attackers.__file__).parent, Path(sys.prefix)))
    nothing = folder / "nothing"
    nothing.mkdir()
    return around(choice, SandboxPaths(folder, nothing, nothing), opened=programs)


async def attack(
    stage: Stage, name: str, sandbox: Sandbox, limits: Limits = NO_LIMITS
) -> AgentProcess:
    order = stage.order(*command(name, stage.folder), log_cap=1 << 20)
    return await stage.terminals.spawn(dataclasses.replace(order, sandbox=sandbox, limits=limits))


@pytest.mark.parametrize("name", UNDYING)
async def test_stop_leaves_nothing_alive_in_a_sandbox(stage: Stage, name: str) -> None:
    if (sandbox := box_in(stage.folder)) is None:
        return
    process = await attack(stage, name, sandbox)
    await until((stage.folder / "up").exists)
    report = await process.stop(GRACE)
    assert report.survivors == ()
    assert not held(stage.folder)


@pytest.mark.parametrize("name", LEADERLESS)
async def test_what_is_left_behind_in_a_sandbox_ends_with_its_first_process(
    stage: Stage, name: str
) -> None:
    if (sandbox := box_in(stage.folder)) is None:
        return
    process = await attack(stage, name, sandbox)
    report = await process.sweep(GRACE)
    assert report.survivors == ()
    assert not held(stage.folder)


@pytest.mark.parametrize("name", ["hog", "herd"])
async def test_a_memory_limit_ends_a_whole_sandbox(stage: Stage, name: str) -> None:
    if (sandbox := box_in(stage.folder)) is None or not ABLE.memory.base:
        return
    process = await attack(stage, name, sandbox, Limits(memory_mb=100))
    report = await process.sweep(GRACE)
    assert process.limit_reached == "memory limit 100 MB"
    assert report.survivors == ()
    assert not (stage.folder / "up").exists()
    assert not held(stage.folder)


RUNNER = """
import asyncio, os, pickle, signal, sys
sys.path[:0] = {path!r}
from pathlib import Path
from runtime.process import SpawnOrder, TerminalManager

async def main(folder, *command):
    sandbox = pickle.loads(bytes.fromhex({sandbox!r}))
    order = SpawnOrder(
        "agent", 1, {mark!r}, command, folder, Path(os.devnull), folder / "log", {{}}, 1 << 20,
        sandbox=sandbox,
    )
    await TerminalManager(folder).spawn(order)
    while not (folder / "up").exists():
        await asyncio.sleep(0.005)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:]))
"""


@pytest.mark.parametrize("name", UNDYING)
async def test_a_killed_runner_takes_the_sandbox_with_it(tmp_path: Path, name: str) -> None:
    if (sandbox := box_in(tmp_path)) is None:
        return
    mark = f"spawn-{os.urandom(8).hex()}"
    runner = RUNNER.format(path=sys.path, sandbox=pickle.dumps(sandbox).hex(), mark=mark)
    try:
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", runner, str(tmp_path), *command(name, tmp_path)],
            check=False,
        )
        assert done.returncode == -signal.SIGKILL
        assert (tmp_path / "up").exists()
        # By nobody's doing: no runner is started again here.
        await until(lambda: not held(tmp_path))
    finally:
        (tmp_path / "over").touch()


TRIES = 5
KILLED_EARLY = """
import os, sys
sys.path[:0] = {path!r}
import asyncio, dataclasses, pickle, signal
from pathlib import Path
from runtime import proc_table
from runtime.process import TerminalManager
from tests.runtime.isolation.proof.test_attacks_sandboxed import without_bubblewrap
from tests.runtime.process_fixtures import Stage

async def main(folder):
    stage = Stage(folder, TerminalManager(folder))
    sandbox = pickle.loads(bytes.fromhex({sandbox!r}))
    _, left = await without_bubblewrap(stage, sandbox)
    print(left.pid, left.start, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main(Path(sys.argv[1])))
"""


async def without_bubblewrap(stage: Stage, sandbox: Sandbox) -> tuple[AgentProcess, ProcessRow]:
    """Start an agent and kill bubblewrap as soon as the first process of the sandbox is there.

    That process asks to end with its parent later, and the kernel does not tell it that the parent
    is gone by then: it starts the agent all the same.
    """
    order = stage.order("/bin/sleep", "600")
    process = await stage.terminals.spawn(dataclasses.replace(order, sandbox=sandbox))
    pid = process.identity.pid
    below = Path(f"/proc/{pid}/task/{pid}/children")
    while not (children := below.read_text().split()):  # noqa: ASYNC240  # it must be at once
        pass
    os.kill(pid, signal.SIGKILL)
    left = proc_table.read_row(int(children[0]))
    assert left is not None
    return process, left


def is_still(pid: int, start: int) -> bool:
    row = proc_table.read_row(pid)
    return row is not None and not row.dead and row.start == start


async def test_a_sandbox_that_lost_its_bubblewrap_in_its_first_moments_ends_with_a_sweep(
    stage: Stage,
) -> None:
    if (sandbox := box_in(stage.folder)) is None:
        return
    outlived = 0
    for _ in range(TRIES):
        process, left = await without_bubblewrap(stage, sandbox)
        await process.wait()
        outlived += is_still(left.pid, left.start)
        report = await process.sweep(GRACE)
        assert report.survivors == ()
        assert not is_still(left.pid, left.start)
    assert outlived, "the attack does not work at all"


async def test_a_sandbox_that_lost_its_bubblewrap_in_its_first_moments_ends_with_its_runner(
    tmp_path: Path,
) -> None:
    if (sandbox := box_in(tmp_path)) is None:
        return
    runner = KILLED_EARLY.format(path=sys.path, sandbox=pickle.dumps(sandbox).hex())
    for _ in range(TRIES):
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", runner, str(tmp_path)],
            stdout=subprocess.PIPE,
            check=False,
        )
        assert done.returncode == -signal.SIGKILL
        pid, start = map(int, done.stdout.split())

        await until(lambda: not is_still(pid, start))  # noqa: B023  # awaited at once
