"""What lifecycles that depend on a task are told of it, and which of them wait for it.

Reads records and states; tells nobody itself and decides nothing about a lifecycle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.base_commits import is_done
from lifecycle.machine import events as on
from lifecycle.machine.states import About, AwaitingHuman, Blocked, Queued
from lifecycle.needs_person import only_a_person
from lifecycle.result import ended

if TYPE_CHECKING:
    from lifecycle.machine.events import Event
    from lifecycle.machine.states import State
    from lifecycle.record import AgentLifecycle
    from lifecycle.services import SharedServices


def settled(shared: SharedServices, record: AgentLifecycle, error: str | None = None) -> Event:
    """Return the fact for those that wait for this lifecycle's task."""
    return on.DependencySettled(
        at=shared.clock.now(),
        task_id=record.task_id,
        done=is_done(record.work),
        text=record.error or error or "its loop ended early",
    )


def goes_no_further(shared: SharedServices, record: AgentLifecycle) -> bool:
    """Tell whether a lifecycle that nobody runs ended, or does not continue in this call."""
    if ended(record) is not None:
        return True
    return (
        record.work is not None
        and not shared.settings().stay_for_people
        and only_a_person(
            record.work,
            running=shared.running.values(),
            completed=shared.completed,
            has_ci=shared.ci is not None,
        )
    )


async def known_ends(shared: SharedServices, state: State) -> list[Event]:
    """Return what became of the tasks that a new owner waits for, before it was there."""
    wanting: tuple[str, ...] = ()
    if isinstance(state, Queued):
        wanting = state.waiting_on
    elif isinstance(state, AwaitingHuman) and state.about is About.DEPENDENCY:
        wanting = state.blocked_on
    found: list[Event] = []
    for wanted in wanting:
        record = await shared.base_commits.of_task(wanted)
        if record is None or wanted in shared.running.values():
            continue
        if goes_no_further(shared, record):
            found.append(settled(shared, record))
    return found


def waited_for(state: State | None, task_id: str) -> bool:
    """Tell whether a lifecycle rests for want of this task, also where it was given up."""
    if isinstance(state, AwaitingHuman):
        given_up = state.about in (About.DEPENDENCY, About.BLOCKED_TIMEOUT)
        return given_up and task_id in state.blocked_on
    return isinstance(state, Blocked) and task_id in state.word.blocked_on
