"""Work that a worker pushed from a clone of its own is read and accepted where the records are."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from lifecycle.machine.states import Completed, coarse
from lifecycle.plan import Agent, Task
from lifecycle.record import AgentLifecycle
from lifecycle.working_copy import facts_of
from tests.orchestrator.loopkit import of_store

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from lifecycle.store.sqlite.store import SqliteStore
    from tests.orchestrator.loopkit import World


def git(folder: Path, *args: str) -> str:
    done = subprocess.run(["git", *args], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def pushed(world: World, task: str) -> str:
    """Have a worker's clone push a branch with one file; returns its commit."""
    bare, clone = world.folder / "there.git", world.folder / f"clone-{task}"
    if not bare.exists():
        git(world.folder, "clone", "-q", "--bare", str(world.repo), str(bare))
        world.git("remote", "add", "origin", str(bare))
    git(world.folder, "clone", "-q", str(bare), str(clone))
    (clone / f"{task}.txt").write_text("made elsewhere\n")
    git(clone, "add", ".")
    git(clone, "-c", "user.name=W", "-c", "user.email=w@example.com", "commit", "-q", "-m", task)
    git(clone, "push", "-q", "origin", f"HEAD:refs/heads/agent/agent-{task}")
    return git(clone, "rev-parse", "HEAD")


def completed(world: World, task: str, head: str) -> None:
    """Record, as its coordinator does, that a worker completed it."""
    branch = world.git("rev-parse", "--abbrev-ref", "HEAD")
    work = Completed(
        summary="Made elsewhere", head=head, changed_files=(f"{task}.txt",), passed=("true",)
    )
    facts = facts_of(Task(id=task, title="Far"), Agent(agent_id=f"agent-{task}", command=["true"]))
    facts |= {
        "branch": f"agent/agent-{task}",
        "base_branch": branch,
        "base_commit": world.git("rev-parse", "HEAD"),
        "worker": "a",
    }

    async def write(store: SqliteStore) -> None:
        await store.create(
            AgentLifecycle(
                agent_id=f"agent-{task}",
                task_id=task,
                task="Far",
                state=coarse(work),
                work=work,
                facts=facts,
            )
        )

    of_store(world.repo, write)


def test_diff_shows_and_accept_merges_what_a_worker_pushed(world: World) -> None:
    completed(world, "T1", pushed(world, "T1"))
    assert "+made elsewhere" in world.call("diff", "T1", "--no-pager").stdout
    told = world.call("accept", "T1")
    assert "accepted" in told.stdout
    assert (world.repo / "T1.txt").read_text() == "made elsewhere\n"


def test_accept_of_all_takes_what_can_be_fetched_and_names_the_rest(world: World) -> None:
    head = pushed(world, "T1")
    completed(world, "T1", head)
    completed(world, "T2", "0123456789" * 4)
    told = world.call("accept", "--all", "--no-verify", code=3)
    assert (world.repo / "T1.txt").exists()
    (line,) = [line for line in told.stdout.splitlines() if line.startswith("agent-T2")]
    assert "cannot be fetched" in line
    assert "has no branch agent/agent-T2" in line


def test_what_cannot_be_fetched_says_where_it_is_and_what_to_do(world: World) -> None:
    completed(world, "T1", pushed(world, "T1"))
    world.git("remote", "set-url", "origin", str(world.folder / "moved.git"))
    told = world.call("diff", "T1", "--no-pager", code=2)
    assert "moved.git does not give agent/agent-T1" in told.stderr
    world.git("remote", "remove", "origin")
    told = world.call("diff", "T1", "--no-pager", code=2)
    assert "origin" in told.stderr
    told = world.call("accept", "T1", code=3)
    assert "cannot be fetched" in told.stdout


def test_a_worker_that_is_to_be_heard_of_needs_the_token_of_workers(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.settings('temporal_address = "127.0.0.1:1"\n')
    to = ("worker", "--name", "a", "--coordinator", "http://127.0.0.1:1")
    assert "loopwright serve --worker-token" in world.call(*to, code=2).stderr
    monkeypatch.setenv("LOOPWRIGHT_WORKER_TOKEN", "a-token-of-their-workers-0123456789")
    told = world.call("worker", "--name", "../a", *to[3:], code=2)
    assert "--name: '../a' is not a usable id" in told.stderr
