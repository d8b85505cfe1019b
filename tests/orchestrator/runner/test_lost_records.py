"""Where loops ran and their records are gone, no new records are made unless a person says so."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from lifecycle.errors import RecordsLostError
from lifecycle.plan import Agent, Task
from lifecycle.store.sqlite.file import migrations, statements
from tests.orchestrator.filled import loop_of
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
    for look in ("ps", "show T001", "accept T001", "doctor"):
        looked = ran.call(*look.split(), code=2)
        said = looked.stdout + looked.stderr
        assert "loopwright init --begin-anew" in said
        assert "no loop ran there yet" not in said
    for words in (
        ("run", "Write a", *again),
        ("up", ran.plan_of({"T001": [ran.stamp("begins"), *COMMITS]}), "--no-server"),
        ("serve", "--port", "0"),
        ("add", "Write b", "--command", stamped(ran)),
    ):
        told = ran.call(*words, code=2).stderr
        assert "their records are lost" in told
        assert "Put a backup in its place" in told
        assert "loopwright init --begin-anew" in told
    if lose is not all_gone:
        assert "their records are lost" in ran.call("audit", "verify", code=2).stderr
    assert len(ran.stamps()) == 1

    begun = ran.call("init", "--begin-anew")

    assert "is new and empty" in begun.stdout
    ran.call("run", "Write a", *again)
    assert len(ran.stamps()) == 2
    assert ran.call("audit", "verify").code == 0


async def test_a_caller_of_the_library_is_refused_too(ran: World) -> None:
    missing(ran)
    agent = Agent(agent_id=ONE, command=tuple(stamped(ran).split()))
    with pytest.raises(RecordsLostError, match="begin-anew"):
        await loop_of(ran.repo).run_agent_loop(agent, Task(id="T001", title="Write a"))
    assert len(ran.stamps()) == 1


def test_records_that_exist_are_not_replaced(ran: World) -> None:
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


def test_damaged_records_are_set_aside_and_the_next_start_begins_with_empty_ones(
    ran: World,
) -> None:
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
