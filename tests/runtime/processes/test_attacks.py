"""What escapes the end of a plain process does not escape the end of an agent."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import re
import select
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from runtime import proc_table
from runtime.limits import NO_LIMITS, Limits
from runtime.process import ProcessExit, TerminalManager
from runtime.processes.cgroups import names, probe
from runtime.processes.termination import ProcessIdentity
from tests.runtime.process_fixtures import GRACE, Stage, staged, until
from tests.runtime.processes.attack_control import Plain, command, held, resident

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from runtime.process import AgentProcess

UNDYING = ["daemon", "leaderless", "deaf", "stopped", "bomb", "comet", "comets"]
MOST_GROWTH = 32 << 20
CAP = 1 << 20
OUTPUT = int(os.environ.get("ATTACK_MEGABYTES", "64"))
"""Megabytes written by what writes without end; the soak run takes a thousand."""
ABLE = probe.capabilities()
CONFINED = Limits(processes=400)
BOTH = [NO_LIMITS, *([CONFINED] if ABLE.processes.base else [])]
"""On a machine that gives no control groups, a limited start is refused; see test_limits.py."""
BOTH_NAMED = pytest.mark.parametrize("limits", BOTH, ids=["plain", "confined"][: len(BOTH)])

RESTARTED = [
    *((attack, NO_LIMITS) for attack in (*UNDYING, "holder")),
    # A group is ended whole, whatever is in it: what leaves its session, and what forks.
    *((attack, limits) for limits in BOTH[1:] for attack in ("daemon", "bomb", "comets")),
]


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(tmp_path) as stage:
        before = resident()
        yield stage
        (tmp_path / "over").touch()
    assert resident() - before <= MOST_GROWTH


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[Plain]:
    plain = Plain(tmp_path)
    yield plain
    plain.give_up()


async def _attack(
    stage: Stage,
    name: str,
    limits: Limits = NO_LIMITS,
    *,
    allow_weaker: bool = False,
    **env: str,
) -> AgentProcess:
    order = stage.order(*command(name, stage.folder), env=env, log_cap=CAP)
    return await stage.terminals.spawn(
        dataclasses.replace(order, limits=limits, allow_weaker=allow_weaker)
    )


SWEEPS = 5


def _no_group(mark: str) -> bool:
    return not names.left(probe.tops(), mark)


@pytest.mark.parametrize("attack", UNDYING)
def test_terminate_and_kill_leave_it_alive(plain: Plain, attack: str) -> None:
    plain.start(attack)
    plain.wait_until_up()
    plain.terminate_and_kill()
    assert held(plain.folder)


@BOTH_NAMED
@pytest.mark.parametrize("attack", UNDYING)
async def test_stop_leaves_nothing_alive(stage: Stage, attack: str, limits: Limits) -> None:
    process = await _attack(stage, attack, limits)
    await until((stage.folder / "up").exists)
    report = await process.stop(GRACE)
    assert report.survivors == ()
    assert not held(stage.folder)
    await until(lambda: _no_group(process.order.spawn_id))


@pytest.mark.parametrize("attack", ["leaderless", "comet", "comets", "holder"])
async def test_the_sweep_after_an_exit_leaves_nothing_alive(stage: Stage, attack: str) -> None:
    process = await _attack(stage, attack)
    await until((stage.folder / "up").exists)
    report = await process.sweep(GRACE)
    for _ in range(SWEEPS):
        # Who forks faster than a busy machine kills is swept again, as the loop does.
        if not report.survivors:
            break
        report = await process.sweep(GRACE)
    assert report.survivors == ()
    assert not held(stage.folder)


@pytest.mark.parametrize(("attack", "limits"), RESTARTED)
async def test_a_restarted_runner_leaves_nothing_alive(
    tmp_path: Path, attack: str, limits: Limits
) -> None:
    mark = f"spawn-{os.urandom(8).hex()}"
    runner = (
        "import asyncio, os, signal, sys\n"
        f"sys.path[:0] = {sys.path!r}\n"
        "from pathlib import Path\n"
        "from runtime.limits import Limits\n"
        "from runtime.process import SpawnOrder, TerminalManager\n"
        "from tests.runtime.processes.watchdog.watchdogs import kill_with_watchdogs\n"
        "async def main(folder, mark, limits, *command):\n"
        "    order = SpawnOrder('agent', 1, mark, command, folder, Path(os.devnull),\n"
        "        folder / 'log', {}, 1 << 20, limits=Limits(processes=int(limits) or None))\n"
        "    identity = (await TerminalManager(folder).spawn(order)).identity\n"
        "    while not (folder / 'up').exists():\n"
        "        await asyncio.sleep(0.005)\n"
        "    print(identity.pid, identity.start_time, flush=True)\n"
        "    kill_with_watchdogs(os.getpid())\n"
        "asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:]))\n"
    )
    more = [str(tmp_path), mark, str(limits.processes or 0), *command(attack, tmp_path)]
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", runner, *more], stdout=subprocess.PIPE, check=False
    )
    assert done.returncode == -signal.SIGKILL
    try:
        assert held(tmp_path)
        pid, start = map(int, done.stdout.split())
        terminals = TerminalManager(tmp_path)
        recorded = ProcessIdentity(pid, start, proc_table.boot_id(), mark)
        for identity in (recorded, *terminals.find_marked(mark)):
            report = await terminals.stop_identity(identity, GRACE)
            assert report.survivors == ()
        assert not held(tmp_path)
        assert terminals.find_marked(mark) == ()
        await until(lambda: _no_group(mark))
    finally:
        (tmp_path / "over").touch()


def test_a_daemon_that_holds_the_output_keeps_a_plain_reader_waiting(plain: Plain) -> None:
    process = plain.start("holder")
    assert process.wait(10) == 0
    assert process.stdout is not None
    assert select.select([process.stdout], [], [], 0.1)[0] == []


async def test_a_daemon_that_holds_the_output_keeps_nobody_waiting(stage: Stage) -> None:
    process = await _attack(stage, "holder")
    assert (await process.sweep(GRACE)).left_behind >= 1
    assert not held(stage.folder)


@pytest.mark.parametrize("attack", ["hog", "herd"])
def test_without_a_limit_memory_is_given(plain: Plain, attack: str) -> None:
    plain.start(attack)
    plain.wait_until_up()


@pytest.mark.parametrize("attack", ["hog", "herd"])
async def test_a_memory_limit_ends_the_whole_tree(stage: Stage, attack: str) -> None:
    # Where memory is not counted, the tree is watched: every sample is a look.
    process = await _attack(stage, attack, Limits(memory_mb=100), allow_weaker=True)
    await until(lambda: stage.terminals.sample() == {} or process.exit.done())
    report = await process.sweep(GRACE)
    assert process.limit_reached == "memory limit 100 MB"
    assert report.survivors == ()
    assert not (stage.folder / "up").exists() or not ABLE.memory.base
    assert not held(stage.folder)


def test_without_a_limit_a_thousand_files_are_opened(plain: Plain) -> None:
    plain.start("files")
    plain.wait_until_up()


async def test_a_limit_on_open_files_refuses_one_more(stage: Stage) -> None:
    process = await _attack(stage, "files", Limits(open_files=64))
    assert (await process.sweep(GRACE)).exit == ProcessExit(1, None)
    assert not (stage.folder / "up").exists()
    assert "Too many open files" in stage.log.read_text()


async def test_a_processor_limit_holds_for_one_that_is_another_all_the_time(
    stage: Stage,
) -> None:
    work = stage.folder / "work"

    async def done_in_a_while(limits: Limits) -> int:
        process = await _attack(stage, "hopper", limits, allow_weaker=True)
        await until((stage.folder / "up").exists)
        before = work.stat().st_size
        await asyncio.sleep(0.5)
        done = work.stat().st_size - before
        await process.stop(0)
        assert not held(stage.folder)
        return done

    free = await done_in_a_while(NO_LIMITS)
    limited = await done_in_a_while(Limits(cpu_percent=10))
    assert limited < free / 2 or not ABLE.cpu.base


@pytest.mark.parametrize("attack", ["flood", "river"])
def test_without_a_cap_output_grows_without_end(plain: Plain, attack: str) -> None:
    with (plain.folder / "log").open("wb") as log:
        plain.process = subprocess.Popen(
            command(attack, plain.folder),
            cwd=plain.folder,
            stdout=log,
            env={**os.environ, "MEGABYTES": str(OUTPUT)},
        )
        assert plain.process.wait() == 0
    assert (plain.folder / "log").stat().st_size == OUTPUT << 20


@pytest.mark.parametrize("attack", ["flood", "river"])
async def test_output_is_kept_below_its_cap_while_it_is_written_and_after(
    stage: Stage, attack: str
) -> None:
    process = await _attack(stage, attack, MEGABYTES=str(OUTPUT))
    while not process.exit.done():
        stage.terminals.sample()
        await asyncio.sleep(0.005)
    await process.sweep(GRACE)
    assert CAP // 2 < stage.log.stat().st_size <= CAP
    left_out = re.search(rb"\n\[\.\.\. (\d+) bytes left out", stage.log.read_bytes())
    assert left_out is not None
    assert int(left_out[1]) > (OUTPUT << 20) - CAP
