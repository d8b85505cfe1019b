"""Ending a process with everything it started, and nothing else."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runtime import proc_table
from runtime.limits import Limits
from runtime.process import ProcessExit, StopReport, TerminalManager
from runtime.processes import termination
from tests.runtime.process_fixtures import (
    GRACE,
    LONG,
    WITH_ENVIRONMENT,
    WITHOUT_ENVIRONMENT,
    Stage,
    alive,
    end,
    until,
)
from tests.waiting import PATIENCE, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A child of this process in its own session, started by other code than ours."""
    with subprocess.Popen(["sleep", "600"], cwd=tmp_path, start_new_session=True) as process:
        yield process
        process.kill()


async def test_stop_ends_an_agent_that_obeys_without_force(stage: Stage) -> None:
    report = await (await stage.sh("exec sleep 600")).stop(5)
    assert report == StopReport(ProcessExit(None, 15), forced=False, killed=0, survivors=())


async def test_an_agent_may_end_in_its_own_way_within_the_grace(stage: Stage) -> None:
    process = await stage.sh("trap 'echo saved; exit 7' TERM; sleep 600 & echo up; wait")
    await until(lambda: stage.log.exists() and "up" in stage.log.read_text())
    report = await process.stop(5)
    assert report.exit == ProcessExit(7, None)
    assert "saved" in stage.log.read_text()


async def test_an_agent_that_ignores_term_is_killed_after_the_grace(stage: Stage) -> None:
    process = await stage.sh("trap '' TERM; echo up; while :; do sleep 600; done")
    await until(lambda: stage.log.exists() and "up" in stage.log.read_text())
    began = time.monotonic()
    report = await process.stop(GRACE)
    assert GRACE <= time.monotonic() - began < 20
    assert report.exit == ProcessExit(None, 9)
    assert report.forced
    assert report.killed >= 1


async def test_a_stopped_agent_is_woken_and_ended(stage: Stage) -> None:
    process = await stage.sh("exec sleep 600")
    os.kill(process.identity.pid, signal.SIGSTOP)
    report = await process.stop(5)
    assert report == StopReport(ProcessExit(None, 15), forced=False, killed=0, survivors=())


async def test_less_grace_in_a_second_call_cuts_the_first_short(stage: Stage) -> None:
    process = await stage.sh("trap '' TERM; echo up; while :; do sleep 600; done")
    await until(lambda: stage.log.exists() and "up" in stage.log.read_text())
    patient = asyncio.create_task(process.stop(600))
    await asyncio.sleep(0)
    assert (await process.stop(0)).forced
    assert (await asyncio.wait_for(patient, PATIENCE)).exit == ProcessExit(None, 9)


async def test_a_background_child_is_ended_after_a_normal_exit(stage: Stage) -> None:
    process = await stage.sh("sleep 600 & echo $! > child")
    report = await process.sweep(GRACE)
    assert report.exit == ProcessExit(0, None)
    assert not alive(await stage.number("child"))


async def test_a_program_that_holds_the_log_open_does_not_delay_the_exit(stage: Stage) -> None:
    process = await stage.sh("sleep 600 & echo $! > child; exit 4")
    assert await asyncio.wait_for(process.wait(), PATIENCE) == ProcessExit(4, None)
    assert alive(await stage.number("child"))
    await process.sweep(GRACE)


@pytest.mark.parametrize("program", [WITH_ENVIRONMENT, WITHOUT_ENVIRONMENT])
async def test_a_daemon_in_its_own_session_is_ended_after_a_normal_exit(
    stage: Stage, program: str
) -> None:
    process = await stage.python(program)
    await process.wait()
    daemon = await stage.number("daemon")
    assert alive(daemon)
    report = await process.sweep(GRACE)
    assert (report.exit, report.killed, report.survivors) == (ProcessExit(0, None), 0, ())
    assert report.left_behind >= 1
    assert not alive(daemon)


@pytest.mark.parametrize("program", [WITH_ENVIRONMENT, WITHOUT_ENVIRONMENT])
async def test_a_daemon_in_its_own_session_is_ended_with_its_agent(
    stage: Stage, program: str
) -> None:
    process = await stage.python(program + LONG)
    daemon = await stage.number("daemon")
    await process.stop(GRACE)
    assert not alive(daemon)


