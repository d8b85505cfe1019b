"""What the store promises of workers: one row for each name, of the machine that has it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from lifecycle.errors import ConflictingUpdateError
from lifecycle.store.plain_queries import read_silent_workers
from lifecycle.store.rows.workers import WorkerRow
from lifecycle.store.sqlite import workers
from lifecycle.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from pathlib import Path

A = WorkerRow(
    name="a",
    machine="m1",
    version="1.0",
    labels=("linux", "gpu"),
    slots=4,
    programs=("claude",),
    lacks=("codex: not installed",),
    clock_offset=-2.5,
    lease=60.0,
    draining=True,
    seen_at=100.0,
)


async def test_a_worker_comes_back_as_it_was_seen_last(store: SqliteStore) -> None:
    await store.workers.seen(A)
    assert await store.workers.all() == (A,)
    later = replace(A, slots=2, draining=False, lacks=(), seen_at=130.0)
    await store.workers.seen(later)
    await store.workers.seen(replace(A, name="B", seen_at=131.0))
    assert await store.workers.all() == (replace(A, name="B", seen_at=131.0), later)


async def test_a_name_is_of_one_machine_until_that_is_silent_for_its_lease(
    store: SqliteStore,
) -> None:
    await store.workers.seen(A)
    other = replace(A, machine="m2", seen_at=160.0)
    with pytest.raises(ConflictingUpdateError, match="--name"):
        await store.workers.seen(other)
    assert await store.workers.all() == (A,)
    await store.workers.seen(taken := replace(other, seen_at=160.5))
    assert await store.workers.all() == (taken,)


async def test_names_are_limited_and_who_is_silent_makes_room(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "MOST", 2)
    for name in ("a", "b"):
        await store.workers.seen(replace(A, name=name))
    with pytest.raises(ConflictingUpdateError, match="2 workers are known, so c is not taken"):
        await store.workers.seen(replace(A, name="c"))
    await store.workers.seen(later := replace(A, seen_at=150.0))
    await store.workers.seen(new := replace(A, name="c", seen_at=170.0))
    assert await store.workers.all() == (later, new)


async def test_who_says_goodbye_is_forgotten_and_nobody_says_it_for_another(
    store: SqliteStore,
) -> None:
    await store.workers.seen(A)
    await store.workers.left("a", "m2")
    assert await store.workers.all() == (A,)
    await store.workers.left("a", "m1")
    assert await store.workers.all() == ()


async def test_who_was_not_heard_of_for_long_is_forgotten(store: SqliteStore) -> None:
    await store.workers.seen(A)
    await store.workers.seen(new := replace(A, name="b", seen_at=200.0))
    assert await store.workers.prune(150.0) == 1
    assert await store.workers.all() == (new,)


@pytest.mark.parametrize("name", ["", "../a", "a b", "a\n", "a" * 65])
async def test_a_name_that_could_be_no_folder_is_refused(store: SqliteStore, name: str) -> None:
    with pytest.raises(ValueError, match="not a usable id"):
        await store.workers.seen(replace(A, name=name))


async def test_quick_commands_see_who_is_silent(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    async with await SqliteStore.open(path) as store:
        await store.workers.seen(A)
        await store.workers.seen(replace(A, name="b", seen_at=150.0))
    assert read_silent_workers(path, 160.0) == {}
    assert read_silent_workers(path, 160.5) == {"a": 100.0}
    assert A.is_silent(160.5)
    assert not A.is_silent(160.0)
