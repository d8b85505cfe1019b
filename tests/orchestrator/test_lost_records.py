"""Where loops ran and their records are gone, nothing is begun anew unless a person says so."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from lifecycle.errors import RecordsLostError
from lifecycle.loop import AgentLifecycleLoop
from lifecycle.plan import Agent, Plan, Task
from lifecycle.store.sqlite_file import migrations, statements
from runtime.branches import BranchManager
from runtime.process import TerminalManager
from runtime.workspace import WorkspaceManager
from tests.orchestrator.loopkit import DONE, World

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ONE = "agent-T001"
COMMITS = [{"write": {"path": "a.txt", "text": "a\n"}}, {"commit": "Add a"}, DONE]


def state_of(world: World) -> Path:
    return world.repo / ".loopwright"


def stamped(world: World) -> str:
    return world.script("done", [world.stamp("begins"), *COMMITS])


@pytest.fixture
def ran(world: World) -> World:
    """Return a repository in which a task was completed."""
    world.call("run", "Write a", "--task-id", "T001", "--command", stamped(world))
    assert len(world.stamps()) == 1
    return world


def empty(world: World) -> None:
    (state_of(world) / "state.db").write_bytes(b"")


def missing(world: World) -> None:
    (state_of(world) / "state.db").unlink()


def without_note(world: World) -> None:
    missing(world)
    (state_of(world) / "state.db-audit").unlink()


def all_gone(world: World) -> None:
    shutil.rmtree(state_of(world))


LOST: dict[str, Callable[[World], None]] = {
    "empty": empty,
    "missing": missing,
    "missing with its audit note": without_note,
    "the whole folder": all_gone,
}


@pytest.mark.parametrize("lose", LOST.values(), ids=LOST)
def test_lost_records_are_told_and_nothing_is_done_again(
    ran: World, lose: Callable[[World], None]
) -> None:
    lose(ran)
    again = ("--task-id", "T001", "--command", stamped(ran))
    plan = ran.plan(
        f"[agents.default]\ncommand = {json.dumps(stamped(ran).split())}\n"
        '[[tasks]]\nid = "T001"\ntitle = "Write a"\n'
    )
    for words in (
        ("run", "Write a", *again),
        ("up", plan, "--no-server"),
        ("serve", "--port", "0"),
        ("add", "Write b", "--command", stamped(ran)),
    ):
        told = ran.call(*words, code=2).stderr
        assert "their records are lost" in told
        assert "Put a backup in its place" in told
        assert "loopwright init --begin-anew" in told
    assert len(ran.stamps()) == 1

    begun = ran.call("init", "--begin-anew")

    assert "made anew and empty" in begun.stdout
    ran.call("run", "Write a", *again)
    assert len(ran.stamps()) == 2
    assert ran.call("audit", "verify").code == 0


@pytest.mark.parametrize("lose", LOST.values(), ids=LOST)
@pytest.mark.parametrize("words", ["ps", "show T001", "accept T001", "doctor"])
def test_no_command_says_that_nothing_ran_where_records_are_lost(
    ran: World, lose: Callable[[World], None], words: str
) -> None:
    lose(ran)
    told = ran.call(*words.split(), code=2)
    said = told.stdout + told.stderr
    assert "loopwright init --begin-anew" in said
    assert "no loop ran there yet" not in said


@pytest.mark.parametrize("lose", [empty, missing, without_note])
def test_an_audit_that_is_lost_is_not_told_to_come_with_the_next_loop(
    ran: World, lose: Callable[[World], None]
) -> None:
    lose(ran)
    assert "their records are lost" in ran.call("audit", "verify", code=2).stderr


async def test_a_caller_of_the_library_is_refused_too(ran: World) -> None:
    missing(ran)
    loop = AgentLifecycleLoop(
        repo_dir=ran.repo,
        plan=Plan(tasks=()),
        ci_provider=None,
        terminal_manager=TerminalManager(ran.repo),
        branch_manager=BranchManager(ran.repo),
        workspace_manager=WorkspaceManager(ran.repo),
    )
    agent = Agent(agent_id=ONE, command=tuple(stamped(ran).split()))
    with pytest.raises(RecordsLostError, match="begin-anew"):
        await loop.run_agent_loop(agent, Task(id="T001", title="Write a"))
    assert len(ran.stamps()) == 1


def test_records_that_are_there_are_not_begun_anew(ran: World) -> None:
    before = ran.row(ONE)
    assert "stays as it is" in ran.call("init", "--begin-anew").stdout
    assert ran.row(ONE) == before


def test_a_clone_with_the_branches_of_agents_is_a_fresh_repository(
    ran: World, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = World(tmp_path / "other")
    other.git("fetch", "--quiet", str(ran.repo), "refs/heads/agent/*:refs/remotes/origin/agent/*")
    other.call("run", "Write a", "--task-id", "T001", "--command", stamped(other))
    assert other.row(ONE)["work_kind"] == "Completed"


def test_another_worktree_of_the_repository_begins_with_records_of_its_own(ran: World) -> None:
    ran.git("worktree", "add", "--quiet", str(ran.folder / "second"))
    ran.repo = ran.folder / "second"
    ran.call("run", "Write b", "--task-id", "T002", "--command", stamped(ran))
    assert ran.row("agent-T002")["work_kind"] == "Completed"


def test_records_that_were_set_aside_as_damaged_are_begun_anew_as_was_said(ran: World) -> None:
    (state_of(ran) / "state.db").write_bytes(b"junk " * 500)
    told = ran.call("up", "--no-server", code=2).stderr
    assert "Start again to begin with empty records" in told
    ran.call("up", "--no-server")


# --- versions -------------------------------------------------------------------------------------


def older(world: World, version: int) -> None:
    """Write records as an earlier version had them, with one lifecycle."""
    state_of(world).mkdir()
    with closing(sqlite3.connect(state_of(world) / "state.db")) as connection:
        for number, script in migrations():
            if number <= version:
                for statement in statements(script.read_text()):
                    connection.execute(statement)
        connection.execute(
            "INSERT INTO lifecycles (agent_id, task_id, coarse, version, birth, created_at, "
            "updated_at, tags, work_kind, attempt, retry_count, spawn_count, task, facts) "
            "VALUES ('agent-T001', 'T001', 'queued', 1, 'b', 1.0, 1.0, "
            "'[]', '', 0, 0, 0, 'Old', '{}')"
        )
        connection.execute(f"PRAGMA user_version = {version}")
        connection.commit()


@pytest.mark.parametrize("version", [1, 3, migrations()[-1][0] - 1])
def test_records_of_an_older_version_are_listed_and_shown_before_any_loop(
    world: World, version: int
) -> None:
    older(world, version)
    assert [row["agent_id"] for row in world.json("ps")["lifecycles"]] == [ONE]
    assert world.json("costs") is not None
    assert ONE in world.call("show", "T001").stdout


@pytest.mark.parametrize("version", [-1, 0])
def test_a_version_that_none_wrote_is_called_what_it_is(world: World, version: int) -> None:
    older(world, 1)
    database = state_of(world) / "state.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    for words in (("up", "--no-server"), ("ps",), ("show", "T001")):
        told = world.call(*words, code=2).stderr
        assert "schema version" in told
        assert str(version) in told
        assert "free space" not in told