async def test_a_daemon_of_a_working_agent_outlives_the_end_of_another(stage: Stage) -> None:
    worker = await stage.python(WITHOUT_ENVIRONMENT + LONG)
    daemon = await stage.number("daemon")
    other = await stage.sh("sleep 600 &")
    await other.sweep(GRACE)
    assert alive(daemon)
    await worker.stop(GRACE)
    assert not alive(daemon)


async def test_children_that_other_code_started_are_never_touched(
    stage: Stage, stranger: subprocess.Popen[bytes]
) -> None:
    process = await stage.sh("sleep 600 &")
    await process.sweep(GRACE)
    process = await stage.sh("sleep 600")
    await process.stop(GRACE)
    assert alive(stranger.pid)


async def test_the_exit_of_a_child_that_other_code_started_stays_theirs(
    stage: Stage, stranger: subprocess.Popen[bytes]
) -> None:
    stranger.kill()
    await until(lambda: not alive(stranger.pid))
    await (await stage.sh("sleep 600 &")).sweep(GRACE)
    stage.terminals.sample()
    assert stranger.wait(PATIENCE) == -9


async def test_a_tree_that_grows_while_it_is_ended_is_ended(stage: Stage) -> None:
    process = await stage.python(
        "import os, signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print('up', flush=True)\n"
        "end = time.monotonic() + 60\n"
        "while time.monotonic() < end:\n"
        "    if os.fork() == 0:\n"
        "        os.setsid(); os.fork(); time.sleep(60); os._exit(0)\n"
        "    time.sleep(0.01)\n"
    )
    await until(lambda: stage.log.exists() and "up" in stage.log.read_text())
    report = await process.stop(GRACE)
    assert report.forced
    assert report.survivors == ()
    assert stage.terminals.find_marked(process.order.spawn_id) == ()


async def test_a_hundred_background_children_are_all_ended(stage: Stage) -> None:
    process = await stage.sh("for i in $(seq 100); do sleep 600 & done; echo up; wait")
    await until(lambda: stage.log.exists() and "up" in stage.log.read_text())
    report = await process.stop(5)
    assert not report.survivors
    assert stage.terminals.find_marked(process.order.spawn_id) == ()


async def test_orphans_that_end_by_themselves_do_not_pile_up(stage: Stage) -> None:
    before = set(proc_table.own_children())
    process = await stage.sh("for i in $(seq 20); do (setsid true &); done; echo up; sleep 600")
    await until(lambda: "up" in stage.log.read_text())

    def new_children() -> set[int]:
        stage.terminals.sample()
        return set(proc_table.own_children()) - before

    await until(lambda: new_children() == {process.identity.pid})
    await process.stop(GRACE)


async def test_without_orphans_of_its_own_the_manager_finds_daemons_by_their_mark(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path, TerminalManager(tmp_path, subreaper=False))
    process = await stage.python(WITH_ENVIRONMENT)
    daemon = await stage.number("daemon")
    try:
        await process.sweep(GRACE)
        assert not alive(daemon)
    finally:
        end(daemon)


async def test_closing_the_manager_stops_everything(tmp_path: Path) -> None:
    terminals = TerminalManager(tmp_path)
    stage = Stage(tmp_path, terminals)
    pids = [(await stage.sh("sleep 600; :")).identity.pid for _ in range(3)]
    await terminals.aclose(GRACE)
    assert terminals.live() == ()
    assert not any(map(alive, pids))


async def test_a_process_of_an_earlier_runner_is_ended_with_its_daemon(tmp_path: Path) -> None:
    identity, daemon = _left_by_an_earlier_runner(tmp_path)
    terminals = TerminalManager(tmp_path)
    try:
        found = terminals.find_marked(identity.mark)
        assert {one.pid for one in found} >= {identity.pid, daemon}
        assert set(found) <= set(terminals.find_all_marked())
        report = await terminals.stop_identity(identity, GRACE)
        assert report.survivors == ()
        assert not alive(identity.pid)
        assert not alive(daemon)
        assert terminals.find_marked(identity.mark) == ()
    finally:
        end(identity.pid)
        end(daemon)


