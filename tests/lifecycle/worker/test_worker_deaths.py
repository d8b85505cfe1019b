"""A worker that dies or freezes has no agent when another one may begin, and tells nothing after.

Its agent holds a lock, so that whoever looks at it sees whether anything of it is alive.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from lifecycle.plan import Agent, Task
from lifecycle.settings import Settings
from runtime.machine_id import this_machine
from runtime.proc_table import MACHINE_VARIABLE
from runtime.workspaces.worktrees_dir import default_worktrees_dir
from tests.lifecycle.worker.deciding import Decider, worker_in
from tests.lifecycle.worker.worker_process import AGENT
from tests.lifecycle.world import ROOT, World, git
from tests.runtime.processes.attack_control import held
from tests.runtime.processes.watchdog.watchdogs import kill_with_watchdogs, watchdogs_of
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROGRAM = ROOT / "tests/lifecycle/worker/worker_process.py"
LEASE = 10.0
"""Long enough to start an agent in on a busy machine."""


class Shown:
    """A worker in its process, and what it said."""

    def __init__(self, process: subprocess.Popen[str], workspace: Path) -> None:
        self.process, self.workspace = process, workspace
        self.said: list[str] = []

    def hear(self, word: str) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line.strip())
            if line.strip() == word:
                return
        raise AssertionError(f"it ended without saying {word}: {self.said}")

    def ended_after(self, number: signal.Signals) -> float:
        """Signal the worker; return the seconds until nothing of its agent is alive."""
        began = time.monotonic()
        os.kill(self.process.pid, number)
        wait_until(lambda: not held(self.workspace))
        return time.monotonic() - began


@contextmanager
def worker_of(world: World) -> Iterator[Shown]:
    bare, clone = world.folder / "bare.git", world.folder / "one"
    git(world.folder, "clone", "-q", "--bare", str(world.repo), str(bare))
    for each in (clone, world.folder / "two"):
        git(world.folder, "clone", "-q", str(bare), str(each))
    (clone / ".git" / "info" / "exclude").write_text("lock\nup\n")
    words = (str(clone), git(bare, "rev-parse", "main"), str(LEASE))
    with subprocess.Popen(
        [sys.executable, str(PROGRAM), *words],
        # What this process has known since an earlier test is the name for both.
        env={**os.environ, "PYTHONPATH": str(ROOT), MACHINE_VARIABLE: this_machine()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        shown = Shown(process, default_worktrees_dir(clone) / AGENT)
        try:
            shown.hear("up")
            wait_until((shown.workspace / "up").exists)
            assert held(shown.workspace)
            yield shown
        finally:
            process.kill()


@pytest.mark.timeout(120)
def test_a_killed_worker_takes_its_agent_with_it(
    world: World,
) -> None:
    with worker_of(world) as worker:
        seconds = worker.ended_after(signal.SIGKILL)
    print(f"dead after {seconds:.3f} s")  # noqa: T201  # what is measured
    assert seconds < LEASE


@pytest.mark.timeout(120)
@pytest.mark.parametrize("watched_by", [2, 1])
def test_a_frozen_worker_has_no_agent_when_its_lease_is_over_and_tells_nothing_when_it_wakes(
    world: World, watched_by: int
) -> None:
    with worker_of(world) as worker:
        for pid in sorted(watchdogs_of(worker.process.pid))[: 2 - watched_by]:
            os.kill(pid, signal.SIGKILL)
        seconds = worker.ended_after(signal.SIGSTOP)
        print(f"dead after {seconds / LEASE:.3f} of the lease")  # noqa: T201  # what is measured
        assert 0.5 * LEASE < seconds < LEASE
        known = len(worker.said)
        os.kill(worker.process.pid, signal.SIGCONT)
        worker.hear("lost")
        assert worker.said[known:] == ["lost"]
        there = git(world.folder / "bare.git", "for-each-ref", "refs/heads/agent/")
        assert there == ""
        wait_until(
            lambda: git(world.folder / "one", "for-each-ref", f"refs/loopwright/saved/{AGENT}/1")
        )
        assert worker.process.stdin is not None
        worker.process.stdin.write("end\n")
        worker.process.stdin.flush()
        assert worker.process.wait(40.0) == 0


@pytest.mark.timeout(120)
async def test_the_next_start_of_a_worker_ends_what_outlived_it_and_saves_its_work(
    world: World,
) -> None:
    with worker_of(world) as worker:
        kill_with_watchdogs(worker.process.pid)
        worker.process.wait()
        assert held(worker.workspace)
        task, agent = Task(id="T001", title="Calculator"), Agent(agent_id=AGENT, command=("true",))
        decider = Decider(task, agent, Settings(), "")
        async with worker_in(world.folder / "two", "two", decider) as other:
            await other.start()
            assert held(worker.workspace), "it is another worker's to end"
        async with worker_in(world.folder / "one", "one", decider):
            assert not held(worker.workspace)
    bare, saved = world.folder / "bare.git", f"refs/loopwright/saved/{AGENT}"
    head = git(world.folder / "one", "rev-parse", f"agent/{AGENT}")
    assert git(bare, "show", f"{saved}/1:draft") == "half done"
    assert git(bare, "show", f"{saved}/head-{head[:12]}:one.txt") == "done"
