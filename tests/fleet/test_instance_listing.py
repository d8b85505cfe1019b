"""Every filter finds its page through an index: the work does not grow with what does not fit."""

from __future__ import annotations

import itertools
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from lifecycle.store import sqlite_file
from lifecycle.store.instances import (
    LOCAL_USER,
    LOOP_DEFINITION,
    InstanceFilter,
    InstanceRow,
    born_at,
    new_instance_id,
)
from lifecycle.store.instances_listing import page
from lifecycle.store.instances_rows import row_of_instance
from lifecycle.store.instances_sqlite import _save
from lifecycle.store.rows import attempt_row, record_row
from lifecycle.store.sqlite_statements import put_attempt, write_record
from tests.store.samples import WORKING, attempt, lifecycle

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
    InstanceFilter(name_pattern="agent 7*"),
    InstanceFilter(name_pattern="loop-7", ended=True),
    InstanceFilter(name_pattern="*", ended=True),
]


def fill(connection: sqlite3.Connection, size: int) -> None:
    connection.execute("BEGIN")
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
    connection.execute("COMMIT")


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[sqlite3.Connection]]:
    folder = tmp_path_factory.mktemp("instances")
    with ExitStack() as stack:
        made = []
        for size in (1000, 5000):
            opened = sqlite_file.open_writer(folder / f"{size}.db", durable=False, patience=5.0)
            made.append(stack.enter_context(closing(opened)))
            fill(opened, size)
        yield made


def work(connection: sqlite3.Connection, which: InstanceFilter) -> tuple[int, int]:
    counter = itertools.count()
    connection.set_progress_handler(lambda: next(counter) < 0, 10)
    rows = page(connection, which)
    connection.set_progress_handler(None, 0)
    return next(counter), len(rows)


@pytest.mark.parametrize("which", FILTERS, ids=repr)
def test_the_work_for_a_page_does_not_grow_with_the_number_of_instances(
    databases: list[sqlite3.Connection], which: InstanceFilter
) -> None:
    small, large = (work(connection, which) for connection in databases)

    assert 0 < small[1] <= large[1] <= which.limit
    assert large[0] <= 1.5 * small[0] + 50, (small, large)
