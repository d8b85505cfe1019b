"""A quick look shows what the store holds, beside its writer and without its weight."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from lifecycle.errors import StoreDamagedError, StoreError, StoreFromNewerVersionError
from lifecycle.store import peek, sqlite_file
from tests.store.programs import ROOT
from tests.store.samples import ACCEPTED, BLOCKED, WORKING, begun, lifecycle

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.store.sqlite import SqliteStore


async def test_rows_are_plain_and_newest_first_beside_an_open_store(
    sqlite_store: SqliteStore, path: Path
) -> None:
    await begun(sqlite_store, "a", work=WORKING, tags=("t", "u"), task_id="T1")
    await begun(sqlite_store, "b", work=BLOCKED, tags=("u",))
    await begun(sqlite_store, "c", work=ACCEPTED)
    await sqlite_store.create(lifecycle("d"))

    rows = peek.read_rows(path)

    assert [row["agent_id"] for row in rows] == ["d", "c", "b", "a"]
    assert rows[0]["work"] is None
    first = rows[3]
    assert (first["attempt"], first["retry_count"], first["spawn_count"]) == (3, 2, 0)
    assert (first["coarse"], first["work_kind"], first["tags"]) == (
        "running",
        "Working",
        ["t", "u"],
    )
    assert first["work"]["since"] == 12.5
    assert rows[2]["work"]["word"]["blocked_on"] == ["T000"]


async def test_rows_can_be_chosen(sqlite_store: SqliteStore, path: Path) -> None:
    await begun(sqlite_store, "a", work=WORKING, tags=("t", "u"), task_id="T1")
    await begun(sqlite_store, "b", work=BLOCKED, tags=("u",))
    await begun(sqlite_store, "c", work=ACCEPTED)

    def names(**how: object) -> list[str]:
        return [row["agent_id"] for row in peek.read_rows(path, **how)]  # type: ignore[arg-type]  # each call below names its own

    assert names(states=["running"]) == ["b", "a"]
    assert names(states=["accepted", "queued"]) == ["c"]
    assert names(tags=["u"]) == ["b", "a"]
    assert names(tags=["u", "t"]) == ["a"]
    assert names(task_id="T1") == ["a"]
    assert names(agent_id="c") == ["c"]
    assert names(limit=1) == ["c"]


def test_a_missing_database_is_named_and_not_made(path: Path) -> None:
    with pytest.raises(StoreError, match=r"state\.db does not exist"):
        peek.read_rows(path)
    assert not path.exists()


@pytest.mark.parametrize(("version", "error"), [(99, StoreFromNewerVersionError), (0, StoreError)])
def test_another_schema_is_refused(path: Path, version: int, error: type[Exception]) -> None:
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")

    with pytest.raises(error, match=f"schema version {version}"):
        peek.read_rows(path)


def test_a_file_that_is_no_database_is_named_and_left_alone(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"junk " * 500)

    with pytest.raises(StoreDamagedError, match="left as it is"):
        peek.read_rows(path)
    assert path.read_bytes() == b"junk " * 500


def test_strange_characters_in_the_path_are_no_options(tmp_path: Path) -> None:
    path = tmp_path / "50%3f?mode=rwc#x" / "state.db"
    path.parent.mkdir()
    with closing(sqlite_file.open_writer(path, durable=False, patience=1.0)):
        pass

    assert peek.read_rows(path) == []


def test_it_knows_the_newest_schema() -> None:
    assert sqlite_file.migrations()[-1][0] == peek.KNOWN_SCHEMA


def test_a_look_imports_next_to_nothing() -> None:
    code = "import lifecycle.store.peek, sys; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-S", "-c", code],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ).stdout.split()

    heavy = {"asyncio", "pydantic", "dataclasses", "inspect", "lifecycle.machine", "click", "rich"}
    assert not heavy & set(loaded)
