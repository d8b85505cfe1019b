"""What a store promises of records, decisions and documents."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from lifecycle.errors import (
    ConflictingUpdateError,
    StoreError,
)
from lifecycle.machine import events as on
from lifecycle.machine import states as st
from lifecycle.record import AgentState, Filter, Spending, Transaction
from tests.lifecycle.store.samples import (
    ACCEPTED,
    BLOCKED,
    COMPLETED,
    REJECTED,
    WORKING,
    attempt,
    begun,
    entry,
    lifecycle,
    order,
)

if TYPE_CHECKING:
    from lifecycle.clock import SteppedClock
    from lifecycle.store.sqlite.store import SqliteStore


async def ids(store: SqliteStore, which: Filter) -> list[str]:
    return [record.agent_id async for record in store.every(which)]


async def test_what_was_created_is_what_one_gets(store: SqliteStore) -> None:
    made = lifecycle(
        work=st.Suspended(inner=BLOCKED, since=3.0),
        task_id="T001",
        tags=("red", "blue"),
        facts={"base": "abc", "paths": ["ä", "\udcff"], "deep": {"n": 1.5, "none": None}},
        generated_code="x = 1",
        submission_summary="all done",
        changed_files=["a.py", "b \udcff.py"],
        error="oh",
    )

    returned = await store.create(made)

    assert returned is made
    assert (made.version, made.cursor, made.created_at, made.updated_at) == (1, 1, 1000.0, 1000.0)
    assert await store.get("agent-1") == made
    assert await store.get("agent-2") is None


async def test_text_that_is_not_unicode_is_shown_escaped(store: SqliteStore) -> None:
    await store.create(lifecycle(error="bad \udcff", tags=("t\udcff",)))

    found = await store.get("agent-1")

    assert found is not None
    assert (found.error, found.tags) == ("bad \\udcff", ("t\\udcff",))


async def test_a_second_create_for_an_agent_is_refused(store: SqliteStore) -> None:
    await store.create(lifecycle(task="first"))

    with pytest.raises(ConflictingUpdateError, match="agent-1 has a record already"):
        await store.create(lifecycle(task="second"))

    found = await store.get("agent-1")
    assert found is not None
    assert found.task == "first"


async def test_given_instants_are_kept_at_creation(store: SqliteStore) -> None:
    made = await store.create(lifecycle(created_at=5.0, updated_at=6.0))

    assert (made.created_at, made.updated_at) == (5.0, 6.0)


async def test_an_update_counts_the_version_and_the_instant_up(
    store: SqliteStore, clock: SteppedClock
) -> None:
    record = await store.create(lifecycle(tags=("old",), task_id="T1"))
    clock.advance(5)
    record.state, record.tags, record.task_id = AgentState.RUNNING, ("new", "x"), "T2"

    await store.update(record)
    record.error = "again, on the same object"
    await store.update(record)

    assert (record.version, record.updated_at, record.created_at) == (3, 1005.0, 1000.0)
    assert await store.get("agent-1") == record
    assert await ids(store, Filter(tags=("old",))) == []
    assert await ids(store, Filter(tags=("x",), task_id="T2")) == ["agent-1"]


async def test_a_stale_update_is_refused_and_changes_nothing(store: SqliteStore) -> None:
    await store.create(lifecycle())
    mine, theirs = await store.get("agent-1"), await store.get("agent-1")
    assert mine is not None
    assert theirs is not None
    theirs.task = "theirs"
    await store.update(theirs)
    mine.task = "mine"

    with pytest.raises(ConflictingUpdateError, match="version 2 is stored"):
        await store.update(mine)

    assert mine.version == 1
    assert await store.get("agent-1") == theirs


async def test_an_update_of_what_is_not_there_is_refused(store: SqliteStore) -> None:
    record = await store.create(lifecycle())
    await store.delete("agent-1")

    with pytest.raises(ConflictingUpdateError, match="not in the store"):
        await store.update(record)
    with pytest.raises(ConflictingUpdateError, match="not read from the store"):
        await store.update(lifecycle("agent-2"))


async def test_a_record_of_an_earlier_birth_is_not_written_over_a_later_one(
    store: SqliteStore,
) -> None:
    old = await store.create(lifecycle())
    await store.delete("agent-1")
    await store.create(lifecycle(task="reborn"))

    with pytest.raises(ConflictingUpdateError):
        await store.update(old)


@pytest.mark.parametrize("how", ["create", "update"])
async def test_a_state_that_contradicts_the_work_state_is_refused(
    store: SqliteStore, how: str
) -> None:
    record = lifecycle(work=WORKING)
    if how == "update":
        await store.create(record)
    record.state = AgentState.ACCEPTED

    with pytest.raises(ValueError, match="call derive"):
        await (store.create(record) if how == "create" else store.update(record))


async def test_a_commit_creates_the_record_and_derives_its_state(store: SqliteStore) -> None:
    record = lifecycle(updated_at=77.0)
    record.work = COMPLETED

    await store.commit(Transaction(record=record))

    assert (record.version, record.state, record.updated_at) == (1, AgentState.COMPLETED, 77.0)
    assert await store.get("agent-1") == record


async def test_a_commit_over_a_newer_version_writes_nothing_at_all(store: SqliteStore) -> None:
    record = await begun(store)
    asked = await store.ask("agent-1", on.PauseRequested(at=1.0))
    stale = replace(record)
    await store.commit(Transaction(record=record, effects=(order("e1"),)))
    decision = Transaction(
        record=stale,
        journal=(entry(1),),
        effects=(order("e2"),),
        done=("e1",),
        attempt=attempt(1),
        spending=Spending(agent_id="agent-1", attempt=1, birth="b", at=1.0),
        taken=(asked,),
    )

    with pytest.raises(ConflictingUpdateError):
        await store.commit(decision)

    assert stale.version == 1
    assert await store.get("agent-1") == record
    assert await store.journal("agent-1") == ()
    assert await store.pending("agent-1") == (order("e1"),)
    assert await store.attempts("agent-1") == ()
    assert await store.spendings() == []
    assert [request.request_id for request in await store.requests()] == [asked]


async def test_a_first_commit_is_refused_when_the_agent_has_a_record(store: SqliteStore) -> None:
    await begun(store)

    with pytest.raises(ConflictingUpdateError, match="has a record already"):
        await begun(store)


async def test_a_journal_number_that_is_taken_refuses_the_whole_decision(
    store: SqliteStore,
) -> None:
    record = await begun(store)
    await store.commit(Transaction(record=record, journal=(entry(1),)))
    before = await store.get("agent-1")

    with pytest.raises(ConflictingUpdateError, match="journal entry 1 of agent-1"):
        await store.commit(
            Transaction(record=record, journal=(entry(2), entry(1)), effects=(order("e"),))
        )

    assert await store.get("agent-1") == before
    assert await store.journal("agent-1") == (entry(1),)
    assert await store.pending("agent-1") == ()


async def test_the_journal_comes_in_order_and_in_parts(store: SqliteStore) -> None:
    record = await begun(store)
    other = await begun(store, "agent-2")
    for number in range(1, 8):
        await store.commit(Transaction(record=record, journal=(entry(number),)))
    await store.commit(Transaction(record=other, journal=(entry(1, "agent-2"),)))

    async def numbers(**how: Any) -> list[int]:
        return [each.seq for each in await store.journal("agent-1", **how)]

    assert await store.journal("agent-1", limit=2) == (entry(1), entry(2))
    assert await numbers() == [1, 2, 3, 4, 5, 6, 7]
    assert await numbers(after=3, limit=2) == [4, 5]
    assert await numbers(limit=3, newest=True) == [5, 6, 7]
    assert await numbers(after=6, limit=3, newest=True) == [7]
    assert await store.journal("nobody") == ()
    with pytest.raises(ValueError, match="at least 1"):
        await numbers(limit=0)


async def test_late_entries_are_kept_as_such(store: SqliteStore) -> None:
    record = await begun(store)

    await store.commit(Transaction(record=record, journal=(replace(entry(1), late=True),)))

    assert (await store.journal("agent-1"))[0].late is True


async def test_orders_wait_in_their_order_until_they_are_done(store: SqliteStore) -> None:
    record = await begun(store)
    await begun(store, "agent-2")
    await store.commit(Transaction(record=record, effects=(order("z"), order("a"))))
    await store.commit(Transaction(record=record, effects=(order("m"),), done=("a", "unknown")))

    assert await store.pending("agent-1") == (order("z"), order("m"))
    assert await store.pending("agent-2") == ()

    await store.effects_done(["m", "unknown"])
    await store.effects_done([])

    assert await store.pending("agent-1") == (order("z"),)


async def test_an_order_that_waits_already_refuses_the_decision(store: SqliteStore) -> None:
    record = await begun(store)
    await store.commit(Transaction(record=record, effects=(order("e"),)))

    with pytest.raises(ConflictingUpdateError, match="effect e of agent-1"):
        await store.commit(Transaction(record=record, effects=(order("e"),)))


async def test_an_attempt_is_replaced_whole(store: SqliteStore) -> None:
    record = await begun(store)
    begin = attempt(1, pid=4, spawn_id="s", started_at=1.0)
    end = attempt(1, ended_at=2.0, outcome="crash", signal=9, error="bad \\udcff")
    for row in (begin, attempt(2), replace(end, error="bad \udcff"), attempt(3)):
        await store.commit(Transaction(record=record, attempt=row))

    assert await store.attempts("agent-1") == (end, attempt(2), attempt(3))
    assert await store.attempts("agent-1", limit=2) == (attempt(2), attempt(3))
    assert await store.attempts("nobody") == ()


async def test_documents_keep_the_order_they_were_first_put_in(store: SqliteStore) -> None:
    for key, number in (("b", 1), ("a", 2), ("c", 3), ("b", 4)):
        await store.put("builds", key, {"n": number, "deep": ["ü"]})
    await store.put("pulls", "a", {})
    await store.remove("builds", "c")
    await store.remove("builds", "never there")
    await store.put("builds", "c", {"n": 5})
    await store.remove("builds", "a")

    found = await store.all("builds")

    assert list(found.items()) == [("b", {"n": 4, "deep": ["ü"]}), ("c", {"n": 5})]
    assert await store.all("pulls") == {"a": {}}
    assert await store.all("nothing") == {}


async def test_delete_removes_all_around_the_record_and_nothing_else(store: SqliteStore) -> None:
    asked = {}
    for name in ("agent-1", "agent-2"):
        record = await begun(store, name, tags=("t",))
        asked[name] = await store.ask(name, on.PauseRequested(at=1.0))
        await store.commit(
            Transaction(
                record=record,
                journal=(entry(1, name),),
                effects=(order("e", name),),
                attempt=attempt(1, name),
            )
        )

    assert await store.delete("agent-1") is True
    assert await store.delete("agent-1") is False

    assert await store.get("agent-1") is None
    assert await ids(store, Filter(tags=("t",))) == ["agent-2"]
    assert (await store.journal("agent-1"), await store.pending("agent-1")) == ((), ())
    assert await store.attempts("agent-1") == ()
    assert [each.request_id for each in await store.requests()] == [asked["agent-2"]]
    assert "removed" in (await store.request_outcome(asked["agent-1"]) or "")
    assert await store.journal("agent-2") == (entry(1, "agent-2"),)
    again = await begun(store)
    assert again.cursor == 3
    await store.commit(Transaction(record=again, journal=(entry(1),)))


async def test_unfinished_are_those_a_loop_drives_that_have_not_ended(
    store: SqliteStore,
) -> None:
    works = (st.Queued(), WORKING, BLOCKED, COMPLETED, ACCEPTED, REJECTED)
    for number, work in enumerate(works):
        await begun(store, f"agent-{number}", work=work)
    await store.create(lifecycle("by-hand", state=AgentState.RUNNING))

    names = [record.agent_id for record in await store.unfinished()]

    assert names == ["agent-0", "agent-1", "agent-2", "agent-3"]


async def test_what_went_in_or_came_out_cannot_change_what_is_stored(store: SqliteStore) -> None:
    facts = {"list": [1]}
    made = await store.create(lifecycle(facts=facts, changed_files=["a"]))
    body = {"list": [1]}
    await store.put("c", "k", body)
    found = await store.get("agent-1")
    assert found is not None
    assert found.changed_files is not None
    for each in (facts, made.facts, found.facts, body, (await store.all("c"))["k"]):
        each["list"].append(2)
    found.changed_files.append("b")

    stored = await store.get("agent-1")

    assert stored is not None
    assert (stored.facts, stored.changed_files) == ({"list": [1]}, ["a"])
    assert await store.all("c") == {"k": {"list": [1]}}


async def test_commits_of_a_hundred_tasks_lose_nothing(store: SqliteStore) -> None:
    async def live(name: str) -> None:
        record = await begun(store, name)
        for number in range(1, 11):
            await store.commit(
                Transaction(
                    record=record,
                    journal=(entry(number, name),),
                    effects=(order(f"{name}:{number}", name),),
                    done=(f"{name}:{number - 1}",),
                )
            )

    await asyncio.gather(*(live(f"a{number}") for number in range(100)))

    for number in range(100):
        name = f"a{number}"
        record = await store.get(name)
        assert record is not None
        assert record.version == 11
        assert [each.seq for each in await store.journal(name)] == list(range(1, 11))
        assert await store.pending(name) == (order(f"{name}:10", name),)


async def test_of_many_writers_of_one_version_exactly_one_wins(store: SqliteStore) -> None:
    record = await begun(store)
    copies = [replace(record, error=str(number)) for number in range(50)]

    outcomes = await asyncio.gather(
        *(store.commit(Transaction(record=each)) for each in copies), return_exceptions=True
    )

    won = [each for each, outcome in zip(copies, outcomes, strict=True) if outcome is None]
    lost = [outcome for outcome in outcomes if outcome is not None]
    assert len(won) == 1
    assert all(isinstance(outcome, ConflictingUpdateError) for outcome in lost)
    assert await store.get("agent-1") == won[0]


async def test_facts_that_are_not_json_are_refused(store: SqliteStore) -> None:
    with pytest.raises(TypeError):
        await store.create(lifecycle(facts={"when": object()}))

    assert await store.get("agent-1") is None


async def test_a_closed_store_says_so(store: SqliteStore) -> None:
    await store.aclose()
    await store.aclose()

    with pytest.raises(StoreError, match="closed"):
        await store.get("agent-1")
    with pytest.raises(StoreError, match="closed"):
        await store.create(lifecycle())


async def test_outlines_tell_of_all_records_or_of_some_states_the_newest_first(
    store: SqliteStore,
) -> None:
    for name, state in (("a", AgentState.QUEUED), ("b", AgentState.ACCEPTED)):
        await store.create(lifecycle(name, state=state, task_id=f"T-{name}", task=f"Do {name}"))

    found = await store.outlines()
    one = await store.outlines((AgentState.ACCEPTED,))

    assert [each.agent_id for each in found] == ["b", "a"]
    (known,) = one
    assert (known.task_id, known.task, known.state) == ("T-b", "Do b", "accepted")
    assert (known.work_kind, known.updated_at) == ("", 1000.0)
    assert await store.outlines((AgentState.REJECTED,)) == ()
