"""What escapes the end of a plain process does not escape the end of a box, nor of its runner."""

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

from runtime.cgroups import probe
from runtime.isolation.around import Opened, Place, around
from runtime.limits import NO_LIMITS, Limits
from tests.runtime import attackers
from tests.runtime.attack_control import command, held
from tests.runtime.isolation.inside import given
from tests.runtime.process_fixtures import GRACE, Stage, staged, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from runtime.isolation.box import Box
    from runtime.process import AgentProcess

UNDYING = ["daemon", "leaderless", "deaf", "stopped", "bomb", "comet", "comets"]
"""Each outlives terminate() and kill() where there is no box: see test_attacks_process.py."""
ABLE = probe.capabilities()


LEADERLESS = ("leaderless", "comet", "holder")


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(tmp_path) as stage:
        yield stage
        (tmp_path / "over").touch()


def box_in(folder: Path) -> Box | None:
    choice = given()
    if choice is None:
        return None
    programs = Opened(readable=(Path(attackers.__file__).parent, Path(sys.prefix)))
    nothing = folder / "nothing"
    nothing.mkdir()
    return around(choice, Place(folder, nothing, nothing), opened=programs)


async def attack(stage: Stage, name: str, box: Box, limits: Limits = NO_LIMITS) -> AgentProcess:
    order = stage.order(*command(name, stage.folder), log_cap=1 << 20)
    return await stage.terminals.spawn(dataclasses.replace(order, box=box, limits=limits))


@pytest.mark.parametrize("name", UNDYING)
async def test_stop_leaves_nothing_alive_in_a_box(stage: Stage, name: str) -> None:
    if (box := box_in(stage.folder)) is None:
        return
    process = await attack(stage, name, box)
    await until((stage.folder / "up").exists)
    report = await process.stop(GRACE)
    assert report.survivors == ()
    assert not held(stage.folder)


@pytest.mark.parametrize("name", LEADERLESS)
async def test_what_is_left_behind_in_a_box_ends_with_its_first_process(
    stage: Stage, name: str
) -> None:
    if (box := box_in(stage.folder)) is None:
        return
    process = await attack(stage, name, box)
    report = await process.sweep(GRACE)
    assert report.survivors == ()
    assert not held(stage.folder)


@pytest.mark.parametrize("name", ["hog", "herd"])
async def test_a_memory_limit_ends_a_whole_box(stage: Stage, name: str) -> None:
    if (box := box_in(stage.folder)) is None or not ABLE.memory.base:
        return
    process = await attack(stage, name, box, Limits(memory_mb=100))
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
    box = pickle.loads(bytes.fromhex({box!r}))
    order = SpawnOrder(
        "agent", 1, {mark!r}, command, folder, Path(os.devnull), folder / "log", {{}}, 1 << 20,
        box=box,
    )
    await TerminalManager(folder).spawn(order)
    while not (folder / "up").exists():
        await asyncio.sleep(0.005)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:]))
"""


@pytest.mark.parametrize("name", UNDYING)
async def test_a_killed_runner_takes_the_box_with_it(tmp_path: Path, name: str) -> None:
    if (box := box_in(tmp_path)) is None:
        return
    mark = f"spawn-{os.urandom(8).hex()}"
    runner = RUNNER.format(path=sys.path, box=pickle.dumps(box).hex(), mark=mark)
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
