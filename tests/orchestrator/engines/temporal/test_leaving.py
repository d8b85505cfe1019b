"""Workers that leave without dying: asked to, frozen, or cut off until their lease is over."""

from __future__ import annotations

import fcntl
import os
import signal
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from runtime.workspaces.worktrees_dir import default_worktrees_dir
from tests.lifecycle.world import World, git
from tests.orchestrator.engines.temporal.cut import Network, network
from tests.orchestrator.engines.temporal.test_deaths import LEASE, PATIENCE, running, starts
from tests.waiting import wait_until

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.timeout(400)
AGENT = "agent-T001"


def alive(folder: Path) -> bool:
    """Tell whether an agent lives: each holds the lock."""
    with (folder / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@dataclass
class Left:
    """The worker that has the agent, and its way to the server."""

    folder: Path
    worker: subprocess.Popen[str]
    network: Network


def freeze_and_wake(left: Left) -> None:
    """Freeze a worker until the watchdog ended its agent; it wakes before the server misses it."""
    os.kill(left.worker.pid, signal.SIGSTOP)
    wait_until(lambda: not alive(left.folder))
    os.kill(left.worker.pid, signal.SIGCONT)


def ask_to_end(left: Left) -> None:
    """End a worker as a service manager does; it hands on, saved and pushed, what it has."""
    os.kill(left.worker.pid, signal.SIGTERM)
    assert left.worker.wait(PATIENCE) == 0
    saved = git(left.folder / "bare.git", "show", f"refs/loopwright/saved/{AGENT}/2:draft")
    assert saved == "half done"


def cut_off(left: Left) -> None:
    """Cut the network both ways: neither hears of the other."""
    left.network.there.set()
    left.network.back.set()


def made_deaf(left: Left) -> None:
    """Cut it one way: the server hears the worker, which hears nothing of it."""
    left.network.back.set()


@pytest.mark.parametrize("leave", [ask_to_end, freeze_and_wake, cut_off, made_deaf])
def test_what_a_worker_leaves_goes_on_and_is_charged_to_nobody(
    world: World, temporal_address: str, tmp_path: Path, leave: Callable[[Left], None]
) -> None:
    folder, bare = world.folder, world.folder / "bare.git"
    git(folder, "clone", "-q", "--bare", str(world.repo), str(bare))
    for name in ("coordinator", "a", "b"):
        git(folder, "clone", "-q", str(bare), str(folder / name))
    project, lease = tmp_path.name, str(LEASE)
    with ExitStack() as stack:

        def machine(name: str, *words: str) -> subprocess.Popen[str]:
            return stack.enter_context(running(*words, log=folder / f"{name}.log"))

        def worker(name: str) -> Left:
            way = stack.enter_context(network(temporal_address))
            words = ("worker", way.address, project, str(folder / name), lease, name)
            return Left(folder, machine(name, *words), way)

        workers = {name: worker(name) for name in ("a", "b")}
        repo = str(folder / "coordinator")
        given = (temporal_address, project, repo, lease, str(folder))
        coordinator = machine("coordinator", "coordinator", *given)

        def logs() -> str:
            return "\n".join(each.read_text()[-3000:] for each in folder.glob("*.log"))

        wait_until(lambda: len(starts(folder)) == 2, logs, PATIENCE)
        _, place = starts(folder)[1]
        draft = place / "draft"
        wait_until(lambda: draft.exists() and draft.read_text(), logs, PATIENCE)
        (first,) = [
            name for name in workers if place.is_relative_to(default_worktrees_dir(folder / name))
        ]
        leave(workers[first])
        wait_until(lambda: len(starts(folder)) == 3, logs, PATIENCE)
        assert coordinator.stdout is not None
        assert coordinator.stdout.readline().split() == ["task_complete", "1", "1", "3"], logs()
    assert not (folder / "overlaps").exists()
    assert git(bare, "show", f"agent/{AGENT}:one.txt") == "1"
