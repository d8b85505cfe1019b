"""What a store promises of instances."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest

from lifecycle.machine import states as st
from lifecycle.record import Transaction
from lifecycle.store.instances import (
    LOCAL_USER,
    LOOP_DEFINITION,
    EventRow,
    InstanceFilter,
    InstanceRow,
    TooManyInstancesError,
    attempt_instance_id,
    attempt_of,
    born_at,
    new_instance_id,
)
from lifecycle.store.sqlite.store import SqliteStore
from runtime.agents.outcome import Ending
from tests.lifecycle.store.conftest import clock, path, store
from tests.lifecycle.store.samples import OTHER, OWNER, WORKING, attempt, instance, lifecycle

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.store.sqlite.instances import SqliteInstances


__all__ = ["clock", "path", "store"]


@pytest.fixture
def instances(store: SqliteStore) -> SqliteInstances:
    return store.instances


def event(of: InstanceRow, kind: str, at: float = 1.0, **fields: Any) -> EventRow:
    return EventRow(
        id=uuid4(),
        instance_id=of.id,
        event_type=kind,
        event_data_json=json.dumps({"kind": kind}),
        occurred_at=at,
        **fields,
    )


def numbers(rows: tuple[InstanceRow, ...]) -> list[str]:
    return [row.name.removeprefix("agent ") for row in rows]


async def test_an_instance_comes_back_as_it_was_saved(instances: SqliteInstances) -> None:
    row = instance(
        1,
        workspace_id=uuid4(),
        spawn_options_json='{"name":"x"}',
        error_message="no \udcff text",
        restart_count=2,
        restarts_total=7,
        details_json='{"pid":4}',
        tags=("A", "b-2"),
    )

    await instances.save(row)

    found = await instances.get(row.id)
    assert found is not None
    assert set(found.tags) == {"A", "b-2"}
    shown = {row.error_message, "no \\udcff text"}
    assert found.error_message in shown
    assert replace(found, tags=row.tags, error_message=row.error_message) == row
    assert await instances.get(uuid4()) is None
    assert await instances.get(instance(2).id) is None


async def test_a_later_version_changes_what_may_change_and_nothing_else(
    instances: SqliteInstances,
) -> None:
    row = instance(1, tags=("a",))
    await instances.save(row)
    later = replace(
        row,
        state="failed",
        health_state="unhealthy",
        error_message="it fell over",
        restart_count=1,
        restarts_total=1,
        updated_at=1100.0,
        terminated_at=1100.0,
        details_json='{"x":1}',
    )

    await instances.save(replace(later, name="other", owner_id=OTHER, tags=("z",)))

    assert await instances.get(row.id) == later


async def test_events_come_in_the_order_in_which_they_were_written(
    instances: SqliteInstances,
) -> None:
    row = instance(1)
    await instances.save(row, [event(row, "spawned"), event(row, "ready", correlation_id="c")])
    await instances.save(row, [event(row, "processing")])

    found = await instances.events(row.id)

    assert [each.event_type for each in found] == ["spawned", "ready", "processing"]
    assert found[1].correlation_id == "c"
    assert [each.event_type for each in await instances.events(row.id, limit=1)] == ["processing"]
    assert await instances.events(uuid4()) == ()


async def test_the_limit_counts_who_comes_back_but_not_who_goes_on(
    instances: SqliteInstances,
) -> None:
    first, second = instance(1), instance(2, "failed")
    await instances.save(first)
    await instances.save(second)

    await instances.save(replace(first, state="processing"), at_most=1)
    with pytest.raises(TooManyInstancesError):
        await instances.save(replace(second, state="initializing", terminated_at=None), at_most=1)

    await instances.save(replace(first, state="terminated", terminated_at=1009.0), at_most=1)
    await instances.save(replace(second, state="initializing", terminated_at=None), at_most=1)
    assert await instances.active() == 1


async def listed(instances: SqliteInstances, **fields: Any) -> list[str]:
    return numbers(await instances.list(InstanceFilter(**fields)))


async def only(instances: SqliteInstances, **fields: Any) -> InstanceRow:
    (found,) = await instances.list(InstanceFilter(**fields))
    return found


@pytest.mark.parametrize(
    ("work", "state"),
    [
        (st.Preparing(), "initializing"),
        (st.Spawning(), "initializing"),
        (WORKING, "processing"),
        (st.Stopping(process=WORKING.process, outcome=st.AttemptOutcome(ended=Ending.HANG)),
         "terminating"),
        (st.Capturing(outcome=st.AttemptOutcome(ended=Ending.CRASH)), "terminating"),
    ],
)  # fmt: skip
async def test_an_attempt_under_way_is_an_instance(
    store: SqliteStore, instances: SqliteInstances, work: st.State, state: str
) -> None:
    record = lifecycle("agent-7", work=work, tags=("Nightly",), task_id="T7", updated_at=900.0)
    await store.commit(Transaction(record=record))

    found = await only(instances)

    assert found.state == state
    assert (found.name, found.tags) == ("agent-7", ("Nightly",))
    assert (found.definition_id, found.owner_id) == (LOOP_DEFINITION, LOCAL_USER)
    assert json.loads(found.details_json)["task_id"] == "T7"
    assert found.id == attempt_instance_id(record.cursor, record.birth, work.tally.attempt)
    assert await instances.get(found.id) == found
    assert await instances.active() == 1
    assert await listed(instances, tag="nightly", states=(state,), name_pattern="agent-*")
    assert await listed(instances, owner_id=OTHER) == []
    assert await listed(instances, definition_id=OTHER) == []
    assert await instances.live_rows() == ()


@pytest.mark.parametrize(
    ("outcome", "state"),
    [("task_complete", "terminated"), ("gate_failed", "terminated"), ("interrupted", "terminated"),
     ("crash", "failed"), ("timeout", "failed"), ("no_breakpoint", "failed"), ("", "failed")],
)  # fmt: skip
async def test_an_attempt_that_ended_is_an_instance_that_ended(
    store: SqliteStore, instances: SqliteInstances, outcome: str, state: str
) -> None:
    record = lifecycle(work=st.Preparing(tally=st.Tally(attempt=2)), tags=("x",), updated_at=200.0)
    row = attempt(
        1, started_at=100.0, ended_at=160.0, outcome=outcome, error="exit 3", pid=9, exit_code=3
    )
    await store.commit(Transaction(record=record, attempt=row))

    found = await only(instances, states=(state,))

    assert (found.state, found.terminated_at, found.created_at) == (state, 160.0, 100.0)
    assert found.error_message == "exit 3"
    assert json.loads(found.details_json)["exit_code"] == 3
    assert await instances.get(found.id) == found
    assert await listed(instances, tag="X", states=(state,)) == ["agent-1"]
    assert [each.state for each in await instances.list(InstanceFilter(ended=True))] == [
        "initializing",
        state,
    ]
    assert await instances.active() == 1
    other = "failed" if state == "terminated" else "terminated"
    assert await listed(instances, states=(other,)) == []


async def test_an_attempt_between_two_is_nothing_yet(
    store: SqliteStore, instances: SqliteInstances
) -> None:
    record = lifecycle(work=st.BackingOff(until=9.0, why="x", tally=st.Tally(attempt=2)))
    await store.commit(Transaction(record=record))

    assert await instances.list(InstanceFilter(ended=True)) == ()
    assert await instances.get(attempt_instance_id(record.cursor, record.birth, 2)) is None


async def test_an_id_of_an_attempt_does_not_lead_to_a_later_lifecycle(
    store: SqliteStore, instances: SqliteInstances
) -> None:
    record = lifecycle(work=WORKING, birth="11111111")
    await store.commit(Transaction(record=record))
    known = attempt_instance_id(record.cursor, record.birth, 3)
    assert await instances.get(known) is not None

    assert await instances.get(attempt_instance_id(record.cursor, "22222222", 3)) is None
    await store.delete("agent-1")
    assert await instances.get(known) is None


async def test_the_counts_cover_both_kinds_and_one_owner(
    store: SqliteStore, instances: SqliteInstances
) -> None:
    await instances.save(instance(1, restarts_total=2))
    await instances.save(instance(2, "failed", owner_id=OTHER, restarts_total=3))
    record = lifecycle(work=WORKING)
    await store.commit(
        Transaction(
            record=record, attempt=attempt(1, started_at=10.0, ended_at=40.0, outcome="blocked")
        )
    )
    await store.commit(Transaction(record=record, attempt=attempt(3, started_at=50.0)))

    everything = await instances.counts()
    ours = await instances.counts(OWNER)
    local = await instances.counts(LOCAL_USER)

    assert dict(everything.by_state) == {"ready": 1, "failed": 1, "processing": 1, "terminated": 1}
    assert dict(everything.by_health) == {"healthy": 2}
    assert (everything.ended, everything.restarts) == (2, 5)
    assert everything.lived == pytest.approx(35.0)
    assert (dict(ours.by_state), ours.ended, ours.restarts) == ({"ready": 1}, 0, 2)
    assert dict(local.by_state) == {"processing": 1, "terminated": 1}


async def test_what_ended_long_ago_is_forgotten_oldest_first(instances: SqliteInstances) -> None:
    rows = [instance(number, "terminated", tags=("t",)) for number in range(3)]
    for row in (*rows, instance(3)):
        await instances.save(row, [event(row, "ended")])

    assert await instances.prune(1007.5, limit=2) == (rows[0].id, rows[1].id)
    assert await instances.prune(1007.5) == (rows[2].id,)
    assert await instances.prune(9000.0) == ()

    assert await listed(instances, ended=True) == ["3"]
    assert await instances.events(rows[0].id) == ()


async def test_live_rows_are_the_oldest_first(instances: SqliteInstances) -> None:
    for number in (2, 1, 3):
        await instances.save(instance(number, "terminated" if number == 3 else "ready"))

    assert numbers(await instances.live_rows()) == ["1", "2"]


async def test_instances_survive_opening_again_and_the_columns_are_as_documented(
    path: Path,
) -> None:
    async with await SqliteStore.open(path) as store:
        await store.instances.save(instance(1, tags=("a",)), [event(instance(1), "spawned")])

    async with await SqliteStore.open(path) as store:
        assert numbers(await store.instances.list(InstanceFilter(tag="a"))) == ["1"]
    with closing(sqlite3.connect(path)) as connection:
        columns = {
            table: [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            for table in ("agent_instances", "agent_instance_tags", "agent_instance_events")
        }
    assert columns["agent_instances"][:13] == [
        "id", "definition_id", "state", "health_state", "name", "owner_id", "workspace_id",
        "spawn_options_json", "error_message", "restart_count", "created_at", "updated_at",
        "terminated_at",
    ]  # fmt: skip
    assert columns["agent_instance_tags"][:2] == ["instance_id", "tag"]
    assert columns["agent_instance_events"][1:] == [
        "id", "instance_id", "event_type", "event_data_json", "occurred_at", "correlation_id",
    ]  # fmt: skip


def test_ids_keep_the_order_and_the_instant_of_birth() -> None:
    instants = [1_800_000_000.0 + step / 4000 for step in range(50)]
    made = [new_instance_id(at, 2**62 - 1 - number) for number, at in enumerate(instants)]

    assert made == sorted(made)
    assert [str(each) for each in made] == sorted(str(each) for each in made)
    assert {each.version for each in made} == {7}
    assert all(abs(born_at(each) - at) < 1e-6 for each, at in zip(made, instants, strict=True))


def test_an_id_of_an_attempt_leads_back_to_it() -> None:
    made = attempt_instance_id(123_456, "c0ffee00", 4711)

    assert attempt_of(made) == (123_456, 4711)
    assert made == attempt_instance_id(123_456, "c0ffee00", 4711)
    assert made != attempt_instance_id(123_456, "c0ffee01", 4711)
    assert attempt_of(UUID(int=5)) is None
