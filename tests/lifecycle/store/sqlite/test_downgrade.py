"""Each migration can be taken back, and made again, with the data that both versions know."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from lifecycle.errors import RepositoryBusyError, StoreError
from lifecycle.store.lock import RunnerLock
from lifecycle.store.sqlite import file
from lifecycle.store.sqlite.downgrade import downgrade, main, take_down
from lifecycle.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from pathlib import Path

NEWEST = file.migrations()[-1][0]
FILL = """
INSERT INTO lifecycles (agent_id, task_id, coarse, version, birth, created_at, updated_at,
    tags, work_kind, attempt, retry_count, spawn_count, task, facts)
    VALUES ('a', 'T1', 'queued', 1, 'b', 1, 1, '[]', '', 0, 0, 0, 't', '{}');
INSERT INTO tags VALUES ('tag', 1);
INSERT INTO attempts (agent_id, attempt, spawn_id, pid, started_at, outcome, summary, error,
    head_before, head_after, changed_files, commits, saved_ref, swept, report)
    VALUES ('a', 1, 's', 1, 1, '', '', '', '', '', 0, 0, '', 0, '{}');
INSERT INTO requests (agent_id, at, body) VALUES ('a', 1, '{}');
INSERT INTO requests (agent_id, at, body) VALUES (NULL, 1, '{}');
INSERT INTO documents (collection, key, body) VALUES ('c', 'k', '{}');
INSERT INTO audit VALUES (1, 1, 'x', 'x', 'x', 'x', '', '{}', '', '');
INSERT INTO agent_instances (id, definition_id, state, health_state, name, created_at,
    updated_at, terminated_at) VALUES ('00000000-0000-7000-8000-000000000001',
    '00000000-0000-0000-0000-000000000002', 'failed', 'unknown', 'n', 1, 1, 2);
INSERT INTO agent_instance_tags VALUES ('00000000-0000-7000-8000-000000000001', 'Night', 0);
INSERT INTO agent_instance_events (id, instance_id, event_type, event_data_json, occurred_at)
    VALUES ('00000000-0000-7000-8000-000000000003', '00000000-0000-7000-8000-000000000001',
    'x', '{}', 1);
"""
KEPT = {
    "lifecycles": 0, "tags": 0, "attempts": 0, "documents": 0,
    "agent_instances": 1, "agent_instance_tags": 1, "agent_instance_events": 1, "audit": 2,
}  # fmt: skip
"""Tables whose rows outlive a way down to any version above this one, and up again."""


def made(version: int) -> sqlite3.Connection:
    """Return an empty database of a version."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("PRAGMA foreign_keys = ON")
    for number, script in file.migrations():
        if number <= version:
            connection.executescript(script.read_text())
            connection.execute(f"PRAGMA user_version = {number}")
    return connection


def schema(connection: sqlite3.Connection) -> dict[str, str]:
    """Return the text of each table, index and trigger, without what SQLite may write freely."""
    return {
        name: " ".join((text or "").replace('"', "").replace(",", " , ").split())
        for name, text in connection.execute("SELECT name, sql FROM sqlite_schema")
        if not name.startswith("sqlite_")
    }


def columns(connection: sqlite3.Connection) -> dict[str, list[Any]]:
    return {
        name: connection.execute(f"PRAGMA table_xinfo({name})").fetchall()
        for name in schema(connection)
    }


@pytest.mark.parametrize("version", range(NEWEST))
def test_the_way_down_leads_to_the_schema_of_that_version(version: int) -> None:
    with closing(made(NEWEST)) as connection, closing(made(version)) as wanted:
        connection.executescript(FILL)

        take_down(connection, version)

        assert schema(connection).keys() == schema(wanted).keys()
        assert columns(connection) == columns(wanted)
        assert connection.execute("PRAGMA user_version").fetchone() == (version,)
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []


@pytest.mark.parametrize("version", range(NEWEST))
def test_what_both_versions_know_is_there_after_a_way_down_and_up_again(version: int) -> None:
    with closing(made(NEWEST)) as connection:
        connection.executescript(FILL)
        before = {name: rows(connection, name) for name in KEPT}

        take_down(connection, version)
        file.bring_up_to_date(connection)

        for name, until in KEPT.items():
            kept = before[name] if version > until else []
            if name == "attempts" and 0 < version < 6:  # the one that added the report
                kept = [(*row[:-3], "", None, None) for row in kept]
            assert rows(connection, name) == kept, name
        assert columns(connection) == columns(file.open_in_memory())
        asked = connection.execute("SELECT agent_id FROM requests ORDER BY request_id").fetchall()
        assert asked == (
            [] if not version else [("a",)] if version < 7 else [("a",), (None,)]
        )  # as above
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []


