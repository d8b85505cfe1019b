"""A page is found through an index, and holds what fits and nothing else."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from lifecycle.record import AgentState, Filter
from lifecycle.store.rows.records import record_row
from lifecycle.store.sqlite.listing import page
from lifecycle.store.sqlite.statements import write_record
from lifecycle.store.sqlite.store import SqliteStore
from tests.fuzzing import examples
from tests.lifecycle.store.samples import lifecycle
from tests.lifecycle.store.sqlite.growth import cost, two_sizes

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

    from lifecycle.record import AgentLifecycle

RUNNING, ACCEPTED = AgentState.RUNNING, AgentState.ACCEPTED
FILTERS = [
    Filter(),
    Filter(states=(RUNNING,)),
    Filter(states=(RUNNING, ACCEPTED)),
    Filter(states=tuple(AgentState)),
    Filter(task_id="T7"),
    Filter(task_id="T7", states=(RUNNING, ACCEPTED)),
    Filter(tags=("some",)),
    Filter(tags=("some", "all")),
    Filter(tags=("some",), states=(RUNNING,)),
    Filter(updated_before=1180.0),
    Filter(updated_before=1180.0, states=(ACCEPTED,)),
    Filter(created_before=1180.0),
    Filter(created_before=1180.0, states=(ACCEPTED,)),
    Filter(current=True),
]


def fill(connection: sqlite3.Connection, size: int) -> None:
    states = list(AgentState)
    for number in range(size):
        record = lifecycle(
            f"a{number}",
            state=states[number // 20 % 5],
            tags=("some", "all") if number % 3 == 0 else ("all",),
            task_id=f"T{number % 20}",
            created_at=1000.0 + number,
            updated_at=1000.0 + number,
        )
        write_record(connection, record_row(record, version=1))


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[sqlite3.Connection]]:
    with two_sizes(tmp_path_factory.mktemp("listing"), fill) as made:
        yield made


@pytest.mark.parametrize("which", FILTERS, ids=repr)
def test_the_work_for_a_page_does_not_grow_with_the_table(
    databases: list[sqlite3.Connection], which: Filter
) -> None:
    for cursor in (None, 900):
        work = []
        for connection in databases:
            steps, rows = cost(connection, partial(page, which=which, cursor=cursor, limit=15))
            assert len(rows) == 16
            work.append(steps)
        small, large = work
        assert large <= 1.5 * small, work


async def every(store: SqliteStore, which: Filter, *, limit: int = 3) -> list[str]:
    """Walk all pages; each but the last must be full."""
    names, cursor = list[str](), None
    while True:
        page = await store.list(which, cursor=cursor, limit=limit)
        names += [record.agent_id for record in page.records]
        if page.next_cursor is None:
            return names
        assert len(page.records) == limit
        cursor = page.next_cursor


async def forty(store: SqliteStore) -> list[AgentLifecycle]:
    """Make records in five states, three tags, four tasks; the later, the longer untouched."""
    made = []
    states = list(AgentState)
    for number in range(40):
        tags = tuple(
            tag for tag, step in (("two", 2), ("three", 3), ("all", 1)) if not number % step
        )
        record = lifecycle(
            f"a{number}",
            state=states[number % 5],
            tags=tags,
            task_id=f"T{number % 4}",
            created_at=100.0 + number,
            updated_at=500.0 - number,
        )
        made.append(await store.create(record))
    return made


@pytest.fixture
async def many(store: SqliteStore) -> list[AgentLifecycle]:
    return await forty(store)


@pytest.fixture(scope="module")
def listed() -> tuple[SqliteStore, list[AgentLifecycle]]:
    """Return a store that any event loop can use, and what is in it."""
    store = SqliteStore.in_memory(clock=lambda: 1000.0)
    return store, asyncio.run(forty(store))


MADE = some.none() | some.integers(95, 145).map(float)
INSTANTS = some.none() | some.integers(455, 505).map(float)
ANY_FILTER = some.builds(
    Filter,
    states=some.lists(some.sampled_from(AgentState), max_size=3).map(tuple),
    tags=some.lists(some.sampled_from(["two", "three", "all", "none"]), max_size=3).map(tuple),
    task_id=some.none() | some.sampled_from(["T0", "T1", "T2", "T3", ""]),
    created_after=MADE,
    created_before=MADE,
    updated_after=INSTANTS,
    updated_before=INSTANTS,
)


def fits(record: AgentLifecycle, which: Filter) -> bool:
    return (
        (not which.states or record.state in which.states)
        and set(which.tags) <= set(record.tags)
        and which.task_id in (None, record.task_id)
        and (which.created_after is None or record.created_at > which.created_after)
        and (which.created_before is None or record.created_at < which.created_before)
        and (which.updated_after is None or record.updated_at > which.updated_after)
        and (which.updated_before is None or record.updated_at < which.updated_before)
    )


@settings(max_examples=examples(60), deadline=None)
@given(which=ANY_FILTER, limit=some.sampled_from([1, 3, 40, 1000]))
def test_every_filter_pages_through_exactly_what_fits_newest_first(
    listed: tuple[SqliteStore, list[AgentLifecycle]], which: Filter, limit: int
) -> None:
    store, made = listed
    wanted = [record.agent_id for record in reversed(made) if fits(record, which)]

    assert asyncio.run(every(store, which, limit=limit)) == wanted


async def test_a_listing_returns_whole_records(
    store: SqliteStore, many: list[AgentLifecycle]
) -> None:
    page = await store.list(limit=40)

    assert list(page.records) == many[::-1]
    assert page.next_cursor is None


async def test_records_that_come_or_go_between_pages_do_not_shift_the_next(
    store: SqliteStore, many: list[AgentLifecycle]
) -> None:
    first = await store.list(limit=10)
    await store.create(lifecycle("new"))
    await store.delete(many[-1].agent_id)

    second = await store.list(cursor=first.next_cursor, limit=10)

    assert [record.agent_id for record in second.records] == [f"a{n}" for n in range(29, 19, -1)]


@pytest.mark.parametrize("limit", [0, -1, 1001])
async def test_a_page_size_out_of_range_is_refused(store: SqliteStore, limit: int) -> None:
    with pytest.raises(ValueError, match="between 1 and 1000"):
        await store.list(limit=limit)