async def test_what_an_ended_agent_of_an_earlier_runner_left_is_ended_by_its_mark(
    tmp_path: Path,
) -> None:
    identity, daemon = _left_by_an_earlier_runner(tmp_path)
    try:
        os.kill(identity.pid, signal.SIGKILL)
        await TerminalManager(tmp_path).stop_identity(identity, GRACE)
        assert not alive(daemon)
    finally:
        end(identity.pid)
        end(daemon)


@pytest.mark.parametrize(
    "wrong",
    [
        {"start_time": 1},
        {"start_time": 1 << 40},
        {"boot_id": "another boot"},
        {"mark": "another spawn"},
    ],
)
async def test_an_identity_that_does_not_match_is_never_signalled(
    stage: Stage, wrong: dict[str, Any]
) -> None:
    process = await stage.sh("trap 'echo signalled' TERM CONT; sleep 600 & echo up; wait; wait")
    await until(lambda: stage.log.exists() and "up" in stage.log.read_text())
    marked = stage.terminals.find_marked
    members = set(marked(process.order.spawn_id))
    identity = dataclasses.replace(process.identity, **wrong)
    if wrong == {"start_time": 1}:
        # Its children bear the mark and are younger: ours by proof of their own.
        identity = dataclasses.replace(identity, mark="another spawn")
    report = await stage.terminals.stop_identity(identity, GRACE)
    assert report == StopReport(None, forced=False, killed=0, survivors=())
    assert set(marked(process.order.spawn_id)) >= members
    assert "signalled" not in stage.log.read_text()
    await process.stop(0)


def test_a_signal_for_an_earlier_owner_of_a_number_reaches_nobody(
    stranger: subprocess.Popen[bytes],
) -> None:
    row = proc_table.read_row(stranger.pid)
    assert row is not None
    assert not termination.send(row._replace(start=row.start - 1), signal.SIGKILL)
    assert alive(stranger.pid)
    assert termination.send(row, signal.SIGKILL)
    assert stranger.wait(PATIENCE) == -9


def test_a_runner_never_ends_itself(tmp_path: Path) -> None:
    # In a process of its own: what else this one started would be part of the tree to end.
    program = f"""
import asyncio, os
from pathlib import Path
from runtime import proc_table
from runtime.processes import termination
from runtime.process import TerminalManager

async def end_yourself():
    own = proc_table.read_row(os.getpid())
    identity = termination.ProcessIdentity(own.pid, own.start, proc_table.boot_id(), "any")
    report = await TerminalManager(Path({str(tmp_path)!r})).stop_identity(identity, {GRACE})
    print("alive", report.killed)

asyncio.run(end_yourself())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout == "alive 0\n"


def _left_by_an_earlier_runner(folder: Path) -> tuple[termination.ProcessIdentity, int]:
    """Have another process start an agent with a daemon, and die."""
    mark = f"spawn-{os.urandom(8).hex()}"
    runner = (
        "import subprocess, sys\n"
        "agent = subprocess.Popen([sys.executable, '-c', sys.argv[1]],"
        " stdout=subprocess.DEVNULL, start_new_session=True)\n"
        "print(agent.pid, flush=True)\n"
        "import os; os._exit(0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", runner, WITH_ENVIRONMENT + LONG],
        cwd=folder,
        env={**os.environ, proc_table.MARK_VARIABLE: mark},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    pid = int(done.stdout)
    row = proc_table.read_row(pid)
    assert row is not None
    path = folder / "daemon"
    wait_until(lambda: path.exists() and path.read_text().endswith("\n"))
    daemon = int(path.read_text())
    # While a process puts another program in its place it has no environment that could be read.
    wait_until(lambda: Path(f"/proc/{daemon}/comm").read_text() == "sleep\n")
    wait_until(lambda: proc_table.read_mark(daemon) == mark)
    return termination.ProcessIdentity(pid, row.start, proc_table.boot_id(), mark), daemon


async def test_the_end_of_one_spares_one_that_is_just_being_started(stage: Stage) -> None:
    for _ in range(10):
        other = await stage.sh("sleep 600")
        order = dataclasses.replace(
            stage.order("/bin/sh", "-c", "sleep 600"), limits=Limits(open_files=64)
        )
        starting = asyncio.create_task(stage.terminals.spawn(order))
        await until(lambda: len(proc_table.own_children()) > 1)
        await other.stop(0)
        process = await starting
        assert not process.exit.done()
        await process.stop(0)