def test_what_reviews_used_is_added_to_their_attempt_on_the_way_down() -> None:
    with closing(made(NEWEST)) as connection:
        for review, at, usd, program in ((0, 1, 1.0, "claude"), (1, 3, 0.5, "review: codex")):
            connection.execute(
                "INSERT INTO spending VALUES "
                "('a', 'b', 1, ?, 'T1', 'run', ?, ?, 'm', 10, 6, 4, 0, ?, 0, 0, 0, 0, 1, 2.0)",
                (review, at, program, usd),
            )
        take_down(connection, 12)
        found = connection.execute("SELECT at, program, tokens, cost_usd, seconds FROM spending")
        assert found.fetchall() == [(3.0, "claude", 20, 1.5, 4.0)]


def rows(connection: sqlite3.Connection, name: str) -> list[Any]:
    return connection.execute(f"SELECT * FROM {name}").fetchall()  # noqa: S608  # our own names


def test_ids_and_times_of_instances_have_defaults(tmp_path: Path) -> None:
    del tmp_path
    with closing(made(NEWEST)) as connection:
        for _ in range(3):
            connection.execute(
                "INSERT INTO agent_instances (definition_id, state, health_state) "
                "VALUES ('d', 'ready', 'unknown')"
            )
        found = connection.execute(
            "SELECT id, created_at, updated_at, unixepoch() FROM agent_instances"
        ).fetchall()
        for given, created, updated, now in found:
            assert (UUID(given).version, str(UUID(given))) == (7, given)
            assert UUID(given).int >> 80 == pytest.approx(created * 1000, abs=2)
            assert created == updated == pytest.approx(now, abs=60)
        connection.execute(
            "INSERT INTO agent_instance_events (instance_id, event_type, event_data_json) "
            "VALUES (?, 'x', '{}')",
            found[0][:1],
        )
        given, at = connection.execute(
            "SELECT id, occurred_at FROM agent_instance_events"
        ).fetchone()
        assert UUID(given).version == 7  # ordered by time
        assert at == pytest.approx(found[0][3], abs=60)


async def test_a_database_is_taken_back_by_a_command_and_brought_up_by_the_next_start(
    tmp_path: Path,
) -> None:
    path = tmp_path / "state.db"
    await (await SqliteStore.open(path)).aclose()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(FILL)

    done = await asyncio.to_thread(
        subprocess.run,
        (sys.executable, "-m", "lifecycle.store.sqlite.downgrade", str(path), "7"),
        check=False, capture_output=True, text=True,
    )  # fmt: skip

    assert (done.returncode, done.stdout) == (0, f"{path} has schema version 7 now\n")
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (7,)
    async with await SqliteStore.open(path) as store:
        row = await store.instances.get(UUID("00000000-0000-7000-8000-000000000001"))
        assert row is not None
        assert (row.name, row.tags) == ("n", ("Night",))
        assert len(await store.instances.events(row.id)) == 1


def test_a_way_down_that_there_is_not_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "state.db"
    with pytest.raises(StoreError, match="does not exist"):
        downgrade(path, 1)
    with closing(file.open_writer(path, durable=False, patience=1.0)):
        pass
    for version in (NEWEST + 1, -1):
        with pytest.raises(StoreError, match=f"cannot be taken back to {version}"):
            downgrade(path, version)
    assert main([str(path), "99"]) == 2  # a wrong argument
    assert "error: the database has schema version" in capsys.readouterr().err


def test_nothing_is_taken_back_beside_a_runner(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with closing(file.open_writer(path, durable=False, patience=1.0)):
        pass
    lock = RunnerLock(tmp_path, who="a runner")
    lock.acquire()
    try:
        with pytest.raises(RepositoryBusyError):
            downgrade(path, 1)
    finally:
        lock.release()


def test_each_migration_has_its_way_down() -> None:
    for _, script in file.migrations():
        assert script.with_suffix(file.DOWN).read_text().startswith("--"), "say what is lost"
