"""Workers that leave without dying: asked to, or frozen until their lease was over."""

from __future__ import annotations

import fcntl
import os
import signal
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from runtime.workspaces.worktrees_dir import default_worktrees_dir
from tests.lifecycle.world import World, git
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


def freeze_and_wake(worker: subprocess.Popen[str], folder: Path) -> None:
    """Freeze a worker until the watchdog ended its agent; it wakes before the server misses it."""
    os.kill(worker.pid, signal.SIGSTOP)
    wait_until(lambda: not alive(folder))
    os.kill(worker.pid, signal.SIGCONT)


def ask_to_end(worker: subprocess.Popen[str], folder: Path) -> None:
    """End a worker as a service manager does; it hands on, saved and pushed, what it has."""
    os.kill(worker.pid, signal.SIGTERM)
    assert worker.wait(PATIENCE) == 0
    saved = git(folder / "bare.git", "show", f"refs/loopwright/saved/{AGENT}/2:draft")
    assert saved == "half done"


@pytest.mark.parametrize("leave", [ask_to_end, freeze_and_wake])
def test_what_a_worker_leaves_goes_on_and_is_charged_to_nobody(
    world: World,
    temporal_address: str,
    tmp_path: Path,
    leave: Callable[[subprocess.Popen[str], Path], None],
) -> None:
    folder, bare = world.folder, world.folder / "bare.git"
    git(folder, "clone", "-q", "--bare", str(world.repo), str(bare))
    for name in ("coordinator", "a", "b"):
        git(folder, "clone", "-q", str(bare), str(folder / name))
    project, lease = tmp_path.name, str(LEASE)
    with ExitStack() as stack:

        def machine(name: str, *words: str) -> subprocess.Popen[str]:
            return stack.enter_context(running(*words, log=folder / f"{name}.log"))

        workers = {
            name: machine(
                name, "worker", temporal_address, project, str(folder / name), lease, name
            )
            for name in ("a", "b")
        }
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
        leave(workers[first], folder)
        wait_until(lambda: len(starts(folder)) == 3, logs, PATIENCE)
        assert coordinator.stdout is not None
        assert coordinator.stdout.readline().split() == ["task_complete", "1", "1", "3"], logs()
    assert not (folder / "overlaps").exists()
    assert git(bare, "show", f"agent/{AGENT}:one.txt") == "1"
