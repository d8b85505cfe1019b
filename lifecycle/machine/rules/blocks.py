"""Rules of the waits of blocked attempts: for tasks, and for what is named in free words. Pure.

A task is cleared by its completion, a free word by CI or by what the library's caller hands in, and
all of it by a person. What is cleared stays cleared; the next attempt starts when nothing is open.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeVar

from lifecycle.machine import effects as do
from lifecycle.machine.states import (
    About,
    AwaitingHuman,
    BackingOff,
    Blocked,
    Queued,
    Signal,
    State,
    Suspended,
    Tally,
)
from lifecycle.machine.step import Step, land
from lifecycle.machine.values import changed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from lifecycle.machine import events as on
    from lifecycle.machine.policy import Policy

B = TypeVar("B", Blocked, AwaitingHuman)

DECIDED = ("green", "red")
BUILDS = ("build_success", "build_failure", "pr_checks_passed", "pr_checks_failed")
"""Reports that judge one commit."""
UNNAMED = ""
"""Instead of a free word where the agent names nothing: CI is meant."""
_CI = re.compile(r"(?<![^\W_])(?:ci|builds?|checks?|tests?|pipelines?)(?![^\W_])", re.IGNORECASE)


# --- what is waited for -----------------------------------------------------------------------


def names_ci(word: str) -> bool:
    """Tell whether a free word is about CI."""
    return word == UNNAMED or _CI.search(word) is not None


def free_words(blocked_on: tuple[str, ...], tasks: Collection[str]) -> tuple[str, ...]:
    """Return those that are not tasks."""
    return tuple(name for name in blocked_on or (UNNAMED,) if name not in tasks)


def open_words(state: Blocked | AwaitingHuman) -> tuple[str, ...]:
    """Return the free words that nothing cleared yet."""
    words = free_words(_blocked_on(state), state.tally.depends_on)
    return tuple(word for word in words if word not in state.cleared)


def waits_for_ci(state: Blocked) -> bool:
    """Tell whether a verdict on the branch's head would clear something."""
    return any(names_ci(word) for word in open_words(state))


def tasks_of(state: Blocked | AwaitingHuman) -> tuple[str, ...]:
    """Return the tasks that are waited for."""
    return tuple(name for name in _blocked_on(state) if name in state.tally.depends_on)


def _blocked_on(state: Blocked | AwaitingHuman) -> tuple[str, ...]:
    """Return all that is waited for, cleared or not."""
    return state.word.blocked_on if isinstance(state, Blocked) else state.blocked_on


def waits_for(state: State | None) -> tuple[str, ...]:
    """Return the tasks, or words, without which a lifecycle does not continue by itself."""
    match state:
        case Queued(waiting_on=names) | AwaitingHuman(blocked_on=names):
            return names
        case Blocked(word=word):
            return word.blocked_on
        case Suspended(inner=inner):
            return waits_for(inner)
        case _:
            return ()


def cleared_by_report(event: on.FromCi, words: tuple[str, ...], head: str) -> tuple[str, ...]:
    """Return which of these words a report of CI clears.

    A build of a commit that was made before the block is news only to who waits for CI, and one of
    an older commit than the branch's head to nobody.
    """
    if event.handed:
        return words
    own = bool(event.sha) and event.sha == head
    if event.earlier and not own:
        return ()
    if own and event.type in BUILDS:
        return tuple(word for word in words if names_ci(word))
    return words


def cleared_by_look(
    event: on.BlockersLooked, before: str, words: tuple[str, ...]
) -> tuple[str, ...]:
    """Return which of these words a verdict on the branch's head clears.

    One that was there before the block (`before` is what the earlier check found) is not news.
    """
    if event.ci not in DECIDED or before in ("", *DECIDED):
        return ()
    return tuple(word for word in words if names_ci(word))


# --- the block begins -------------------------------------------------------------------------


def understood(tally: Tally, word: Signal, event: on.SnapshotTaken) -> tuple[Tally, Signal]:
    """Return word and tally with the agent's blockers as the runner knows them."""
    names = event.blocked_on or word.blocked_on
    return depending(tally, event.tasks), changed(word, blocked_on=names)


def depending(tally: Tally, tasks: tuple[str, ...]) -> Tally:
    """Return the tally of who depends on these tasks, too."""
    known = tuple(dict.fromkeys((*tally.depends_on, *tasks)))
    return changed(tally, depends_on=known) if known != tally.depends_on else tally


def on_done_work(tally: Tally, word: Signal, event: on.SnapshotTaken) -> AwaitingHuman | None:
    """Wait for a person where all that is waited for is there, and the agent was told so."""
    names = word.blocked_on
    if not names or not set(names) <= set(event.joined):
        return None
    listed, are = ", ".join(names), "is" if len(names) == 1 else "are"
    because = f": {word.reason}" if word.reason else ""
    return AwaitingHuman(
        tally=changed(tally, blocked_on=listed),
        about=About.BLOCKED_TIMEOUT,
        text=f"it is blocked on {listed}, which {are} complete and part of its branch{because}",
        since=event.at,
        blocked_on=names,
        joined=names,
        reason=word.reason,
        head=event.head,
    )


def look(state: Blocked) -> do.LookAtBlockers:
    """Order a look at what is waited for."""
    return do.LookAtBlockers(blocked_on=state.word.blocked_on, head=state.head)


# --- what ends it -----------------------------------------------------------------------------


