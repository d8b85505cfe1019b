"""Takes a task on: its case begins with a new record, or goes on with the one that is there.

Owns what a record says of task and agent. It must not run anything.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lifecycle.case import Case, facts_of, load
from lifecycle.errors import ConflictingUpdateError
from lifecycle.machine.states import Accepted, Queued
from lifecycle.masking import masked
from lifecycle.record import AgentLifecycle

if TYPE_CHECKING:
    from lifecycle.parts import Parts
    from lifecycle.plan import Agent, Task


async def case_of(parts: Parts, agent: Agent, task: Task, before: AgentLifecycle | None) -> Case:
    """Return the case of a task that an agent is to work on.

    `before` is the record as it was when this was asked for.
    """
    record = await parts.store.get(agent.agent_id)
    if record is None and before is not None and isinstance(before.work, Accepted):
        # Retired while we waited for our turn: it is done, and must not begin anew.
        record = before
    if record is None or record.work is None:
        fresh = _fresh(parts, agent, task, record)
        store = parts.store
        made = await (store.update(fresh) if record else store.create(fresh))
        return Case(record=made, task=task, agent=agent)
    if record.task_id != task.id:
        raise ConflictingUpdateError(
            f"{agent.agent_id} has a record for task {record.task_id} ({record.state}), not "
            f"for {task.id}; use another agent id, or end the other with `loopwright reject "
            f"{agent.agent_id}` and wait for its retention"
        )
    case = await load(parts.store, record)
    # What the caller says now counts: the command may have been mended meanwhile.
    case.task, case.agent = task, agent
    known = facts_of(task, agent, parts.masker)
    facts = {**record.facts, **known, **_plan(parts, task)}
    case.record = replace(record, facts=facts, **_shown(parts, task))
    return case


def _fresh(parts: Parts, agent: Agent, task: Task, record: AgentLifecycle | None) -> AgentLifecycle:
    now = parts.clock.now()
    waiting_on = tuple(wanted for wanted in task.dependencies if wanted not in parts.completed)
    fresh = record or AgentLifecycle(agent_id=agent.agent_id, task="", created_at=now)
    # First: from its agent the masker learns what else is a secret.
    known = facts_of(task, agent, parts.masker)
    fresh = replace(fresh, **_shown(parts, task))
    fresh.task_id = task.id
    fresh.updated_at = now
    fresh.facts = {**fresh.facts, **known, **_plan(parts, task)}
    fresh.work = Queued(waiting_on=waiting_on)
    fresh.derive()
    return fresh


def _shown(parts: Parts, task: Task) -> dict[str, Any]:
    """Return what of a task stands in the record itself, as its plan says it now."""
    masker = parts.masker
    title = masker.mask(task.title or task.description or task.id)
    return {"task": title, "tags": masked(task.tags, masker)}


def _plan(parts: Parts, task: Task) -> dict[str, object]:
    """Return what the record is to know of the plan that the task came with."""
    mark = parts.plans.get(task.id)
    return {} if mark is None else {"plan": mark.model_dump(mode="json")}
