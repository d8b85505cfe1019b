"""What a store holds of a lifecycle, with something in every place, for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.plan import Agent, Task
from lifecycle.record import (
    AgentLifecycle,
    AttemptRow,
    JournalEntry,
    OperatorRequest,
    PendingEffect,
    Spending,
    Used,
    mark_of,
)
from lifecycle.store.transfers import LifecycleDocument, StoredLifecycle
from lifecycle.working_copy import facts_of

if TYPE_CHECKING:
    from lifecycle.machine.states import State

FIRST = ("lifecycles", 0)


def record_of(number: int, work: State, **facts: Any) -> AgentLifecycle:
    task = Task(id=f"T{number}", title=f"Task {number}")
    agent = Agent(agent_id=f"agent-{number}", command=("true",), env={"MODE": "x"})
    made = AgentLifecycle(
        agent_id=agent.agent_id,
        task_id=task.id,
        task=task.title,
        tags=("red",),
        facts={**facts_of(task, agent), "machine": "elsewhere", **facts},
        created_at=1.0,
        updated_at=2.0,
        work=work,
    )
    made.derive()
    return made


def stored_of(number: int, work: State) -> StoredLifecycle:
    """Return a lifecycle with a row in every table around it."""
    record = record_of(number, work)
    name, birth = record.agent_id, record.birth
    exited = on.AgentExited(at=5.0, attempt=1, exit_code=1)
    effect_id = f"{mark_of(name, birth)}1.1"
    entry = JournalEntry(
        agent_id=name, seq=1, at=5.0, event=exited, rule="x", before="Working", after="y"
    )
    asked = on.Guided(at=6.0, by="ada", text="More tests.")
    return StoredLifecycle(
        record=record,
        journal=(entry,),
        attempts=(AttemptRow(agent_id=name, attempt=1, started_at=3.0, before=Used(tokens=7)),),
        pending=(PendingEffect(effect_id=effect_id, agent_id=name, effect=do.RemoveWorkspace()),),
        requests=(OperatorRequest(request_id=0, agent_id=name, at=6.0, event=asked),),
        spendings=(Spending(agent_id=name, attempt=1, birth=birth, at=4.0, tokens=11),),
        documents=(LifecycleDocument(collection="canaries", key=name, body={"seen": 1}),),
    )


def set_at(*path: Any, to: Any) -> Any:
    def change(whole: Any) -> None:
        for step in path[:-1]:
            whole = whole[step]
        whole[path[-1]] = to

    return change
