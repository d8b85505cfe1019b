"""Every filter finds its page through an index; none sorts the table or walks all of it."""

from __future__ import annotations

import itertools
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import pytest

from lifecycle.record import AgentState, Filter
from lifecycle.store import sqlite_file, sqlite_listing
from lifecycle.store.rows import record_row
from lifecycle.store.sqlite_statements import write_record
from tests.store.samples import lifecycle

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

RUNNING, ACCEPTED = AgentState.RUNNING, AgentState.ACCEPTED
IN_ORDER = [
    Filter(),
    Filter(states=(RUNNING,)),
    Filter(states=tuple(AgentState)),
    Filter(task_id="T7"),
    Filter(task_id="T7", states=(RUNNING, ACCEPTED)),
    Filter(tags=("some",)),
    Filter(tags=("some", "all")),
    Filter(tags=("some",), states=(RUNNING,)),
]
SORTED = [
    Filter(states=(RUNNING, ACCEPTED)),
    Filter(updated_before=1180.0),
    Filter(updated_before=1180.0, states=(ACCEPTED,)),
    Filter(updated_after=500.0),
    Filter(updated_after=500.0, states=(ACCEPTED, RUNNING), task_id="T7"),
]
"""These sort a few rows."""


def fill(connection: sqlite3.Connection, size: int) -> None:
    states = list(AgentState)
    connection.execute("BEGIN")
    for number in range(size):
        record = lifecycle(
            f"a{number}",
            state=states[number // 20 % 5],
            tags=("some", "all") if number % 3 == 0 else ("all",),
            task_id=f"T{number % 20}",
            updated_at=1000.0 + number,
        )
        write_record(connection, record_row(record, version=1))
    connection.execute("COMMIT")


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[sqlite3.Connection]]:
    """Return a database of 1,000 records and one of 5,000."""
    folder = tmp_path_factory.mktemp("listing")
    with ExitStack() as stack:
        made = []
        for size in (1000, 5000):
            opened = sqlite_file.open_writer(folder / f"{size}.db", durable=False, patience=5.0)
            made.append(stack.enter_context(closing(opened)))
            fill(opened, size)
        yield made


@pytest.mark.parametrize("which", [*IN_ORDER, *SORTED], ids=repr)
def test_the_work_for_a_page_does_not_grow_with_the_table(
    databases: list[sqlite3.Connection], which: Filter
) -> None:
    for cursor in (None, 900):
        work = []
        for connection in databases:
            counter = itertools.count()
            connection.set_progress_handler(lambda each=counter: next(each) < 0, 10)  # type: ignore[misc]  # a default binds the loop's variable
            rows = sqlite_listing.page(connection, which, cursor, 15)
            connection.set_progress_handler(None, 0)
            assert len(rows) == 16
            work.append(next(counter))
        small, large = work
        assert large <= 1.5 * small, work


@pytest.mark.parametrize("which", IN_ORDER, ids=repr)
def test_the_order_comes_from_an_index(databases: list[sqlite3.Connection], which: Filter) -> None:
    query, values = sqlite_listing._pick(which, 900, 16, by_update=False)

    plan = [row[3] for row in databases[0].execute("EXPLAIN QUERY PLAN " + query, values)]

    assert not [step for step in plan if "TEMP B-TREE" in step or step == "SCAN l"], plan
