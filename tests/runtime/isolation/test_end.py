"""The end of a box: in time when asked, at once when killed, with the runner, and of all in it."""

from __future__ import annotations

import asyncio
import dataclasses
import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runtime import proctable
from runtime.isolation.around import Place, around
from runtime.isolation.bubblewrap import SHIELDS
from runtime.isolation.wrap import wrapped
from tests.runtime.isolation.inside import PATIENCE, given
from tests.runtime.process_fixtures import staged

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime.isolation.box import Box
    from runtime.proctree import Row

ENV = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}
POLITE = "trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.01; done"
STUBBORN = "trap '' TERM; echo up; while :; do sleep 0.01; done"
DAEMON = f"""
import fcntl, os, signal, sys
child = os.fork()
if child == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    os.environ.clear()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.alarm({int(PATIENCE)})
    lock = open("lock", "w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    print("up", flush=True)
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)
    while True:
        signal.pause()
os.waitpid(child, 0)
{{}}
"""


def box_in(folder: Path) -> Box | None:
    choice = given()
    return around(choice, Place(folder, folder, folder)) if choice else None


def start(box: Box, *command: str) -> subprocess.Popen[str]:
    line = wrapped(command, box.workspace, ENV, box)
    return subprocess.Popen(
        line.command, cwd=box.workspace, env=line.env, stdout=subprocess.PIPE, text=True
    )


def heard(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def tree(pid: int) -> list[int]:
    """List a process and all below it, parents first, as a stop finds them."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except FileNotFoundError:
        return []
    return [pid, *(below for child in children for below in tree(int(child)))]


def tell_all(process: subprocess.Popen[str]) -> None:
    for pid in tree(process.pid):
        os.kill(pid, signal.SIGTERM)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


def is_free(lock: Path) -> bool:
    with lock.open() as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


@pytest.mark.parametrize("shield", SHIELDS)
def test_a_process_told_to_end_ends_in_its_own_way_whoever_else_was_told(
    shield: str, tmp_path: Path
) -> None:
    box = box_in(tmp_path)
    if box is None:
        return
    with start(dataclasses.replace(box, shield=shield), "/bin/sh", "-c", POLITE) as process:
        assert heard(process) == "up"
        tell_all(process)
        assert heard(process) == "bye"
        assert process.wait(PATIENCE) == 7


def test_a_process_that_ignores_it_is_killed_with_its_box(tmp_path: Path) -> None:
    if (box := box_in(tmp_path)) is None:
        return
    with start(box, "/bin/sh", "-c", STUBBORN) as process:
        assert heard(process) == "up"
        # By their start too: numbers are given away again while other tests start thousands.
        members = [row for pid in tree(process.pid) if (row := proctable.read_row(pid))]
        tell_all(process)
        assert process.poll() is None
        process.kill()
    until(lambda: not any(is_still(member) for member in members))


def is_still(member: Row) -> bool:
    row = proctable.read_row(member.pid)
    return row is not None and not row.dead and row.start == member.start


@pytest.mark.parametrize("end", ["exit", "kill"])
def test_a_daemon_in_a_box_ends_with_it(end: str, tmp_path: Path) -> None:
    program = DAEMON.format("" if end == "exit" else "signal.pause()")
    lock = tmp_path / "lock"
    box = box_in(tmp_path)
    if box is not None:
        with start(box, sys.executable, "-c", program) as process:
            assert heard(process) == "up"
            if end == "kill":
                process.kill()
            process.wait(PATIENCE)
            until(lambda: is_free(lock))
    # Without a box it lives on.
    plain = (sys.executable, "-c", program)
    with subprocess.Popen(plain, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert heard(process) == "up"
        [daemon] = holders(lock)
        if end == "kill":
            process.kill()
        process.wait(PATIENCE)
        assert not is_free(lock)
        os.kill(daemon, signal.SIGKILL)
    until(lambda: is_free(lock))


def holders(lock: Path) -> list[int]:
    """Find who has a file open."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                links = [link.readlink() for link in (entry / "fd").iterdir()]
            except OSError:
                continue
            if lock in links:
                found.append(int(entry.name))
    return found


RUNNER = """
import subprocess, sys
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, text=True)
print(process.stdout.readline().strip(), flush=True)
process.wait()
"""


def test_a_killed_runner_takes_the_whole_box_with_it(tmp_path: Path) -> None:
    if (box := box_in(tmp_path)) is None:
        return
    inside = (sys.executable, "-c", DAEMON.format("signal.pause()"))
    line = wrapped(inside, tmp_path, ENV, box)
    runner = (sys.executable, "-c", RUNNER, *line.command)
    with subprocess.Popen(
        runner, cwd=tmp_path, env=line.env, stdout=subprocess.PIPE, text=True
    ) as process:
        assert heard(process) == "up"
        assert not is_free(tmp_path / "lock")
        process.kill()
    until(lambda: is_free(tmp_path / "lock"))


async def test_an_agent_in_a_box_is_asked_to_end_and_reads_and_writes_what_any_other_does(
    tmp_path: Path,
) -> None:
    box = box_in(tmp_path)
    async with staged(tmp_path) as stage:
        order = stage.order("/bin/sh", "-c", f"read word; echo $word; {POLITE}")
        agent = await stage.terminals.spawn(dataclasses.replace(order, box=box))
        while "up" not in stage.log.read_text():  # noqa: ASYNC110  # a log has no event
            await asyncio.sleep(0.005)
        report = await agent.stop(PATIENCE)
    words = stage.log.read_text().split()
    assert (words[:3], words[-1]) == (["do", "it", "up"], "bye")
    assert report.exit is not None
    assert (report.exit.code, report.survivors) == (7, ())


async def test_a_daemon_in_a_box_is_gone_after_its_agent_ended_by_itself(tmp_path: Path) -> None:
    if (box := box_in(tmp_path)) is None:
        return
    async with staged(tmp_path) as stage:
        order = stage.order(sys.executable, "-c", DAEMON.format(""))
        agent = await stage.terminals.spawn(dataclasses.replace(order, box=box))
        report = await agent.sweep(0)
    assert report.survivors == ()
    assert is_free(tmp_path / "lock")


def test_a_box_starts_within_four_times_of_what_bubblewrap_takes_by_hand(tmp_path: Path) -> None:
    if (box := box_in(tmp_path)) is None:
        return
    line = wrapped(("/bin/true",), tmp_path, ENV, box)
    by_hand = (box.program, "--unshare-all", "--ro-bind", "/", "/", "/bin/true")

    def seconds(command: tuple[str, ...]) -> float:
        begin = time.perf_counter()
        subprocess.run(command, env=line.env, cwd=tmp_path, check=True)
        return time.perf_counter() - begin

    ours = theirs = float("inf")
    for tries in range(300):  # in turns, and longer where the machine is busy
        ours, theirs = min(ours, seconds(line.command)), min(theirs, seconds(by_hand))
        if tries >= 15 and ours <= 4 * theirs:
            break
    assert ours <= 4 * theirs, f"{ours / theirs:.1f} times"
