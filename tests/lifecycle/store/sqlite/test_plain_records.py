"""Records that no loop drives: their states, and the names that the methods have elsewhere."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from lifecycle.errors import IllegalStateChangeError
from lifecycle.machine import states as st
from lifecycle.record import AgentState
from tests.lifecycle.store.samples import lifecycle

if TYPE_CHECKING:
    from lifecycle.store.sqlite.store import SqliteStore

MOVES = {
    "queued": {"queued", "running", "rejected"},
    "running": {"running", "completed", "rejected", "queued"},
    "completed": {"completed", "accepted", "rejected", "running"},
    "rejected": {"rejected", "queued", "running"},
    "accepted": {"accepted"},
}


@pytest.mark.parametrize("after", AgentState)
@pytest.mark.parametrize("before", AgentState)
async def test_a_record_that_no_loop_drives_goes_from_state_to_state_as_the_table_says(
    store: SqliteStore, before: AgentState, after: AgentState
) -> None:
    record = await store.create(lifecycle(state=before))
    record.state = after

    if after in MOVES[before]:
        await store.update(record)
    else:
        named = f"agent-1 is {before} and cannot become {after}; "
        named += "it may become" if len(MOVES[before]) > 1 else "what is accepted has ended"
        with pytest.raises(IllegalStateChangeError, match=named):
            await store.update(record)

    found = await store.get("agent-1")
    assert found is not None
    assert found.state == (after if after in MOVES[before] else before)


async def test_a_refused_change_of_state_leaves_what_is_written_beside_it(
    store: SqliteStore,
) -> None:
    ended = await store.create(lifecycle("ended", state=AgentState.ACCEPTED))
    ended.state = AgentState.QUEUED

    refused, made = await asyncio.gather(
        store.update(ended), store.create(lifecycle("made")), return_exceptions=True
    )

    assert isinstance(refused, IllegalStateChangeError)
    assert await store.get("made") == made


async def test_a_loop_takes_a_plain_record_on_whatever_its_state(store: SqliteStore) -> None:
    record = await store.create(lifecycle(state=AgentState.COMPLETED))
    record.work = st.Queued()
    record.derive()

    await store.update(record)

    assert (await store.get("agent-1")) == record


async def test_the_other_names_do_the_same(store: SqliteStore) -> None:
    made = await store.create_lifecycle("test-001", "task")
    assert (made.state, made.task, made.created_at) == (AgentState.QUEUED, "task", 1000.0)
    made.state = AgentState.RUNNING
    await store.update_lifecycle(made)
    assert await store.get_lifecycle("test-001") == made
    assert await store.delete_lifecycle("test-001")
    assert not await store.delete_lifecycle("test-001")
    with pytest.raises(ValueError, match="not a usable id"):
        await store.create_lifecycle("a@b", "task")
