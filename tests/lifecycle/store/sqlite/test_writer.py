# ruff: noqa: ASYNC220  # nothing else runs in the loops of these tests
"""One thread writes: in groups, each order for itself, and what it said is true after any end."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sqlite3
import subprocess
import threading
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from lifecycle.errors import ConflictingUpdateError, StoreError
from lifecycle.record import Transaction
from lifecycle.store.sqlite.audit_trail import TrailReader
from lifecycle.store.sqlite.driver import FileDriver
from lifecycle.store.sqlite.statements import put_document
from lifecycle.store.sqlite.store import SqliteStore
from tests.lifecycle.store.conftest import store_threads
from tests.lifecycle.store.programs import ROOT, WRITERS, command
from tests.lifecycle.store.samples import attempt, begun, delivery, entry, lifecycle, order

if TYPE_CHECKING:
    from pathlib import Path


async def traced(store: SqliteStore) -> list[str]:
    """Return the list that all statements of the writer will be added to."""
    seen: list[str] = []
    await store._driver.read(lambda connection: connection.set_trace_callback(seen.append))
    return seen


async def block(store: SqliteStore) -> threading.Event:
    """Keep the writer busy until the event is set, so that others queue up behind."""
    free, begun = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def wait(_: sqlite3.Connection) -> None:
        loop.call_soon_threadsafe(begun.set)
        free.wait(10)

    blocking = asyncio.ensure_future(store._driver.read(wait))
    await begun.wait()
    blocking.add_done_callback(lambda done: done.result())
    return free


async def test_there_is_one_thread_and_none_is_left(path: Path) -> None:
    before = threading.active_count()
    async with await SqliteStore.open(path) as store:
        await asyncio.gather(*(begun(store, f"a{number}") for number in range(50)))
        await store.unfinished()
        assert threading.active_count() == before + 1
        assert len(store_threads()) == 1
    assert threading.active_count() == before


async def test_what_waits_together_is_committed_together(store: SqliteStore) -> None:
    seen = await traced(store)
    free = await block(store)
    waiting = [
        asyncio.ensure_future(store.put("c", str(number), {"n": number})) for number in range(100)
    ]
    await asyncio.sleep(0)
    free.set()
    await asyncio.gather(*waiting)

    counted = Counter(statement.split()[0] for statement in seen)
    assert (counted["BEGIN"], counted["COMMIT"]) == (1, 1)
    assert counted["INSERT"] == 100
    assert list(await store.all("c")) == [str(number) for number in range(100)]


async def test_one_that_fails_takes_nobody_with_it(store: SqliteStore) -> None:
    await begun(store, "there")
    free = await block(store)
    waiting = [
        asyncio.ensure_future(begun(store, name)) for name in ("a", "there", "b", "there", "c")
    ]
    await asyncio.sleep(0)
    free.set()
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)

    failed = [isinstance(outcome, ConflictingUpdateError) for outcome in outcomes]
    assert failed == [False, True, False, True, False]
    names = [record.agent_id for record in (await store.list()).records]
    assert names == ["c", "b", "a", "there"]


async def test_a_part_that_fails_undoes_the_parts_before_it(store: SqliteStore) -> None:
    record = await begun(store)
    await store.commit(Transaction(record=record, journal=(entry(1),)))
    for alone in (True, False):
        free = await block(store)
        decision = Transaction(
            record=record, effects=(order("e"),), journal=(entry(2),), attempt=attempt(1, "nobody")
        )
        waiting = [asyncio.ensure_future(store.commit(decision))]
        if not alone:
            waiting.append(asyncio.ensure_future(store.put("c", "k", {})))
        await asyncio.sleep(0)
        free.set()
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert "attempt 1 of nobody" in str(outcomes[0])

    assert await store.journal("agent-1") == (entry(1),)
    assert await store.pending("agent-1") == ()
    assert await store.get("agent-1") == record
    assert list(await store.all("c")) == ["k"]


async def test_a_writer_that_is_cancelled_still_has_its_version_counted(
    store: SqliteStore,
) -> None:
    record = await begun(store)
    free = await block(store)
    waiting = asyncio.ensure_future(store.commit(Transaction(record=record)))
    await asyncio.sleep(0)
    waiting.cancel()
    free.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    await store.put("c", "behind it", {})

    assert record.version == 2
    assert await store.get("agent-1") == record


async def test_closing_writes_what_is_queued(path: Path) -> None:
    store = await SqliteStore.open(path)
    free = await block(store)
    waiting = [asyncio.ensure_future(store.put("c", str(number), {})) for number in range(20)]
    await asyncio.sleep(0)
    closing_it = [asyncio.ensure_future(store.aclose()) for _ in range(2)]
    await asyncio.sleep(0)
    free.set()
    await asyncio.gather(*waiting, *closing_it)

    async with await SqliteStore.open(path) as again:
        assert len(await again.all("c")) == 20


def test_a_program_that_forgets_to_close_still_ends(path: Path) -> None:
    async def forget() -> FileDriver:
        driver = await FileDriver.open(path)
        await driver.write(lambda connection: put_document(connection, ("c", "k", "{}")))
        return driver

    driver = asyncio.run(forget())
    assert store_threads()[0].daemon
    # Nobody waits for this any more; the thread must outlive that too.
    driver._writer._queue.put(None)
    store_threads()[0].join(10)
    assert not store_threads()
    assert driver._reader is not None
    driver._reader.close()


async def test_a_database_locked_by_another_process_is_waited_for(path: Path) -> None:
    async with await SqliteStore.open(path, patience=0.2) as store:
        await store.put("c", "before", {})
        with subprocess.Popen(
            command("lock-database", path),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as other:
            assert other.stdout is not None
            assert other.stdin is not None
            assert other.stdout.readline() == b"locked\n"
            with pytest.raises(StoreError, match="another process kept it locked"):
                await store.put("c", "during", {})
            assert list(await store.all("c")) == ["before"]
            other.kill()
        await store.put("c", "after", {})
        assert list(await store.all("c")) == ["before", "after"]


def test_when_no_more_can_be_written_nothing_is_acknowledged_and_all_is_kept(path: Path) -> None:
    done = subprocess.run(
        command("fill", path), cwd=ROOT, check=True, capture_output=True, text=True, timeout=30
    )

    refused, kept = done.stdout.splitlines()
    number = int(refused.split()[2].rstrip(":"))
    assert number > 0
    assert str(path) in refused
    assert "what was written before is intact" in refused
    assert kept == f"kept {number}, then {number + 1}"
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


async def check_rounds(path: Path, acknowledged: dict[str, tuple[int, int]]) -> None:
    async with await SqliteStore.open(path) as store:
        for number in range(WRITERS):
            name = f"a{number}"
            sequence, version = acknowledged.get(name, (0, 0))
            record = await store.get(name)
            if record is None:
                assert sequence == 0
                continue
            entries = [each.seq for each in await store.journal(name, limit=1_000_000)]
            assert entries == list(range(1, len(entries) + 1))
            # At most one decision was written and not yet acknowledged.
            assert sequence <= len(entries) <= sequence + 1
            assert version <= record.version == len(entries) + 1
            ledger = await store.attempts(name)
            assert [row.attempt for row in ledger] == entries
            pending = [each.effect_id for each in await store.pending(name)]
            assert pending == [f"{name}:{each}" for each in entries[-1:]]
            keys = await store.deliveries.keys(f"github:{name}-", limit=10_000)
            # A delivery comes after its decision; an earlier one may have been lost with it.
            assert {f"github:{name}-{each}" for each in range(sequence + 1)} <= set(keys)
            assert await store.deliveries.get(keys[0]) == delivery(keys[0])


async def test_a_killed_writer_loses_nothing_it_acknowledged_and_keeps_nothing_twice(
    path: Path,
) -> None:
    chance = random.Random(7)  # noqa: S311  # the moments of the kills, the same in every run
    acknowledged: dict[str, tuple[int, int]] = {}
    for _ in range(3):
        with subprocess.Popen(
            command("write", path), cwd=ROOT, stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            wanted = chance.randrange(1, 400)
            for count, line in enumerate(writer.stdout):
                name, sequence, version = line.split()
                acknowledged[name] = (int(sequence), int(version))
                if count == wanted:
                    os.kill(writer.pid, signal.SIGKILL)
        assert writer.returncode == -signal.SIGKILL
        await check_rounds(path, acknowledged)
        audit = TrailReader(path).verify()
        assert audit.findings == ()
        assert audit.count >= sum(sequence for sequence, _ in acknowledged.values())
    assert len(acknowledged) == WRITERS


async def test_a_decision_is_seen_whole_or_not_at_all(path: Path) -> None:
    """Another connection looks between any two statements of a decision."""
    async with await SqliteStore.open(path) as store:
        record = await begun(store)
        seen = set()

        def look(_: str) -> None:
            with closing(sqlite3.connect(path)) as other:
                seen.add(
                    other.execute(
                        "SELECT version, (SELECT count(*) FROM journal), "
                        "(SELECT count(*) FROM outbox), (SELECT count(*) FROM attempts) "
                        "FROM lifecycles"
                    ).fetchone()
                )

        await store._driver.read(lambda connection: connection.set_trace_callback(look))
        await store.commit(
            Transaction(
                record=record,
                journal=(entry(1), entry(2)),
                effects=(order("e"),),
                attempt=attempt(1),
            )
        )
        await store._driver.read(lambda connection: connection.set_trace_callback(None))
        look("")

    assert seen == {(1, 0, 0, 0), (2, 2, 1, 1)}


async def test_a_value_that_a_column_cannot_hold_fails_alone(store: SqliteStore) -> None:
    with pytest.raises((ValueError, OverflowError)):
        await store.create(lifecycle("agent-\udcff"))
    record = await begun(store)
    with pytest.raises(OverflowError):
        await store.commit(Transaction(record=record, attempt=attempt(2**80)))

    await store.commit(Transaction(record=record, attempt=attempt(1)))
    assert len(await store.attempts("agent-1")) == 1


async def test_nobody_waits_for_a_thread_that_could_not_begin(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> sqlite3.Connection:
        raise ValueError("something unforeseen")

    monkeypatch.setattr("lifecycle.store.sqlite.file.open_writer", broken)
    with pytest.raises(ValueError, match="something unforeseen"):
        await asyncio.wait_for(SqliteStore.open(path), 10)
    assert not store_threads()


async def test_an_error_that_nobody_foresaw_is_told_to_who_ordered_it_and_to_no_other(
    path: Path,
) -> None:
    def broken(_: sqlite3.Connection) -> None:
        raise MemoryError("something unforeseen")

    async with await SqliteStore.open(path) as store:
        for order in (store._driver.write, store._driver.read):
            with pytest.raises(MemoryError, match="unforeseen"):
                await asyncio.wait_for(order(broken), 10)
        await asyncio.wait_for(begun(store, "a1"), 10)
        assert await store.get("a1")
