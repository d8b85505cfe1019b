"""Takes a task on, with a new record or the one that is there.

Owns what a record says of task and agent, and which records are continued. Must not run anything.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeGuard

from lifecycle.errors import ConflictingUpdateError
from lifecycle.machine import events as on
from lifecycle.machine.states import Accepted, AwaitingHuman, Queued, Reason, Rejected, Suspended
from lifecycle.mask_values import masked
from lifecycle.record import AgentLifecycle
from lifecycle.result import ended
from lifecycle.working_copy import MACHINE, LocalCopy, facts_of, load

if TYPE_CHECKING:
    from lifecycle.plan import Agent, Task
    from lifecycle.services import MachineServices, SharedServices


async def case_of(
    machine: MachineServices, agent: Agent, task: Task, before: AgentLifecycle | None
) -> LocalCopy:
    """Return the local copy of a task that an agent is to work on.

    `before` is the record as it was when this was asked for.
    """
    shared = machine.shared
    record = await shared.store.get(agent.agent_id)
    if record is None and before is not None and isinstance(before.work, Accepted):
        # Retired while we waited for our turn: it is done, and must not start again.
        record = before
    if record is None or record.work is None:
        fresh = _fresh(shared, agent, task, record)
        fresh.facts = {**fresh.facts, MACHINE: machine.machine_id}
        store = shared.store
        made = await (store.update(fresh) if record else store.create(fresh))
        return LocalCopy(record=made, task=task, agent=agent)
    if record.task_id != task.id:
        raise ConflictingUpdateError(
            f"{agent.agent_id} has a record for task {record.task_id} ({record.state}), not "
            f"for {task.id}; use another agent id, or end the other with `loopwright reject "
            f"{agent.agent_id}` and wait for its retention"
        )
    local = await load(shared.store, record)
    # What the caller says now counts: the command may have been fixed meanwhile.
    local.task, local.agent = task, agent
    known = facts_of(task, agent, shared.masker)
    facts = {**record.facts, **known, **_plan(shared, task), MACHINE: machine.machine_id}
    local.record = replace(record, facts=facts, **_shown(shared, task))
    return local


def may_be_resumed(record: AgentLifecycle) -> bool:
    """Tell whether a caller who runs it wants it to continue where it was given up or held.

    Where the agent has all that it waits for, only a person's word is news: not another start.
    """
    state = record.work
    if isinstance(state, Rejected):
        return state.reason is not Reason.PERSON
    waits = isinstance(state, AwaitingHuman) and not state.joined and ended(record) is not None
    return waits or isinstance(state, Suspended)


def only_starts(event: on.Event, record: AgentLifecycle) -> TypeGuard[on.ResumeRequested]:
    """Tell whether a request may mean no more than that a loop without an owner is started."""
    at_rest = isinstance(record.work, Suspended) or ended(record) is not None
    return isinstance(event, on.ResumeRequested) and not at_rest


def _fresh(
    shared: SharedServices, agent: Agent, task: Task, record: AgentLifecycle | None
) -> AgentLifecycle:
    now = shared.clock.now()
    waiting_on = tuple(wanted for wanted in task.dependencies if wanted not in shared.completed)
    fresh = record or AgentLifecycle(agent_id=agent.agent_id, task="", created_at=now)
    # First: from its agent the masker learns what else is a secret.
    known = facts_of(task, agent, shared.masker)
    fresh = replace(fresh, **_shown(shared, task))
    fresh.task_id = task.id
    fresh.updated_at = now
    fresh.facts = {**fresh.facts, **known, **_plan(shared, task)}
    fresh.work = Queued(waiting_on=waiting_on)
    fresh.derive()
    return fresh


def _shown(shared: SharedServices, task: Task) -> dict[str, Any]:
    """Return what of a task stands in the record itself, as its plan says it now."""
    masker = shared.masker
    title = masker.mask(task.title or task.description or task.id)
    return {"task": title, "tags": masked(task.tags, masker)}


def _plan(shared: SharedServices, task: Task) -> dict[str, object]:
    """Return what the record is to know of the plan that the task came with."""
    mark = shared.plans.get(task.id)
    return {} if mark is None else {"plan": mark.model_dump(mode="json")}
