"""Takes a task on, with a new record or the one that is there.

Owns what a record says of task and agent, and which records are continued. Must not run anything.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeGuard

from lifecycle.engine.retention import digest_of
from lifecycle.errors import ConflictingUpdateError
from lifecycle.machine import events as on
from lifecycle.machine.states import Accepted, AwaitingHuman, Queued, Reason, Rejected, Suspended
from lifecycle.mask_values import masked
from lifecycle.perform.removal import remove_all
from lifecycle.plan import plan_of
from lifecycle.record import AgentLifecycle, AgentState, Filter, placed, worker_of, working_worker
from lifecycle.result import ended
from lifecycle.working_copy import LocalCopy, facts_of, load

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.plan import Agent, Task
    from lifecycle.result import LoopResult
    from lifecycle.services import MachineServices, SharedServices


async def case_of(
    machine: MachineServices,
    agent: Agent,
    task: Task,
    before: AgentLifecycle | None,
    *,
    after_reject: bool = False,
) -> LocalCopy:
    """Return the local copy of a task that an agent is to work on.

    `before` is the record as it was when this was asked for. A record of another task gives way
    if it is over; with `after_reject` also one of this task that a person rejected.
    """
    shared = machine.shared
    record = await shared.store.get(agent.agent_id)
    if record is not None and _gives_way(shared, record, agent, task, after_reject=after_reject):
        return await _next(machine, agent, task, record)
    if record is None and before is not None and before.task_id == task.id:
        # If it was retired while we waited for our turn, it is done and must not start again.
        record = before if isinstance(before.work, Accepted) else None
    if record is None or record.work is None:
        fresh, store = _fresh(machine, agent, task, record), shared.store
        made = await (store.update(fresh) if record else store.create(fresh))
        return LocalCopy(record=made, task=task, agent=agent)
    if record.task_id != task.id:
        raise ConflictingUpdateError(
            f"{agent.agent_id} has a record for task {record.task_id} ({record.state}), not "
            f"for {task.id}; use another agent id, or end the other with `loopwright accept "
            f"{agent.agent_id}` or `loopwright reject {agent.agent_id}`"
        )
    local = await load(shared.store, record)
    # What the caller says now counts: the command may have been fixed meanwhile.
    local.task, local.agent = task, agent
    known = facts_of(task, agent, shared.masker)
    facts = _placed(machine, {**record.facts, **known, **_plan(shared, task)}, record)
    local.record = replace(record, facts=facts, **_shown(shared, task))
    return local


def _placed(
    machine: MachineServices, facts: dict[str, Any], record: AgentLifecycle
) -> dict[str, Any]:
    """Return the facts as of this machine; where others work too, the worker stays named."""
    worker = working_worker(record) if machine.shared.one_machine else worker_of(record)
    return placed(facts, machine.machine_id, worker)


def _gives_way(
    shared: SharedServices,
    record: AgentLifecycle,
    agent: Agent,
    task: Task,
    *,
    after_reject: bool,
) -> bool:
    """Tell whether a record is over, and not that of the work that is asked for."""
    if not record.is_over or record.work is None or record.task_id != task.id:
        return record.is_over
    if record.state is AgentState.ACCEPTED:
        return False
    shared.masker.learn_from(agent.env)
    words = digest_of(masked(task.model_dump(mode="json"), shared.masker))
    mark = shared.plans.get(task.id)
    elsewhere = mark is not None and mark.name != plan_of(record).name
    other = digest_of(record.facts.get("task")) not in ("", words)
    return after_reject or elsewhere or other


async def accepted_before(shared: SharedServices, agent: Agent, task: Task) -> LoopResult | None:
    """Return the result of the earlier lifecycle of this agent in which this task was accepted."""
    record = await shared.store.get(agent.agent_id)
    if record is None or record.task_id == task.id:
        return None
    done = Filter(task_id=task.id, states=(AgentState.ACCEPTED,), earlier_of=agent.agent_id)
    page = await shared.store.list(done, limit=1)
    told = ended(page.records[0]) if page.records else None
    return None if told is None else replace(told, agent_id=agent.agent_id)


async def _next(
    machine: MachineServices, agent: Agent, task: Task, over: AgentLifecycle
) -> LocalCopy:
    """Return the local copy of a new lifecycle of an agent whose present one is over.

    What that left on this machine goes first, and its files go with it: a crash before the new
    record is there leaves the old one, and this is done again.
    """
    if await accepted_before(machine.shared, agent, task) is not None:
        raise ConflictingUpdateError(
            f"{task.id} is done: an earlier lifecycle of {agent.agent_id} was accepted for it"
        )
    agent_id, attempt = agent.agent_id, over.work.tally.attempt if over.work is not None else 0
    await remove_all(machine, agent_id, attempt)
    for old, kept in zip(
        machine.paths.all_of(agent_id), machine.paths.all_of(over.earlier_id), strict=True
    ):
        await asyncio.to_thread(_move, old, kept)
    fresh = _fresh(machine, agent, task, None)
    made = await machine.shared.store.create_next(fresh, over)
    return LocalCopy(record=made, task=task, agent=agent)


def _move(folder: Path, to: Path) -> None:
    with suppress(FileNotFoundError):
        folder.rename(to)


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
    machine: MachineServices, agent: Agent, task: Task, record: AgentLifecycle | None
) -> AgentLifecycle:
    shared = machine.shared
    now = shared.clock.now()
    waiting_on = tuple(wanted for wanted in task.dependencies if wanted not in shared.completed)
    fresh = record or AgentLifecycle(agent_id=agent.agent_id, task="", created_at=now)
    # First: from its agent the masker learns what else is a secret.
    known = facts_of(task, agent, shared.masker)
    fresh = replace(fresh, **_shown(shared, task))
    fresh.task_id = task.id
    fresh.updated_at = now
    fresh.facts = placed({**fresh.facts, **known, **_plan(shared, task)}, machine.machine_id)
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
