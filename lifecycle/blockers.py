"""What a blocked agent waits for: which of it are tasks, what became of them, what CI says.

Only looks, in the plan, the store and the branches. What follows is the machine's business.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ci.errors import ProviderError
from lifecycle.bases import is_done
from lifecycle.machine import events as on
from lifecycle.machine.blocks import free_words, names_ci, waits_for
from lifecycle.machine.states import Suspended
from lifecycle.plan import default_agent_id
from lifecycle.result import ended
from lifecycle.store.damage import RecordDamagedError

if TYPE_CHECKING:
    from lifecycle.case import Case
    from lifecycle.machine.effects import LookAtBlockers
    from lifecycle.machine.events import Event
    from lifecycle.machine.states import State
    from lifecycle.parts import Parts
    from lifecycle.record import AgentLifecycle


class Named(NamedTuple):
    """What an agent says that it waits for, as the runner knows it."""

    blocked_on: tuple[str, ...] = ()
    """With tasks by their ids, also where it named their agents."""
    tasks: tuple[str, ...] = ()
    joined: tuple[str, ...] = ()
    """Tasks whose completed work its branch holds, as it was told already."""


async def named(parts: Parts, case: Case, names: tuple[str, ...], head: str) -> Named:
    """Find out which of these names are tasks, and whether there is anything left to wait for."""
    known = {name: await _task(parts, case, name) for name in names}
    tasks = tuple(dict.fromkeys(filter(None, known.values())))
    told = {*case.task.dependencies, *_depends_on(case)}
    joined = [
        task
        for task in tasks
        if task in told and task in parts.completed and await _is_held(parts, case, task, head)
    ]
    return Named(tuple(dict.fromkeys(known[name] or name for name in names)), tasks, tuple(joined))


async def _task(parts: Parts, case: Case, name: str) -> str:
    """Return the task that a name means: its id, or its agent's; nothing for a free word."""
    if name in {case.record.task_id, case.agent_id}:
        return case.record.task_id
    if name in parts.plans or name in parts.completed:
        return name
    with suppress(RecordDamagedError):
        if await parts.bases.of_task(name) is not None:
            return name
        record = await parts.store.get(name)
        if record is not None and record.task_id:
            return record.task_id
    return next((task for task in parts.plans if default_agent_id(task) == name), "")


async def _is_held(parts: Parts, case: Case, task: str, head: str) -> bool:
    try:
        commit = await parts.bases.work_of(task, str(case.record.facts.get("base_branch", "")))
    except RecordDamagedError:
        return False
    return not commit or (bool(head) and await parts.branches.history.holds(head, commit))


async def look(parts: Parts, case: Case, order: LookAtBlockers) -> Event:
    """Look at all that is waited for."""
    names, own = order.blocked_on, case.record.task_id
    # Known without asking the store: hundreds may look, again and again.
    done = tuple(name for name in names if name in parts.completed)
    known = _depends_on(case)
    tasks = [name for name in names if name in known or await _task(parts, case, name) == name]
    failed: list[str] = []
    why = ""
    for name in tasks:
        record = await _ended(parts, name) if name not in (*done, own) else None
        if record is not None:
            failed.append(name)
            why = why or record.error or ""
    ci, text = "", ""
    if order.head and any(names_ci(word) for word in free_words(names, tasks)):
        ci, text = await _verdict(parts, order.head)
    return on.BlockersLooked(
        at=parts.clock.now(),
        done=done,
        tasks=tuple(tasks),
        failed=tuple(failed),
        why=why,
        ci=ci,
        text=text,
        circle=await _circle(parts, own, names),
    )


async def _ended(parts: Parts, task: str) -> AgentLifecycle | None:
    """Return the lifecycle of a task if it ended, nobody runs it, and it is not complete."""
    with suppress(RecordDamagedError):
        record = await parts.bases.of_task(task)
        if record is not None and not is_done(record.work) and task not in parts.running():
            return record if ended(record) is not None else None
    return None


async def _verdict(parts: Parts, head: str) -> tuple[str, str]:
    if parts.ci is None:
        return "", ""
    try:
        verdict = await parts.ci.verdict(head)
    except ProviderError as error:
        return "pending", f"CI cannot be asked: {error}"
    return str(verdict.status), verdict.summary


async def _circle(parts: Parts, task_id: str, blocked_on: tuple[str, ...]) -> tuple[str, ...]:
    """Return the shortest way over others that wait, from a task back to itself."""
    came = dict.fromkeys(blocked_on, task_id)
    for name in (ways := list(blocked_on)):
        if name == task_id:
            path = [name, came[name]]
            while path[-1] != task_id:
                path.append(came[path[-1]])
            return tuple(reversed(path))
        if name in parts.completed:
            continue
        with suppress(RecordDamagedError):
            record = await parts.bases.of_task(name)
            for wanted in waits_for(record.work) if record is not None else ():
                if wanted not in came:
                    came[wanted] = name
                    ways.append(wanted)
    return ()


def _depends_on(case: Case) -> tuple[str, ...]:
    work: State | None = case.record.work
    inner = work.inner if isinstance(work, Suspended) else work
    return inner.tally.depends_on if inner is not None else ()
