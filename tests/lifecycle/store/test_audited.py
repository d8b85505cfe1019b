"""Each store holds in its audit what a decision means, with the decision itself."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from lifecycle.audit import Audit
from lifecycle.errors import ConflictingUpdateError
from lifecycle.machine import events as on
from lifecycle.record import Transaction
from lifecycle.store.sqlite.audit_trail import TrailReader, read_note
from lifecycle.store.sqlite.store import SqliteStore
from tests.lifecycle.store.samples import WORKING, begun, entry, spawned

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.clock import SteppedClock
    from lifecycle.record import AgentLifecycle, JournalEntry


async def write(store: SqliteStore, record: AgentLifecycle, *entries: JournalEntry) -> None:
    await store.commit(Transaction(record=record, journal=entries))


async def test_a_decision_and_what_the_audit_holds_of_it_are_written_together(
    store: SqliteStore, path: Path, clock: SteppedClock
) -> None:
    record = await begun(store)
    stale = replace(record)
    await write(store, record, spawned(1), entry(2))
    with pytest.raises(ConflictingUpdateError):
        await write(store, stale, spawned(3))
    await write(store, record, spawned(3))
    audit = Audit(store.trail, now=clock.now)
    await audit.record("setting", "ada", "max_retries", "changed")
    held = [(each.seq, each.action, each.reason) for each in await store.trail.entries()]
    assert held == [
        (1, "spawn", "attempt 1 of task "),
        (2, "spawn", "attempt 3 of task "),
        (3, "setting", ""),
    ]
    verdict = TrailReader(path).verify()
    assert (verdict.whole, verdict.count) == (True, 3)


async def test_a_refused_request_is_held_once_and_an_answered_one_is_not(
    store: SqliteStore,
) -> None:
    await begun(store)
    first = await store.ask("agent-1", on.AcceptRequested(at=1.0, by="ada"))
    second = await store.ask("agent-1", on.ResumeRequested(at=1.0, by="eve"))
    await store.answer_request(first, "not now")
    await store.answer_request(first, "not now")
    await store.answer_request(second)
    await store.answer_request(99, "nobody asked")
    (held,) = await store.trail.entries()
    assert (held.actor, held.action, held.outcome, held.reason, held.at) == (
        "ada", "accept", "refused", "not now", 1000.0,
    )  # fmt: skip


async def test_the_audit_outlives_what_it_tells_of(store: SqliteStore) -> None:
    record = await begun(store, work=WORKING)
    await write(store, record, spawned(1))
    await store.delete("agent-1")
    assert [each.subject for each in await store.trail.entries()] == ["agent-1"]


async def test_many_decisions_at_once_make_one_whole_chain(path: Path) -> None:
    async with await SqliteStore.open(path) as store:
        records = [await begun(store, f"a{number}") for number in range(50)]
        await asyncio.gather(
            *(write(store, record, spawned(1, record.agent_id)) for record in records)
        )
    note = read_note(path.with_name("state.db-audit"))
    assert note is not None
    assert note.seq == 50
    verdict = TrailReader(path).verify()
    assert (verdict.count, verdict.findings) == (50, ())
