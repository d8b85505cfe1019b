"""Records and decisions that store tests write."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from ci.webhook_delivery import Delivery
from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine import states as st
from lifecycle.record import AgentLifecycle, AttemptRow, JournalEntry, PendingEffect, Transaction
from lifecycle.store.instances import InstanceRow, born_at, new_instance_id

if TYPE_CHECKING:
    from lifecycle.store.sqlite.store import SqliteStore


PROCESS = st.Process(pid=41, start_time=7, boot_id="boot", spawn_id="spawn-1")
WORKING = st.Working(process=PROCESS, since=12.5, tally=st.Tally(attempt=3, retry_count=2))
BLOCKED = st.Blocked(since=1.0, until=9.0, word=st.Signal(type="blocked", blocked_on=("T000",)))
COMPLETED = st.Completed(summary="done", changed_files=("a.py",))
ACCEPTED = st.Accepted(commit="c0ffee")
REJECTED = st.Rejected(reason=st.Reason.PERSON, text="no")
OWNER, OTHER, DEFINITION = uuid4(), uuid4(), uuid4()
BODY = b'{"action": "completed", "text": "' + b"again and again " * 500 + b'"}'


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


def spawned(seq: int, agent_id: str = "agent-1") -> JournalEntry:
    """Return a journal entry that the audit tells of."""
    event = on.AgentSpawned(at=float(seq), attempt=seq, process=PROCESS)
    return replace(entry(seq, agent_id), event=event, before="Spawning", after="Working")


def order(effect_id: str, agent_id: str = "agent-1") -> PendingEffect:
    """Return an order for the outbox."""
    return PendingEffect(
        effect_id=effect_id, agent_id=agent_id, effect=do.TakeSnapshot(attempt=len(effect_id))
    )


def attempt(number: int, agent_id: str = "agent-1", **fields: Any) -> AttemptRow:
    """Return a row of the ledger."""
    return AttemptRow(**{"agent_id": agent_id, "attempt": number, **fields})


async def begun(store: SqliteStore, agent_id: str = "agent-1", **fields: Any) -> AgentLifecycle:
    """Return a record that a loop drives and that is in the store."""
    record = lifecycle(agent_id, **{"work": WORKING, **fields})
    await store.commit(Transaction(record=record))
    return record


def delivery(key: str = "github:1", **fields: Any) -> Delivery:
    """Return a delivery that has just come."""
    return Delivery(
        **{
            "key": key,
            "provider": key.partition(":")[0],
            "event": "check_run",
            "received_at": 5.0,
            "headers": {"x-github-event": "check_run"},
            "body": BODY,
            **fields,
        }
    )


def instance(number: int, state: str = "ready", **fields: Any) -> InstanceRow:
    """Return an instance that was born at second 1000 + number."""
    made = new_instance_id(1000.0 + number, number)
    ended = state in ("terminated", "failed")
    return InstanceRow(
        **{
            "id": made,
            "definition_id": DEFINITION,
            "state": state,
            "health_state": "healthy",
            "name": f"agent {number}",
            "owner_id": OWNER,
            "created_at": born_at(made),
            "updated_at": born_at(made) + 5,
            "terminated_at": born_at(made) + 5 if ended else None,
            **fields,
        }
    )
