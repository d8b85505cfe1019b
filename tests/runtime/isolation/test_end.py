"""How a sandbox ends: in time when asked, at once when killed, with its runner, and completely."""

from __future__ import annotations

import asyncio
import dataclasses
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runtime import proc_table
from runtime.isolation.bubblewrap import SHIELDS
from runtime.isolation.command_line import wrapped
from runtime.isolation.workspace_sandbox import SandboxPaths, around
from tests.runtime.isolation.inside import PATIENCE, given
from tests.runtime.process_fixtures import staged
from tests.waiting import wait_until

if TYPE_CHECKING:
    from runtime.isolation.sandbox import Sandbox
    from runtime.proc_tree import ProcessRow

ENV = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}
POLITE = "trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.01; done"
STUBBORN = "trap '' TERM; echo up; while :; do sleep 0.01; done"
DAEMON = f"""
import fcntl, os, signal, sys
ready, up = os.pipe()
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
    os.write(up, b"!")
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)
    while True:
        signal.pause()
os.waitpid(child, 0)
os.read(ready, 1)
{{}}
"""


def box_in(folder: Path) -> Sandbox | None:
    choice = given()
    return around(choice, SandboxPaths(folder, folder, folder)) if choice else None


def start(sandbox: Sandbox, *command: str) -> subprocess.Popen[str]:
    line = wrapped(command, sandbox.workspace, ENV, sandbox)
    return subprocess.Popen(
        line.command, cwd=sandbox.workspace, env=line.env, stdout=subprocess.PIPE, text=True
    )


def heard(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def comes_up(process: subprocess.Popen[str]) -> None:
    """Wait for its word, and until each bubblewrap waits for the end of its child.

    The first process of a sandbox asks to end with its parent only after it has started the one
    that speaks. See `proof/test_attacks_sandboxed.py` for what ends it if its parent dies sooner.
    """
    assert heard(process) == "up"
    wait_until(lambda: all(map(is_settled, tree(process.pid))), "bubblewrap waits")


def is_settled(pid: int) -> bool:
    """Sleeping is not enough: the machine may make it sleep at any moment before."""
    try:
        name = Path(f"/proc/{pid}/comm").read_text().strip()
        waits_in = Path(f"/proc/{pid}/wchan").read_text()
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    if waits_in in {"", "0"}:  # not every machine tells it
        return name != "bwrap" or state in "SZ"
    return name != "bwrap" or state == "Z" or waits_in.startswith("do_wait") or "poll" in waits_in


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


def is_free(lock: Path) -> bool:
    with lock.open() as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


@pytest.mark.parametrize("shield", SHIELDS)
def test_a_process_told_to_end_ends_in_its_own_way_even_if_others_are_told(
    shield: str, tmp_path: Path
) -> None:
    sandbox = box_in(tmp_path)
    if sandbox is None:
        return
    with start(dataclasses.replace(sandbox, shield=shield), "/bin/sh", "-c", POLITE) as process:
        assert heard(process) == "up"
        tell_all(process)
        assert heard(process) == "bye"
        assert process.wait(PATIENCE) == 7


def test_a_process_that_ignores_it_is_killed_with_its_sandbox(tmp_path: Path) -> None:
    if (sandbox := box_in(tmp_path)) is None:
        return
    with start(sandbox, "/bin/sh", "-c", STUBBORN) as process:
        comes_up(process)
        # By their start too: numbers are given away again while other tests start thousands.
        members = [row for pid in tree(process.pid) if (row := proc_table.read_row(pid))]
        tell_all(process)
        assert process.poll() is None
        process.kill()
    wait_until(lambda: not any(is_still(member) for member in members))


def is_still(member: ProcessRow) -> bool:
    row = proc_table.read_row(member.pid)
    return row is not None and not row.dead and row.start == member.start


@pytest.mark.parametrize("end", ["exit", "kill"])
def test_a_daemon_in_a_sandbox_ends_with_it(end: str, tmp_path: Path) -> None:
    program = DAEMON.format("" if end == "exit" else "signal.pause()")
    lock = tmp_path / "lock"
    sandbox = box_in(tmp_path)
    if sandbox is not None:
        with start(sandbox, sys.executable, "-c", program) as process:
            comes_up(process)
            if end == "kill":
                process.kill()
            process.wait(PATIENCE)
            wait_until(lambda: is_free(lock))
    # Without a sandbox it lives on.
    plain = (sys.executable, "-c", program)
    with subprocess.Popen(plain, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert heard(process) == "up"
        [daemon] = holders(lock)
        if end == "kill":
            process.kill()
        process.wait(PATIENCE)
        assert not is_free(lock)
        os.kill(daemon, signal.SIGKILL)
    wait_until(lambda: is_free(lock))


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


async def test_an_agent_in_a_sandbox_is_asked_to_end_and_reads_and_writes_what_any_other_does(
    tmp_path: Path,
) -> None:
    sandbox = box_in(tmp_path)
    async with staged(tmp_path) as stage:
        order = stage.order("/bin/sh", "-c", f"read word; echo $word; {POLITE}")
        agent = await stage.terminals.spawn(dataclasses.replace(order, sandbox=sandbox))
        while "up" not in stage.log.read_text():  # noqa: ASYNC110  # a log has no event
            await asyncio.sleep(0.005)
        report = await agent.stop(PATIENCE)
    words = stage.log.read_text().split()
    assert (words[:3], words[-1]) == (["do", "it", "up"], "bye")
    assert report.exit is not None
    assert (report.exit.code, report.survivors) == (7, ())


def test_a_sandbox_starts_within_four_times_of_what_bubblewrap_takes_by_hand(
    tmp_path: Path,
) -> None:
    if (sandbox := box_in(tmp_path)) is None:
        return
    line = wrapped(("/bin/true",), tmp_path, ENV, sandbox)
    by_hand = (sandbox.program, "--unshare-all", "--ro-bind", "/", "/", "/bin/true")

    def used(command: tuple[str, ...]) -> float:
        """Return the time of the processor that it took, whoever else uses it."""
        before = os.times()
        subprocess.run(command, env=line.env, cwd=tmp_path, check=True)
        after = os.times()
        return sum(after[2:4]) - sum(before[2:4])

    ours, theirs = (sum(used(each) for _ in range(20)) for each in (line.command, by_hand))
    assert ours <= 4 * theirs, f"{ours / theirs:.1f} times"
