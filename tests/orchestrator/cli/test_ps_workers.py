"""`ps` and `show` where workers do the work, and where one machine does."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from lifecycle.machine import states as st
from lifecycle.record import AgentLifecycle, AttemptRow, Transaction, placed
from lifecycle.store.rows.workers import WorkerRow
from tests.lifecycle.every_state import EVERY
from tests.orchestrator.loopkit import of_store

if TYPE_CHECKING:
    from lifecycle.store.sqlite.store import SqliteStore
    from tests.orchestrator.loopkit import World

WORKING = next(state for state, _, _ in EVERY if type(state) is st.Working)
BLOCKED = next(state for state, _, _ in EVERY if type(state) is st.Blocked)


def fill(world: World, *, silent_for: float = 0.0) -> None:
    """Have worker `a` work on one and hold another at rest, and this machine work on a third."""
    now = time.time()  # noqa: TID251  # the command asks the real clock

    async def write(store: SqliteStore) -> None:
        if silent_for:
            await store.workers.seen(
                WorkerRow(
                    name="a",
                    machine="m",
                    version="1",
                    slots=2,
                    lease=60.0,
                    seen_at=now - silent_for,
                )
            )
        works: tuple[tuple[str, st.State, str], ...]
        works = (("t1", WORKING, "a"), ("t2", BLOCKED, "a"), ("t3", WORKING, "b"))
        for name, work, worker in works:
            facts = {"task": {"id": name}, "agent": {}, "machine": "m", "worker": worker}
            await store.create(
                AgentLifecycle(
                    agent_id=name, task="Work", state=st.coarse(work), work=work, facts=facts
                )
            )

    of_store(world.repo, write)


def test_the_table_names_the_worker_only_where_there_is_one(world: World) -> None:
    fill(world)
    head, *rows = world.call("ps").stdout.splitlines()
    assert head.split()[-3:] == ["WORKER", "WAITING", "FOR"]
    assert {row.split()[0]: " a " in row for row in rows} == {"t1": True, "t2": True, "t3": False}


def test_where_one_machine_works_the_table_is_as_it_was(world: World) -> None:
    async def write(store: SqliteStore) -> None:
        await store.create(
            AgentLifecycle(agent_id="t1", task="Work", state=st.coarse(WORKING), work=WORKING)
        )

    of_store(world.repo, write)
    head, _ = world.call("ps").stdout.splitlines()
    assert " ".join(head.split()) == "AGENT TASK STATE ATTEMPT RETRIES SINCE WAITING FOR"
    (row,) = json.loads(world.call("ps", "--json").stdout)["lifecycles"]
    assert not row["worker"]
    assert "worker" not in world.call("show", "t1").stdout


def test_ps_can_ask_for_one_worker(world: World) -> None:
    fill(world)
    assert world.call("ps", "--worker", "a", "--ids").stdout.split() == ["t2", "t1"]
    assert "No lifecycle matches" in world.call("ps", "--worker", "c").stdout


def test_an_attempt_whose_worker_is_silent_says_so(world: World) -> None:
    fill(world, silent_for=125.0)
    rows = json.loads(world.call("ps", "--json").stdout)["lifecycles"]
    waits = {row["agent_id"]: row["waiting_for"] for row in rows}
    assert "on a, not heard of for 2 min" in waits["t1"]
    assert "not heard of" not in waits["t2"]  # at rest it needs no worker
    assert "not heard of" not in waits["t3"]
    told = world.call("show", "t1").stdout
    assert "worker    a" in told
    assert "it is on worker a, not heard of for 2 min" in told
    assert "it is on worker b" in world.call("show", "t3", "--why").stdout
    assert json.loads(world.call("show", "t1", "--json").stdout)["lifecycle"]["worker"] == "a"


def test_a_worker_that_was_just_heard_of_is_not_called_silent(world: World) -> None:
    fill(world, silent_for=0.1)
    assert "not heard of" not in world.call("ps").stdout


def test_a_log_that_was_not_handed_in_yet_is_said_to_come(world: World) -> None:
    fill(world)
    told = world.call("logs", "t1", code=2).stderr
    assert "worker a hands it in when the attempt has ended" in told


def test_show_names_the_worker_of_each_attempt(world: World) -> None:
    async def write(store: SqliteStore) -> None:
        facts: dict[str, Any] = {"task": {"id": "t1"}, "agent": {}}
        for attempt, worker in ((1, "a"), (2, "b")):
            facts = placed(facts, "m", worker, attempt)
        record = await store.create(
            AgentLifecycle(
                agent_id="t1", task="Work", state=st.coarse(BLOCKED), work=BLOCKED, facts=facts
            )
        )
        for attempt in (1, 2):
            row = AttemptRow(agent_id="t1", attempt=attempt, outcome="blocked", summary="waits")
            await store.commit(Transaction(record=record, attempt=row))

    of_store(world.repo, write)
    head, first, second = world.call("show", "t1").stdout.splitlines()[-3:]
    assert head.split() == ["ATTEMPT", "STARTED", "TOOK", "WORKER", "OUTCOME", "WORDS"]
    assert (first.split(), second.split()) == (
        ["1", "a", "blocked", "waits"],
        ["2", "b", "blocked", "waits"],
    )
