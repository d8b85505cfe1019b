"""What is asked for often finds its page through an index, and every filter finds what fits."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from lifecycle.machine import states as st
from lifecycle.record import Transaction
from lifecycle.store.instances import (
    LOCAL_USER,
    LOOP_DEFINITION,
    InstanceFilter,
    InstanceRow,
    born_at,
    new_instance_id,
)
from lifecycle.store.rows.instances import row_of_instance
from lifecycle.store.rows.records import attempt_row, record_row
from lifecycle.store.sqlite.instance_listing import page
from lifecycle.store.sqlite.instances import _save
from lifecycle.store.sqlite.statements import put_attempt, write_record
from lifecycle.store.sqlite.store import SqliteStore
from tests.fuzzing import examples
from tests.lifecycle.store.samples import (
    DEFINITION,
    OTHER,
    OWNER,
    WORKING,
    attempt,
    instance,
    lifecycle,
)
from tests.lifecycle.store.sqlite.growth import cost, two_sizes

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

STATES = ("ready", "processing", "terminated", "failed", "terminated")
HEALTH = ("healthy", "degraded", "healthy", "unknown", "unhealthy")
FILTERS = [
    InstanceFilter(),
    InstanceFilter(ended=True),
    InstanceFilter(states=("processing",)),
    InstanceFilter(states=("terminated",)),
    InstanceFilter(states=("processing",), owner_id=UUID(int=1)),
    InstanceFilter(owner_id=UUID(int=1)),
    InstanceFilter(owner_id=LOCAL_USER, ended=True),
    InstanceFilter(definition_id=UUID(int=2)),
    InstanceFilter(definition_id=LOOP_DEFINITION, ended=True),
    InstanceFilter(health_state="degraded"),
    InstanceFilter(health_state="degraded", owner_id=UUID(int=1)),
    InstanceFilter(tag="some"),
    InstanceFilter(tag="some", ended=True),
    InstanceFilter(name_pattern="agent 7 of 7", ended=True),
    InstanceFilter(name_pattern="loop-7", ended=True),
    InstanceFilter(name_pattern="*", ended=True),
]


def fill(connection: sqlite3.Connection, size: int) -> None:
    for number in range(size):
        made = new_instance_id(1000.0 + number, number)
        state = STATES[number % 5]
        row = InstanceRow(
            id=made,
            definition_id=UUID(int=number % 3),
            state=state,
            health_state=HEALTH[number % 5],
            created_at=born_at(made),
            updated_at=2000.0,
            name=f"agent {number % 100} of {number}" if number < 300 else f"one {number}",
            owner_id=UUID(int=number % 2),
            terminated_at=3000.0 if state in ("terminated", "failed") else None,
        )
        _save(connection, row_of_instance(row), ("some",) if number % 7 < 2 else (), [], None)
        agent_id = f"loop-{number}"
        work = {"work": WORKING} if number < 20 else {}
        record = lifecycle(agent_id, tags=("some",) if number % 7 < 2 else (), **work)
        write_record(connection, record_row(record, version=1))
        put_attempt(
            connection,
            attempt_row(
                attempt(
                    1,
                    agent_id,
                    started_at=1000.0 + number,
                    ended_at=2000.0,
                    outcome="blocked" if number % 2 else "crash",
                )
            ),
        )


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[sqlite3.Connection]]:
    with two_sizes(tmp_path_factory.mktemp("instances"), fill) as made:
        yield made


@pytest.mark.parametrize("which", FILTERS, ids=repr)
def test_the_work_for_a_page_does_not_grow_with_the_number_of_instances(
    databases: list[sqlite3.Connection], which: InstanceFilter
) -> None:
    small, large = (cost(connection, partial(page, which=which)) for connection in databases)

    assert 0 < len(small[1]) <= len(large[1]) <= which.limit
    assert large[0] <= 1.5 * small[0] + 50, (small[0], large[0])


ANY_STATE = (
    "initializing", "ready", "processing", "suspended", "terminating", "terminated", "failed",
)  # fmt: skip


async def crowd(store: SqliteStore) -> tuple[InstanceRow, ...]:
    """Make instances of both kinds, in turns; return them, the youngest first."""
    outcomes = ("task_complete", "crash", "blocked")
    for number in range(30):
        tags = tuple(tag for tag, step in (("Two", 2), ("three", 3)) if not number % step)
        born = 1000.0 + 2 * number
        spawned = instance(
            2 * number,
            ("ready", "processing", "terminated", "failed", "suspended")[number % 5],
            health_state=("healthy", "degraded", "unknown")[number % 3],
            definition_id=(DEFINITION, OTHER)[number % 2],
            owner_id=(OWNER, OTHER)[number // 2 % 2],
            name=f"agent [{number % 4}] {number}",
            tags=tags,
        )
        await store.instances.save(spawned)
        agent_id = f"agent-{number}"
        works = (WORKING, st.Preparing(tally=WORKING.tally), st.Queued())
        record = lifecycle(agent_id, work=works[number % 3], tags=tags, updated_at=born + 1.0)
        row = attempt(number % 2 + 2, agent_id, started_at=born + 1.0, ended_at=5000.0,
                      outcome=outcomes[number // 3 % 3])  # fmt: skip
        await store.commit(Transaction(record=record, attempt=row))
    everything = await store.instances.list(InstanceFilter(ended=True, limit=1000))
    assert len(everything) == 70
    assert list(everything) == sorted(everything, key=lambda row: row.created_at, reverse=True)
    return everything


@pytest.fixture(scope="module")
def crowded() -> tuple[SqliteStore, tuple[InstanceRow, ...]]:
    store = SqliteStore.in_memory()
    return store, asyncio.run(crowd(store))


def fits(row: InstanceRow, which: InstanceFilter) -> bool:
    if not which.states and not which.ended and row.terminated_at is not None:
        return False
    name = re.escape(which.name_pattern or "*").replace(r"\*", ".*")
    return (
        (not which.states or row.state in which.states)
        and which.health_state in (None, row.health_state)
        and (which.tag is None or which.tag.lower() in {tag.lower() for tag in row.tags})
        and which.definition_id in (None, row.definition_id)
        and which.owner_id in (None, row.owner_id)
        and re.fullmatch(name, row.name) is not None
    )


@settings(max_examples=examples(60), deadline=None)
@given(
    which=some.builds(
        InstanceFilter,
        states=some.lists(some.sampled_from(ANY_STATE), max_size=2).map(tuple),
        ended=some.booleans(),
        health_state=some.sampled_from([None, None, "healthy", "degraded", "unknown"]),
        tag=some.sampled_from([None, None, "TWO", "three", "none"]),
        definition_id=some.sampled_from([None, None, DEFINITION, LOOP_DEFINITION]),
        owner_id=some.sampled_from([None, None, OWNER, LOCAL_USER]),
        name_pattern=some.sampled_from(
            [None, None, "agent-*", "*1*", "agent [2] 2", "agent [*", "agent", "agent-7", "agent ?"]
        ),
        limit=some.sampled_from([1, 7, 1000]),
        offset=some.sampled_from([0, 0, 5]),
    )
)
def test_a_page_of_any_filter_holds_what_fits_of_all_instances(
    crowded: tuple[SqliteStore, tuple[InstanceRow, ...]], which: InstanceFilter
) -> None:
    store, everything = crowded
    wanted = [row for row in everything if fits(row, which)]

    found = asyncio.run(store.instances.list(which))

    assert list(found) == wanted[which.offset : which.offset + which.limit]


@pytest.mark.parametrize(("limit", "offset"), [(0, 0), (1001, 0), (10, -1)])
async def test_an_impossible_page_is_refused(store: SqliteStore, limit: int, offset: int) -> None:
    with pytest.raises(ValueError, match="limit must be between"):
        await store.instances.list(InstanceFilter(limit=limit, offset=offset))
