"""One lifecycle on a fleet: what its agents showed, and what is to be so at its end."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from runtime import proc_table
from tests.lifecycle.world import ROOT, git
from tests.orchestrator.engines.temporal.faults.fleet import PATIENCE, WORKERS
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


class Start(NamedTuple):
    """One start of an agent."""

    at: float
    pid: int
    worker: str


class RemoteFleet:
    """A fleet in a process of its own."""

    def __init__(self, folder: Path, lease: float, process: subprocess.Popen[str]) -> None:
        self.folder, self.lease, self._process = folder, lease, process

    def __call__(self, *words: str) -> float:
        """Have it do something, see `Fleet`; returns when it was done."""
        return float(self._asked(*words)[0])

    def pids(self) -> dict[str, int]:
        """Return the process of each role."""
        pairs = (each.split("=") for each in self._asked("pids")[1:])
        return {role: int(pid) for role, pid in pairs}

    def _asked(self, *words: str) -> list[str]:
        ask, answer = self._process.stdin, self._process.stdout
        assert ask is not None
        assert answer is not None
        ask.write(" ".join(words) + "\n")
        ask.flush()
        if line := answer.readline():
            return line.split()
        raise AssertionError(f"the fleet ended at {words}: {self.logs()}")

    def logs(self) -> str:
        """Return what the machines said last."""
        files = [*self.folder.glob("*.log"), self.folder / "coordinator.out"]
        return "\n".join(f"{each.name}: {each.read_text()[-3000:]}" for each in files)


@contextmanager
def fleet_in(
    folder: Path, lease: float, workers: Sequence[str] = WORKERS, *, kind: str = "fleet"
) -> Iterator[RemoteFleet]:
    """Have a fleet whose processes are begun; `kind` is the module of it."""
    name, home = f"tests.orchestrator.engines.temporal.faults.{kind}", folder / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@example.org\n")
    env = {**os.environ, "HOME": str(home), "XDG_STATE_HOME": str(folder / "state")}
    with subprocess.Popen(
        (sys.executable, "-m", name, str(folder), str(lease), *workers),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=env,
        start_new_session=True,
    ) as process:  # fmt: skip
        fleet = RemoteFleet(folder, lease, process)
        fleet("begin")
        yield fleet


class Story:
    """One lifecycle, whose second agent hangs until its machine dies."""

    def __init__(self, fleet: RemoteFleet, task: str, *, hangs: bool = True) -> None:
        self.fleet, self.task = fleet, task
        self.folder = fleet.folder / task
        self.folder.mkdir()
        if hangs:
            (self.folder / "hangs").touch()

    def begin(self, *program: str) -> None:
        """Have it run by the coordinator, which may have run it before."""
        self.fleet("run", self.task, str(self.folder), *program)

    def starts(self) -> list[Start]:
        """Return all starts of agents, in their order."""
        file = self.folder / "starts"
        lines = file.read_text().splitlines() if file.exists() else []
        return [self._read(line) for line in lines]

    def _read(self, line: str) -> Start:
        at, pid, place = line.split(maxsplit=2)
        mine = Path(place).relative_to(self.fleet.folder / "state" / "loopwright")
        return Start(float(at), int(pid), mine.parts[0].partition("-")[0])

    def wait(self, asked: Callable[[], object]) -> None:
        """Wait for what is to be so."""
        wait_until(asked, lambda: f"{self.starts()}\n{self.fleet.logs()}", PATIENCE)

    def hangs(self) -> Start:
        """Return the start of the agent that hangs, once it does."""
        hung = self.folder / "hung"
        self.wait(lambda: hung.exists() and hung.read_text())
        (start,) = [each for each in self.starts() if str(each.pid) == hung.read_text()]
        return start

    def next_after(self, start: Start) -> Start:
        """Return the start after this one, once there is one."""
        known = self.starts().index(start) + 1
        self.wait(lambda: len(self.starts()) > known)
        return self.starts()[known]

    def commits(self) -> int:
        """Return how often an agent committed its file: more than once if that was lost."""
        file = self.folder / "commits"
        return len(file.read_text().splitlines()) if file.exists() else 0

    def _said(self, word: str) -> list[list[str]]:
        # Of a line that goes over the end of a page, a reader may see the first half.
        whole = (self.fleet.folder / "coordinator.out").read_text().rpartition("\n")[0]
        lines = [line.split() for line in whole.splitlines()]
        return [line[2:] for line in lines if line[:2] == [word, self.task]]

    def reached(self, state: str) -> bool:
        """Tell whether it was decided that it comes into a state."""
        return self.reached_often(state) > 0

    def reached_often(self, state: str) -> int:
        """Count how often it was decided that it comes into a state."""
        return [each[0] for each in self._said("state")].count(state)

    def worker(self) -> str:
        """Return which worker had it last, if one had."""
        had = [each[1] for each in self._said("state") if each[1] != "-"]
        return had[-1] if had else ""

    def end(self) -> list[str]:
        """Return what came of it: type, retries, interruptions, processes, an error."""
        self.wait(lambda: self._said("end"))
        return self._said("end")[0]

    def pause(self, seconds: float) -> None:
        """Let a fault last."""
        end = time.monotonic() + seconds
        self.wait(lambda: time.monotonic() >= end)

    def assert_right(self, *, retries: int = 1, interrupted: bool = True) -> None:
        """Wait for its end; nothing was lost, doubled or wrongly charged."""
        result, charged, interruptions, *_ = self.end()
        assert (result, charged) == ("task_complete", str(retries)), self.fleet.logs()
        assert (int(interruptions) > 0) == interrupted, self.fleet.logs()
        assert not (self.folder / "overlaps").exists()
        assert self.commits() == 1, "a commit was not where the next agent began"
        assert git(self.fleet.folder / "bare.git", "show", f"agent/agent-{self.task}:one.txt")


def alive(pid: int) -> bool:
    """Tell whether a process lives; one that nobody waits for does not."""
    row = proc_table.read_row(pid)
    return row is not None and not row.dead
