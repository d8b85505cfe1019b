"""Records and decisions that store tests write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine import states as st
from lifecycle.record import AgentLifecycle, AttemptRow, Commit, JournalEntry, PendingEffect

if TYPE_CHECKING:
    from lifecycle.store.port import LifecycleStore


PROCESS = st.Process(pid=41, start_time=7, boot_id="boot", spawn_id="spawn-1")
WORKING = st.Working(process=PROCESS, since=12.5, tally=st.Tally(attempt=3, retry_count=2))
BLOCKED = st.Blocked(since=1.0, until=9.0, word=st.Word(type="blocked", blocked_on=("T000",)))
COMPLETED = st.Completed(summary="done", changed_files=("a.py",))
ACCEPTED = st.Accepted(commit="c0ffee")
REJECTED = st.Rejected(reason=st.Reason.PERSON, text="no")


def lifecycle(agent_id: str = "agent-1", **fields: Any) -> AgentLifecycle:
    """Return a new record."""
    made = AgentLifecycle(**{"agent_id": agent_id, "task": "Make it work", **fields})
    made.derive()
    return made


def entry(seq: int, agent_id: str = "agent-1") -> JournalEntry:
    """Return a journal entry."""
    return JournalEntry(
        agent_id=agent_id,
        seq=seq,
        at=float(seq),
        event=on.AgentExited(at=float(seq), attempt=seq, exit_code=1),
        rule="agent_exited",
        before="Working",
        after="Capturing",
    )


def order(effect_id: str, agent_id: str = "agent-1") -> PendingEffect:
    """Return an order for the outbox."""
    return PendingEffect(
        effect_id=effect_id, agent_id=agent_id, effect=do.TakeSnapshot(attempt=len(effect_id))
    )


def attempt(number: int, agent_id: str = "agent-1", **fields: Any) -> AttemptRow:
    """Return a row of the ledger."""
    return AttemptRow(**{"agent_id": agent_id, "attempt": number, **fields})


async def begun(store: LifecycleStore, agent_id: str = "agent-1", **fields: Any) -> AgentLifecycle:
    """Return a record that a loop drives and that is in the store."""
    record = lifecycle(agent_id, **{"work": WORKING, **fields})
    await store.commit(Commit(record=record))
    return record
