# ruff: noqa: ASYNC220, ASYNC240  # nothing else runs in the loops of these tests
"""The database file: made, migrated, refused when newer, set aside when damaged."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from lifecycle.errors import StoreDamagedError, StoreError, StoreFromNewerVersionError
from lifecycle.record import Transaction
from lifecycle.store.lock import RunnerLock
from lifecycle.store.sqlite import file as sqlite_file
from lifecycle.store.sqlite.store import SqliteStore
from tests.lifecycle.store.conftest import store_threads
from tests.lifecycle.store.programs import ROOT, command
from tests.lifecycle.store.samples import begun, entry, lifecycle

if TYPE_CHECKING:
    from pathlib import Path

PAGE = 4096


def content(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.iterdir()}


async def fill(path: Path, agents: int = 200) -> None:
    async with await SqliteStore.open(path) as store:
        for number in range(agents):
            await store.create(lifecycle(f"a{number}", facts={"text": "x" * 500}))


def spoil(path: Path, *, from_page: int = 2) -> None:
    """Overwrite all pages from this one on."""
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek((from_page - 1) * PAGE)
        file.write(b"\xa5" * (size - file.tell()))


async def test_a_new_database_is_made_for_its_owner_alone(path: Path) -> None:
    async with await SqliteStore.open(path) as store:
        await begun(store)
        modes = {each.name: each.stat().st_mode & 0o777 for each in path.parent.iterdir()}

    assert modes == {"state.db": 0o600, "state.db-wal": 0o600, "state.db-shm": 0o600}
    assert [each.name for each in path.parent.iterdir()] == ["state.db"]
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        tables = connection.execute("SELECT name, strict FROM pragma_table_list").fetchall()
    assert version == sqlite_file.migrations()[-1][0]
    assert {strict for name, strict in tables if not name.startswith("sqlite_")} == {1}


@pytest.mark.parametrize(("durable", "level"), [(False, 1), (True, 2)])
async def test_durable_waits_for_the_disk(path: Path, level: int, *, durable: bool) -> None:
    async with await SqliteStore.open(path, durable=durable) as store:
        found = await store._driver.read(
            lambda connection: connection.execute("PRAGMA synchronous").fetchone()
        )

    assert found == (level,)


async def test_what_was_written_is_there_after_opening_again(path: Path) -> None:
    async with await SqliteStore.open(path) as store:
        record = await begun(store)
        await store.commit(Transaction(record=record, journal=(entry(1),)))

    async with await SqliteStore.open(path) as store:
        assert await store.get("agent-1") == record
        assert await store.journal("agent-1") == (entry(1),)


@pytest.mark.parametrize("unclean", [False, True])
async def test_a_newer_database_is_refused_and_left_untouched(path: Path, *, unclean: bool) -> None:
    async with await SqliteStore.open(path):
        pass
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("PRAGMA user_version = 99")
        if unclean:
            # A copy made while it is open is what a killed writer leaves.
            copy = path.parent.with_name("left")
            shutil.copytree(path.parent, copy)
            path = copy / path.name
    before = content(path.parent)

    with pytest.raises(StoreFromNewerVersionError) as refused:
        await SqliteStore.open(path)

    text = str(refused.value)
    known = sqlite_file.migrations()[-1][0]
    for part in ("version 99", f"up to {known}", str(path), "Upgrade Loopwright"):
        assert part in text
    after = content(path.parent)
    assert {name: after[name] for name in before if not name.endswith("-shm")} == {
        name: before[name] for name in before if not name.endswith("-shm")
    }
    assert not store_threads()


async def test_a_file_that_is_not_a_database_is_set_aside_and_named(path: Path) -> None:
    path.parent.mkdir()
    for number, junk in ((1, b"not a database, " * 600), (2, b"neither is this " * 600)):
        path.write_bytes(junk)

        with pytest.raises(StoreDamagedError) as refused:
            await SqliteStore.open(path)

        aside = path.with_name(f"state.db.damaged-{number}")
        assert str(aside) in str(refused.value)
        assert "Start again" in str(refused.value)
        assert aside.read_bytes() == junk
        assert not path.exists()

    async with await SqliteStore.open(path) as store:
        assert await store.unfinished() == ()
    assert path.with_name("state.db.damaged-1").read_bytes() == b"not a database, " * 600


async def test_damage_after_an_unclean_end_is_found_at_the_next_start(path: Path) -> None:
    await fill(path)
    spoil(path, from_page=8)
    damaged = path.read_bytes()
    path.with_name("state.db-wal").write_bytes(b"torn")

    with pytest.raises(StoreDamagedError, match="damaged-1"):
        await SqliteStore.open(path)

    assert path.with_name("state.db.damaged-1").read_bytes() == damaged
    assert not path.exists()
    assert not path.with_name("state.db-wal").exists()


async def test_damage_found_while_reading_is_told_and_set_aside_at_the_next_start(
    path: Path,
) -> None:
    await fill(path)
    spoil(path, from_page=60)
    damaged = path.read_bytes()

    async with await SqliteStore.open(path) as store:
        with pytest.raises(StoreDamagedError, match="nothing was moved or overwritten"):
            await store.list(limit=1000)
        with pytest.raises(StoreDamagedError, match="nothing was moved"):
            await store.get("a150")
    assert path.read_bytes() == damaged

    with pytest.raises(StoreDamagedError, match="damaged-1"):
        await SqliteStore.open(path)
    assert path.with_name("state.db.damaged-1").read_bytes() == damaged
    async with await SqliteStore.open(path) as store:
        assert (await store.list()).records == ()


async def test_a_suspicion_that_proves_wrong_is_dropped(path: Path) -> None:
    await fill(path, 3)
    path.with_name("state.db.suspect").touch()

    async with await SqliteStore.open(path) as store:
        assert len((await store.list()).records) == 3
    assert not path.with_name("state.db.suspect").exists()


async def test_a_damaged_database_of_a_running_process_is_not_moved(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"no database at all " * 600)
    with subprocess.Popen(
        command("hold", path.parent), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline().startswith(b"held")

        with pytest.raises(StoreDamagedError, match=f"was not moved: .*pid {holder.pid}"):
            await SqliteStore.open(path)

        holder.kill()
    assert path.exists()

    with RunnerLock(path.parent), pytest.raises(StoreDamagedError, match="damaged-1"):
        await SqliteStore.open(path)
    assert not path.exists()


async def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.db").mkdir()

    for path in (tmp_path / "file" / "state.db", tmp_path / "folder.db"):
        with pytest.raises(StoreError, match="cannot be opened"):
            await SqliteStore.open(path)
    assert not store_threads()


def test_a_crash_between_two_statements_of_a_migration_leaves_old_or_new(tmp_path: Path) -> None:
    wanted: dict[int, list[object]] = {0: []}
    counts = []
    with closing(sqlite3.connect(tmp_path / "whole.db", isolation_level=None)) as connection:
        for number, script in sqlite_file.migrations():
            steps = list(sqlite_file.statements(script.read_text()))
            for step in steps:
                connection.execute(step)
            counts.append(len(steps))
            wanted[number] = connection.execute("SELECT sql FROM sqlite_schema").fetchall()
    count, newest = counts[0], max(wanted)
    # Beside its own statements: the version asked twice and set, BEGIN and COMMIT.
    endings = (4, count // 2, count + 3, count + 4, count + 5, sum(counts) + 99)
    said = subprocess.run(
        command("migrate", tmp_path, *map(str, endings)),
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.splitlines()  # fmt: skip
    seen = set()
    for ending, told in zip(endings, said, strict=True):
        assert told in ("killed", "whole 0")
        with closing(sqlite3.connect(tmp_path / f"{ending}.db")) as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            found = connection.execute("SELECT sql FROM sqlite_schema").fetchall()
        assert found == wanted[version]
        seen.add((version, told))
    assert (0, "killed") in seen
    assert (newest, "whole 0") in seen


def test_numbers_of_migrations_have_no_gap() -> None:
    numbers = [number for number, _ in sqlite_file.migrations()]

    assert numbers == list(range(1, len(numbers) + 1))
