"""An agent's next record, and what becomes of the one that was over."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from lifecycle.errors import ConflictingUpdateError, UnknownLifecycleError
from lifecycle.machine import events as on
from lifecycle.machine import states as st
from lifecycle.record import Filter, Transaction
from lifecycle.store.sqlite import file, statements
from tests.lifecycle.store.samples import ACCEPTED, attempt, begun, entry, lifecycle, order

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.store.sqlite.store import SqliteStore


async def ids(store: SqliteStore, which: Filter) -> list[str]:
    return [record.agent_id async for record in store.every(which)]


async def test_the_next_record_of_an_agent_leaves_the_old_one_whole_under_its_own_id(
    store: SqliteStore,
) -> None:
    old = lifecycle(work=ACCEPTED, tags=("red",), task_id="T1")
    await store.commit(
        Transaction(
            record=old,
            journal=(entry(1), entry(2)),
            effects=(order("e1"),),
            attempt=attempt(1),
        )
    )
    asked = await store.ask("agent-1", on.Guided(at=1.0, text="more"))

    new = await store.create_next(lifecycle(work=st.Queued(), task_id="T2"), old)

    earlier = f"agent-1@{old.birth}"
    found = await store.get(earlier)
    assert found == replace(old, agent_id=earlier)
    assert [each.seq for each in await store.journal(earlier)] == [1, 2]
    assert [each.attempt for each in await store.attempts(earlier)] == [1]
    assert [each.agent_id for each in await store.requests()] == [earlier]
    assert asked
    assert await store.get("agent-1") == new
    assert await store.journal("agent-1") == ()
    assert await store.attempts("agent-1") == ()
    assert await store.pending("agent-1") == await store.pending(earlier) == ()
    assert await ids(store, Filter()) == ["agent-1", earlier]
    assert await ids(store, Filter(current=True)) == ["agent-1"]
    assert await ids(store, Filter(earlier_of="agent-1")) == [earlier]
    assert await ids(store, Filter(earlier_of="agent")) == []
    assert await ids(store, Filter(tags=("red",))) == [earlier]


async def test_a_record_that_changed_meanwhile_does_not_give_way(store: SqliteStore) -> None:
    old = await begun(store, work=ACCEPTED)
    stale = replace(old, version=old.version - 1)

    refused, nobody, other = await asyncio.gather(
        store.create_next(lifecycle(work=st.Queued()), stale),
        store.ask("nobody", on.Guided(at=1.0, text="more")),
        store.create(lifecycle("other")),
        return_exceptions=True,
    )

    assert isinstance(refused, ConflictingUpdateError)
    assert isinstance(nobody, UnknownLifecycleError)
    assert await store.get("agent-1") == old
    assert await store.get("other") == other
    assert await ids(store, Filter(earlier_of="agent-1")) == []


async def test_a_row_without_a_record_is_refused_beside_one_that_gives_way(
    store: SqliteStore,
) -> None:
    old = await begun(store, work=ACCEPTED)

    new, nobody = await asyncio.gather(
        store.create_next(lifecycle(work=st.Queued()), old),
        store.ask("nobody", on.Guided(at=1.0, text="more")),
        return_exceptions=True,
    )

    assert isinstance(nobody, UnknownLifecycleError)
    assert await store.get("agent-1") == new
    assert len(await ids(store, Filter(earlier_of="agent-1"))) == 1


def test_every_table_that_refers_to_a_record_goes_with_it_when_it_is_set_aside(
    tmp_path: Path,
) -> None:
    with closing(sqlite3.connect(tmp_path / "state.db")) as connection:
        for _, script in file.migrations():
            connection.executescript(script.read_text())
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        around = {
            name
            for (name,) in tables.fetchall()
            for row in connection.execute(f"PRAGMA foreign_key_list({name})")
            if row[2:4] == ("lifecycles", "agent_id")
        }
    assert around == {*statements.AROUND, "outbox"}
