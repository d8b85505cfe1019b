"""What attempts used: written with the decision that ended them, kept beyond their lifecycle."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from lifecycle.machine.budget import Spent
from lifecycle.record import Spending, SpendingSum, Transaction
from lifecycle.store import plain_queries
from lifecycle.store.reading import open_reader
from lifecycle.store.sqlite import spending
from lifecycle.store.sqlite.store import SqliteStore
from tests.lifecycle.store.samples import WORKING, lifecycle

if TYPE_CHECKING:
    from pathlib import Path


DAY = 86_400.0


def used(number: int = 1, **fields: Any) -> Spending:
    """Return what an attempt used."""
    return Spending(
        **{
            "agent_id": "agent-1",
            "task_id": "T001",
            "plan": "night",
            "attempt": number,
            "birth": "b1",
            "at": float(number),
            "program": "claude",
            "model": "opus",
            "tokens": 100,
            "input_tokens": 60,
            "output_tokens": 30,
            "cached_tokens": 10,
            "cost_usd": 0.5,
            "seconds": 60.0,
            **fields,
        }
    )


async def spend(store: SqliteStore, *spendings: Spending) -> None:
    """Write each with a decision on a lifecycle."""
    record = await store.get("agent-1") or lifecycle(work=WORKING)
    for each in spendings:
        await store.commit(Transaction(record=record, spending=each))


async def test_what_an_attempt_used_is_written_with_the_decision(store: SqliteStore) -> None:
    first, second = used(model="odd \udcff"), used(2, cost_usd=None, program="codex")

    await spend(store, first, second)

    assert await store.spendings() == [replace(first, model="odd \\udcff"), second]


async def test_the_same_attempt_written_again_counts_once(store: SqliteStore) -> None:
    await spend(store, used(tokens=5), used(tokens=7))
    assert await store.spent() == Spent(tokens=7, cost_usd=0.5, seconds=60.0, attempts=1)

    await spend(store, used(birth="b2", tokens=9))

    assert (await store.spent()).tokens == 16, "another lifecycle of the same name is another"


async def test_spending_outlives_its_lifecycle(store: SqliteStore) -> None:
    await spend(store, used())

    assert await store.delete("agent-1")

    assert await store.spendings() == [used()]


async def test_it_is_found_by_time_agent_and_plan(store: SqliteStore) -> None:
    one, two = used(1), used(2, plan="day")
    other = used(3, agent_id="agent-2", cost_usd=None)
    await spend(store, other, two, one)

    assert await store.spendings() == [one, two, other]
    assert await store.spendings(2.0) == [two, other]
    assert await store.spendings(agent_id="agent-1") == [one, two]
    assert await store.spendings(plan="night") == [one, other]
    assert await store.spendings(2.0, agent_id="agent-2", plan="night") == [other]
    assert await store.spent(2.0) == Spent(tokens=200, cost_usd=0.5, seconds=120.0, attempts=2)
    assert await store.spent(plan="day") == Spent(
        tokens=100, cost_usd=0.5, seconds=60.0, attempts=1
    )
    assert await store.spent(agent_id="nobody") == Spent()


async def test_sums_tell_lifecycles_and_plans_apart(
    store: SqliteStore,
) -> None:
    await spend(
        store,
        used(1, tokens=0, cost_usd=None),
        used(2, tokens=300, cost_usd=2.0, seconds=5.0),
        used(4, tokens=900, cost_usd=9.0, program="codex", model="other"),
        used(3, plan="day", cost_usd=None),
        used(1, birth="b2"),
    )

    sums = await store.spending_sums()

    assert sorted((each.birth, each.plan, each.attempts) for each in sums) == [
        ("b1", "day", 1),
        ("b1", "night", 3),
        ("b2", "night", 1),
    ]
    assert (
        SpendingSum(
            agent_id="agent-1",
            birth="b1",
            plan="night",
            attempts=3,
            last_attempt=4,
            tokens=1200,
            cost_usd=11.0,
            seconds=125.0,
            ended=4.0,
        )
        in sums
    )


async def test_what_was_not_told_counts_as_nothing(store: SqliteStore) -> None:
    silent = used(2, tokens=0, cost_usd=None)
    await spend(store, used(), silent)

    assert await store.spendings() == [used(), silent]
    assert await store.spent() == Spent(tokens=100, cost_usd=0.5, seconds=120.0, attempts=2)


async def test_estimates_of_an_earlier_version_are_not_counted(path: Path) -> None:
    async with await SqliteStore.open(path) as store:
        await spend(store, used())
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE spending SET charged_tokens = 50, charged_usd = 9.0")

    async with await SqliteStore.open(path) as again:
        assert await again.spent() == used().spent
        assert [each.spent for each in await again.spending_sums()] == [used().spent]


async def test_what_is_old_is_forgotten(store: SqliteStore) -> None:
    await spend(store, used(1, at=DAY), used(2, at=2 * DAY), used(3, at=10 * DAY))

    assert await store.forget_spending(11 * DAY, keep=8.5 * DAY) == 1

    assert [each.attempt for each in await store.spendings()] == [2, 3]


async def test_a_clock_that_runs_far_ahead_takes_nothing_away(store: SqliteStore) -> None:
    await spend(store, used(1, at=DAY), used(2, at=2 * DAY))

    assert await store.forget_spending(50_000 * DAY, keep=400 * DAY) == 0

    assert len(await store.spendings()) == 2


async def test_it_survives_a_restart_and_is_seen_beside_a_live_store(path: Path) -> None:
    async with await SqliteStore.open(path) as store:
        await spend(store, used(), used(2, cost_usd=None))
        assert plain_queries.read_spending(path) == [asdict(used()), asdict(used(2, cost_usd=None))]
        ((agent_id, _, state, facts),) = plain_queries.read_facts(path)
        assert (agent_id, state, facts) == ("agent-1", "running", {})
    async with await SqliteStore.open(path) as again:
        assert await again.spendings() == [used(), used(2, cost_usd=None)]


async def test_a_day_and_a_plan_are_found_by_index(path: Path) -> None:
    async with await SqliteStore.open(path):
        pass
    with closing(open_reader(path)) as connection:
        for agent_id, plan in ((None, None), (None, "night"), ("agent-1", None)):
            query, values = spending.picked("tokens", 1.0, agent_id, plan)
            told = connection.execute(f"EXPLAIN QUERY PLAN {query}", values).fetchall()
            assert all("SEARCH" in row[3] for row in told), told
