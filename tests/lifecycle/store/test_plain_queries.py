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
from lifecycle.store import plain_queries
from lifecycle.store.sqlite import file
from tests.lifecycle.store.programs import ROOT
from tests.lifecycle.store.samples import ACCEPTED, BLOCKED, WORKING, begun, lifecycle

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.store.sqlite.store import SqliteStore


async def test_rows_are_plain_and_newest_first_beside_an_open_store(
    store: SqliteStore, path: Path
) -> None:
    await begun(store, "a", work=WORKING, tags=("t", "u"), task_id="T1")
    await begun(store, "b", work=BLOCKED, tags=("u",))
    await begun(store, "c", work=ACCEPTED)
    await store.create(lifecycle("d"))

    rows = plain_queries.read_rows(path)

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


async def test_rows_can_be_chosen(store: SqliteStore, path: Path) -> None:
    await begun(store, "a", work=WORKING, tags=("t", "u"), task_id="T1")
    await begun(store, "b", work=BLOCKED, tags=("u",))
    await begun(store, "c", work=ACCEPTED)

    def names(**how: object) -> list[str]:
        return [row["agent_id"] for row in plain_queries.read_rows(path, **how)]  # type: ignore[arg-type]  # each call below names its own

    assert names(states=["running"]) == ["b", "a"]
    assert names(states=["accepted", "queued"]) == ["c"]
    assert names(tags=["u"]) == ["b", "a"]
    assert names(tags=["u", "t"]) == ["a"]
    assert names(created_after=1000.0) == []
    assert names(created_after=999.0) == ["c", "b", "a"]
    assert names(created_before=1001.0, states=["running"]) == ["b", "a"]
    assert names(task_id="T1") == ["a"]
    assert names(agent_id="c") == ["c"]
    assert names(limit=1) == ["c"]


def test_a_missing_database_is_named_and_not_made(path: Path) -> None:
    with pytest.raises(StoreError, match=r"state\.db does not exist"):
        plain_queries.read_rows(path)
    assert not path.exists()


@pytest.mark.parametrize(("version", "error"), [(99, StoreFromNewerVersionError), (0, StoreError)])
def test_another_schema_is_refused(path: Path, version: int, error: type[Exception]) -> None:
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")

    with pytest.raises(error, match=f"schema version {version}"):
        plain_queries.read_rows(path)


def test_a_file_that_is_not_a_database_is_named_and_left_alone(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"junk " * 500)

    with pytest.raises(StoreDamagedError, match="left as it is"):
        plain_queries.read_rows(path)
    assert path.read_bytes() == b"junk " * 500


def test_strange_characters_in_the_path_are_not_options(tmp_path: Path) -> None:
    path = tmp_path / "50%3f?mode=rwc#x" / "state.db"
    path.parent.mkdir()
    with closing(file.open_writer(path, durable=False, patience=1.0)):
        pass

    assert plain_queries.read_rows(path) == []


def test_it_knows_the_newest_schema() -> None:
    assert file.migrations()[-1][0] == plain_queries.KNOWN_SCHEMA


def test_a_look_imports_next_to_nothing() -> None:
    code = "import lifecycle.store.plain_queries, sys; print(*sys.modules)"
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