def blocker_settled(state: Blocked, event: on.DependencySettled, policy: Policy) -> Step:
    """Look at all blockers when one of them moved."""
    del policy
    if event.task_id not in state.word.blocked_on:
        return Step(state, late=True)
    # Also where it was no task when the block began: now it is known to be one.
    known = changed(state, tally=depending(state.tally, (event.task_id,)))
    return Step(known, (look(known),))


def looked(state: Blocked, event: on.BlockersLooked, policy: Policy) -> Step:
    """Continue when nothing is open; ask a person at once where time alone would change nothing."""
    del policy
    tasks = tuple(name for name in (*event.tasks, *event.done) if name in state.word.blocked_on)
    state = changed(state, tally=depending(state.tally, tasks))
    text = f"CI is {event.ci}. {event.text}".rstrip(". ")
    state = _heard(state, cleared_by_look(event, state.ci, open_words(state)), text)
    left = [name for name in tasks_of(state) if name not in event.done]
    if not left and not open_words(state):
        return _go_on(state, event.at, tasks_of(state))
    if event.circle:
        return Step(_in_circle(state, event))
    failed = tuple(name for name in event.failed if name in left)
    if failed:
        return Step(_in_vain(state, event, failed))
    # A look that could not tell must not wipe out that a verdict is awaited.
    return Step(changed(state, ci=event.ci or state.ci))


def ci_unblocks(state: Blocked, event: on.FromCi, policy: Policy) -> Step:
    """Note what CI cleared; let a fresh attempt see it once nothing else is open."""
    del policy
    # The tasks may be complete already.
    return _reported(state, event, lambda known: Step(known, (look(known),)))


def ci_came_late(state: AwaitingHuman, event: on.FromCi, policy: Policy) -> Step:
    """CI clears free words also after the time-out."""
    if state.about is not About.BLOCKED_TIMEOUT:
        return Step(state, late=True)
    return _reported(state, event, lambda known: wait_again(known, event.at, policy))


def _reported(state: B, event: on.FromCi, wait_for_tasks: Callable[[B], Step]) -> Step:
    cleared = cleared_by_report(event, open_words(state), state.head)
    if not cleared:
        return Step(state, late=True)
    state = _heard(state, cleared, _report(event))
    if open_words(state):
        return Step(state)
    return wait_for_tasks(state) if tasks_of(state) else _go_on(state, event.at, ())


def blocked_deadline(state: Blocked, event: on.DeadlinePassed, policy: Policy) -> Step:
    """Give the wait up to a person."""
    del policy
    if event.at < state.until:
        return Step(state, late=True)
    return Step(_for_a_person(state, event.at, state.word.reason or state.word.summary))


def wait_again(state: AwaitingHuman, at: float, policy: Policy) -> Step:
    """Wait once more for what was given up."""
    blocked = Blocked(
        tally=state.tally,
        since=at,
        until=at + policy.blocked_timeout,
        word=Signal(type="blocked", blocked_on=state.blocked_on, reason=_reason(state)),
        head=state.head,
        cleared=state.cleared,
        heard=state.heard,
    )
    return Step(blocked, (look(blocked),))


def _reason(state: AwaitingHuman) -> str:
    """Return the agent's words; what the runner found stands for that moment alone."""
    found = state.circle or state.failed or state.joined
    return state.reason if found else state.reason or state.text


def woken(state: State, at: float, why: str) -> Step:
    """Start the next attempt on top of the work it was blocked on, as far as that is complete."""
    join = bool(state.tally.depends_on)
    return land(BackingOff(tally=state.tally, until=at, why=why, prepare=join), at)


def _go_on(state: Blocked | AwaitingHuman, at: float, done: tuple[str, ...]) -> Step:
    completed = f"{', '.join(done)} completed" if done else ""
    return woken(state, at, f"unblocked: {'; '.join(filter(None, (completed, state.heard)))}")


def _heard(state: B, cleared: tuple[str, ...], text: str) -> B:
    if not cleared:
        return state
    heard = "; ".join(filter(None, (state.heard, text)))[:300]
    return changed(state, cleared=(*state.cleared, *cleared), heard=heard)


def _report(event: on.FromCi) -> str:
    return f"CI reports {event.type}. {event.text}".rstrip(". ")


def _in_circle(state: Blocked, event: on.BlockersLooked) -> AwaitingHuman:
    """Wait for a person: no time passes that could end this."""
    way = " -> ".join(event.circle)
    itself = len(set(event.circle)) == 1
    text = f"it waits for itself: {way}" if itself else f"it waits in a circle: {way}"
    return changed(_for_a_person(state, event.at, text), circle=event.circle)


def _in_vain(state: Blocked, event: on.BlockersLooked, failed: tuple[str, ...]) -> AwaitingHuman:
    """Wait for a person: what it waits for ended otherwise; a completion after all still counts."""
    why = f": {event.why}" if event.why else ""
    text = f"it is blocked on {', '.join(failed)}, which did not complete{why}"
    return changed(_for_a_person(state, event.at, text), failed=failed)


def _for_a_person(state: Blocked, at: float, text: str) -> AwaitingHuman:
    return AwaitingHuman(
        tally=state.tally,
        about=About.BLOCKED_TIMEOUT,
        text=text,
        since=at,
        blocked_on=state.word.blocked_on,
        reason=state.word.reason,
        head=state.head,
        cleared=state.cleared,
        heard=state.heard,
    )
