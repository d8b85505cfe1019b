"""A store in memory keeps the promises of one in a file, without a thread or a loop of its own."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from lifecycle.audit import Audit, AuditCheck
from lifecycle.errors import ConflictingUpdateError, StoreError
from lifecycle.record import Transaction
from lifecycle.store.instances import InstanceFilter
from lifecycle.store.sqlite.store import SqliteStore
from tests.lifecycle.store.samples import (
    attempt,
    begun,
    delivery,
    entry,
    instance,
    lifecycle,
    order,
    spawned,
)

if TYPE_CHECKING:
    from pathlib import Path


async def test_a_refused_decision_leaves_nothing_in_memory_either() -> None:
    store = SqliteStore.in_memory()
    record = await begun(store)
    await store.commit(Transaction(record=record, journal=(entry(1),)))
    refused = Transaction(record=record, journal=(entry(2), entry(1)), effects=(order("e"),))

    with pytest.raises(ConflictingUpdateError, match="journal entry 1"):
        await store.commit(refused)
    with pytest.raises(StoreError, match="in memory"):
        await store.instances.save(instance(1, "no such state"))

    assert record.version == 2
    assert await store.journal("agent-1") == (entry(1),)
    assert await store.pending("agent-1") == ()
    await store.commit(Transaction(record=record, attempt=attempt(1)))


async def test_what_is_begun_in_memory_is_written_or_refused_to_who_waits() -> None:
    store = SqliteStore.in_memory()
    await store.instances.begin(instance(1))
    with pytest.raises(StoreError):
        await store.instances.begin(instance(2, "no such state"))
    assert len(await store.instances.list(InstanceFilter())) == 1


async def test_each_store_in_memory_is_its_own() -> None:
    one, two = SqliteStore.in_memory(), SqliteStore.in_memory()
    await begun(one)
    assert await two.get("agent-1") is None


def test_a_store_in_memory_serves_any_loop_and_has_no_thread() -> None:
    threads = threading.active_count()
    store = SqliteStore.in_memory()

    assert asyncio.run(store.deliveries.add(delivery()))
    assert not asyncio.run(store.deliveries.add(delivery()))

    assert threading.active_count() == threads


async def test_the_audit_in_memory_is_a_whole_chain() -> None:
    store = SqliteStore.in_memory()
    record = await begun(store)
    await store.commit(Transaction(record=record, journal=(spawned(1),)))
    await Audit(store.trail, now=lambda: 1.0).record("setting", "ada", "max_retries", "changed")
    check = AuditCheck(store._audit.note.read())
    check.take(await store.trail.entries())

    assert (check.verdict().whole, check.count) == (True, 2)


@pytest.mark.parametrize("kind", ["memory", "file"])
async def test_the_change_marker_changes_with_every_write(kind: str, path: Path) -> None:
    store = SqliteStore.in_memory() if kind == "memory" else await SqliteStore.open(path)
    async with store:
        before = store.change_marker()
        await begun(store)
        assert store.change_marker() != before


async def test_a_store_in_memory_that_is_closed_says_so() -> None:
    store = SqliteStore.in_memory()
    await store.aclose()
    await store.aclose()

    for refused in (store.get("agent-1"), store.create(lifecycle()), store.unfinished()):
        with pytest.raises(StoreError, match="closed"):
            await refused
