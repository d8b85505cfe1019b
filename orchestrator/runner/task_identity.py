"""Whether a task that is asked for is the one that its id stood for before, or another one.

An id is used once: what was done under it must never pass for something else. Changes no record.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lifecycle.engine.retention import RETIRED, digest_of
from lifecycle.errors import PlanError
from lifecycle.machine.states import Accepted, Completed, Rejected, State, Suspended
from lifecycle.mask_values import masked
from lifecycle.record import LOOSE
from lifecycle.store.damaged_records import RecordDamagedError
from orchestrator.terminal.text import one_line
from runtime.git.porcelain import some_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lifecycle.engine.engine import LocalEngine
    from lifecycle.plan import Agent, Plan, Task
    from lifecycle.record import AgentLifecycle

WORDS = 80
"""Columns of a title in a refusal."""


@dataclass(frozen=True, slots=True)
class EarlierTask:
    """What an id stood for before."""

    task_id: str
    title: str
    digest: str
    """Of its words; empty if they are not known."""
    plan: str
    """The name of its plan; empty if that is not known."""
    how: str
    """What became of it, for people."""
    way: str
    """What a person can do to have the id again, or that nothing can be done."""
    over: bool
    """Whether it has ended for good: it will not become another task by being run again."""


async def refuse_reused(
    engine: LocalEngine, plan: Plan, asked: Iterable[tuple[Task, Agent]]
) -> None:
    """Refuse a plan that uses ids again which stand for other tasks here."""
    store, found = engine.shared.store, list[EarlierTask]()
    records = [(task, agent, await _record(engine, task, agent)) for task, agent in asked]
    # Only now: what is being retired is remembered before its record goes.
    retired = await store.all(RETIRED)
    for task, agent, record in records:
        former = _former(task.id, record, retired)
        if former is not None and _is_another(former, _digest(engine, task, agent), plan.name):
            found.append(former)
    if found:
        others = [former.task_id for former in found[1:]]
        also = f" (so it is with {some_of(others)})" if others else ""
        raise PlanError(f"plan {plan.name!r}: {_told(found[0])}{also}")


async def retired_as(engine: LocalEngine, task_id: str) -> EarlierTask | None:
    """Return the accepted task that an id stood for, if its record is gone."""
    return _former(task_id, None, await engine.shared.store.all(RETIRED))


def refuse_other_words(
    engine: LocalEngine, task: Task, record: AgentLifecycle | EarlierTask
) -> None:
    """Refuse words that were typed for an id which stands for another task that has ended.

    What a person rejected stands for nothing any more.
    """
    former = record if isinstance(record, EarlierTask) else _former(task.id, record, {})
    if former is not None and former.over and former.digest not in ("", _digest(engine, task)):
        raise PlanError(_told(former))


def done_before(task_id: str, unread: Iterable[str], agent_id: str = "") -> str:
    """Say that nothing is run, which options have no effect, and how to get more done."""
    unused = ", ".join(unread)
    more = f"; for more work on it: loopwright guide {agent_id} 'TEXT'" if agent_id else ""
    return (
        f"task {task_id} was completed before, nothing is run"
        f"{f', {unused} changes nothing' if unused else ''}{more}"
    )


async def _record(engine: LocalEngine, task: Task, agent: Agent) -> AgentLifecycle | None:
    """Return the lifecycle behind a task's id, whichever its agent; damaged ones are reported."""
    shared = engine.shared
    with suppress(RecordDamagedError):
        record = await shared.store.get(agent.agent_id)
        if record is None and task.id in shared.completed:
            record = await shared.base_commits.of_task(task.id)
        return record
    return None


def _former(
    task_id: str, record: AgentLifecycle | None, retired: Mapping[str, Any]
) -> EarlierTask | None:
    if record is not None and record.task_id == task_id and record.work is not None:
        rejected = record.is_over and not isinstance(record.work, Accepted)
        return None if rejected else _recorded(record, record.work)
    if record is not None or task_id not in retired:
        return None
    kept = retired[task_id]
    return EarlierTask(
        task_id,
        title=str(kept.get("title", "")),
        digest=str(kept.get("digest", "")),
        plan=str(kept.get("plan", "")),
        how="was completed and accepted",
        way="give the new task another id",
        over=True,
    )


def _recorded(record: AgentLifecycle, work: State) -> EarlierTask:
    plan = record.facts.get("plan")
    agent = record.agent_id
    free = f"give the new task another id, or free this one: `loopwright reject {agent}`"
    over = True
    match work:
        case Completed():
            how = "is completed and waits for `loopwright accept`"
            way = f"{free}; for more work on the old one: loopwright guide {agent} 'TEXT'"
        case Accepted():
            how, way = "was completed and accepted", "give the new task another id"
        case _:
            over, shown = False, work.inner if isinstance(work, Suspended) else work
            how = "was given up" if isinstance(shown, Rejected) else "is not finished"
            way = free
    return EarlierTask(
        record.task_id,
        title=record.task,
        digest=digest_of(record.facts.get("task")),
        plan=str(plan.get("name", "")) if isinstance(plan, dict) else "",
        how=how,
        way=way,
        over=over,
    )


def _is_another(former: EarlierTask, digest: str, plan: str) -> bool:
    """Tell whether it is another task; a plan may reword a task that is not finished."""
    words, elsewhere = former.digest not in ("", digest), former.plan not in ("", plan)
    return words or elsewhere if former.over else words and elsewhere


def _digest(engine: LocalEngine, task: Task, agent: Agent | None = None) -> str:
    """Return the digest as the record would have it: of words without their secrets."""
    masker = engine.shared.masker
    if agent is not None:
        masker.learn_from(agent.env)
    return digest_of(masked(task.model_dump(mode="json"), masker))


def _told(former: EarlierTask) -> str:
    title = one_line(former.title, WORDS)
    came = f" of plan {former.plan!r}" if former.plan not in ("", LOOSE) else ""
    return (
        f"the id {former.task_id} stands for another task here: {title!r}{came}, which "
        f"{former.how}; {former.way}"
    )
