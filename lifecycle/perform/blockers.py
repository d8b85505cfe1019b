"""What a blocked agent waits for: which of it are tasks, what became of them, what CI says.

Only looks, in the plan, the store and the branches. What follows is the machine's business.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ci.errors import ProviderError
from lifecycle.base_commits import is_done
from lifecycle.machine import events as on
from lifecycle.machine.rules.blocks import free_words, names_ci, waits_for
from lifecycle.machine.states import Suspended
from lifecycle.plan import default_agent_id
from lifecycle.result import ended
from lifecycle.store.damaged_records import RecordDamagedError

if TYPE_CHECKING:
    from lifecycle.machine.effects import LookAtBlockers
    from lifecycle.machine.events import Event
    from lifecycle.machine.states import State
    from lifecycle.record import AgentLifecycle
    from lifecycle.services import MachineServices, SharedServices
    from lifecycle.working_copy import LocalCopy


class Named(NamedTuple):
    """What an agent says that it waits for, as the runner knows it."""

    blocked_on: tuple[str, ...] = ()
    """With tasks by their ids, also where it named their agents."""
    tasks: tuple[str, ...] = ()
    joined: tuple[str, ...] = ()
    """Tasks whose completed work its branch holds, as it was told already."""


async def named(
    machine: MachineServices, local: LocalCopy, names: tuple[str, ...], head: str
) -> Named:
    """Find out which of these names are tasks, and whether there is anything left to wait for."""
    shared = machine.shared
    known = {name: await _task(shared, local, name) for name in names}
    tasks = tuple(dict.fromkeys(filter(None, known.values())))
    told = {*local.task.dependencies, *_depends_on(local)}
    joined = [
        task
        for task in tasks
        if task in told and task in shared.completed and await _is_held(machine, local, task, head)
    ]
    return Named(tuple(dict.fromkeys(known[name] or name for name in names)), tasks, tuple(joined))


async def _task(shared: SharedServices, local: LocalCopy, name: str) -> str:
    """Return the task that a name means: its id, or its agent's; nothing for a free word."""
    if name in {local.record.task_id, local.agent_id}:
        return local.record.task_id
    if name in shared.plans or name in shared.completed:
        return name
    with suppress(RecordDamagedError):
        if task := await shared.base_commits.task_named(name):
            return task
    return next((task for task in shared.plans if default_agent_id(task) == name), "")


async def _is_held(machine: MachineServices, local: LocalCopy, task: str, head: str) -> bool:
    try:
        commit = await machine.shared.base_commits.work_of(
            task, str(local.record.facts.get("base_branch", ""))
        )
    except RecordDamagedError:
        return False
    return not commit or (bool(head) and await machine.branches.history.holds(head, commit))


async def look(shared: SharedServices, local: LocalCopy, order: LookAtBlockers) -> Event:
    """Look at all that is waited for."""
    names, own = order.blocked_on, local.record.task_id
    # Known without asking the store: hundreds may look, again and again.
    done = tuple(name for name in names if name in shared.completed)
    known = _depends_on(local)
    tasks = [name for name in names if name in known or await _task(shared, local, name) == name]
    failed: list[str] = []
    why = ""
    for name in tasks:
        record = await _ended(shared, name) if name not in (*done, own) else None
        if record is not None:
            failed.append(name)
            why = why or record.error or ""
    ci, text = "", ""
    if order.head and any(names_ci(word) for word in free_words(names, tasks)):
        ci, text = await _verdict(shared, order.head)
    return on.BlockersLooked(
        at=shared.clock.now(),
        done=done,
        tasks=tuple(tasks),
        failed=tuple(failed),
        why=why,
        ci=ci,
        text=text,
        circle=await _circle(shared, own, names),
    )


async def _ended(shared: SharedServices, task: str) -> AgentLifecycle | None:
    """Return the lifecycle of a task if it ended, nobody runs it, and it is not complete."""
    with suppress(RecordDamagedError):
        record = await shared.base_commits.of_task(task)
        if record is not None and not is_done(record.work) and task not in shared.running.values():
            return record if ended(record) is not None else None
    return None


async def _verdict(shared: SharedServices, head: str) -> tuple[str, str]:
    if shared.ci is None:
        return "", ""
    try:
        verdict = await shared.ci.verdict(head)
    except ProviderError as error:
        return "pending", f"CI cannot be asked: {error}"
    return str(verdict.status), verdict.summary


async def _circle(
    shared: SharedServices, task_id: str, blocked_on: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the shortest way over others that wait, from a task back to itself."""
    came = dict.fromkeys(blocked_on, task_id)
    for name in (ways := list(blocked_on)):
        if name == task_id:
            path = [name, came[name]]
            while path[-1] != task_id:
                path.append(came[path[-1]])
            return tuple(reversed(path))
        if name in shared.completed:
            continue
        with suppress(RecordDamagedError):
            record = await shared.base_commits.of_task(name)
            for wanted in waits_for(record.work) if record is not None else ():
                if wanted not in came:
                    came[wanted] = name
                    ways.append(wanted)
    return ()


def _depends_on(local: LocalCopy) -> tuple[str, ...]:
    work: State | None = local.record.work
    inner = work.inner if isinstance(work, Suspended) else work
    return inner.tally.depends_on if inner is not None else ()
