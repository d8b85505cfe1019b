"""Which lifecycles only a person can move on, what that person is asked, and what they type.

Also why what they asked for is not done.

Pure: reads a state and what is known beside it. Decides nothing about lifecycles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.machine import events as on
from lifecycle.machine.rules.blocks import names_ci, open_words, tasks_of
from lifecycle.machine.states import (
    ACTIVE,
    About,
    AwaitingHuman,
    Blocked,
    Stopping,
    Suspended,
    Wanted,
    Working,
)
from lifecycle.state_words import NEEDS_YOU, commands_for, word_for

if TYPE_CHECKING:
    from collections.abc import Collection

    from lifecycle.machine.states import State

UNDECIDED = ("", "pending")
"""Verdicts of CI that are still to come."""
_WORDS = 300
_NEEDS: dict[type[on.PersonEvent], str] = {
    on.Answered: "only an open question or a blocker can be answered",
    on.Unblocked: "only one that is blocked, or waits for a merge, a task or a person, can be",
    on.AcceptRequested: "only completed work can be accepted",
    on.ResumeRequested: "there is nothing to resume",
    on.Guided: "it is over, and no attempt follows",
    on.RejectRequested: "accepted work is merged already; revert the merge with git",
    on.PauseRequested: "there is nothing to pause",
    on.StopRequested: "there is nothing to stop",
    on.SummaryApproved: "no summary of it waits for approval",
}
"""What a request needs that the lifecycle does not have; a test names all of them."""
_REPEATABLE = (on.AcceptRequested, on.RejectRequested)
"""Requests whose sender has what they want when nothing is left to do."""


def only_a_person(
    state: State, *, running: Collection[str], completed: Collection[str], has_ci: bool
) -> bool:
    """Tell whether nothing but a person moves it on.

    `running` are the tasks that somebody works on here. What a person paused is not meant: it waits
    because they want that.
    """
    match state:
        case AwaitingHuman():
            return True
        case Blocked(word=word):
            if any(name in running for name in word.blocked_on):
                return False
            if any(name not in completed for name in tasks_of(state)):
                return True
            words = open_words(state)
            if not words:
                return False  # it continues as soon as that is noticed
            awaited = has_ci and state.head and state.ci in UNDECIDED
            return not (awaited and all(map(names_ci, words)))
        case _:
            return False


def asked(state: State) -> str:
    """Return what a person is asked, in the words of who asks."""
    match state:
        case AwaitingHuman(text=text):
            said = text
        case Blocked(word=word):
            said = ": ".join(filter(None, (", ".join(word.blocked_on), word.reason)))
            said = f"blocked on {said or 'something it did not name'}"
        case Suspended(inner=inner):
            return asked(inner)
        case _:
            return ""
    flat = " ".join(said.split())
    return flat if len(flat) <= _WORDS else flat[: _WORDS - 3] + "..."


def ways(agent_id: str, state: State) -> str:
    """Return what to type so that it continues."""
    match state:
        case AwaitingHuman(about=about):
            commands = commands_for(about)
        case Blocked():
            commands = commands_for(About.BLOCKED_TIMEOUT)
        case Suspended():
            commands = ("resume {}",)
        case _:
            return ""
    told = " or ".join(f"`loopwright {command.format(agent_id)}`" for command in commands)
    # Whatever reports events can end a block, too.
    return f"{told}, or notify() the loop" if isinstance(state, Blocked) else told


def refusal(agent_id: str, state: State, event: on.PersonEvent, why: str = "") -> str:
    """Say why a request is not possible: where the lifecycle stands, and what was needed."""
    return f"{agent_id} {stands(state)}; {why or _NEEDS[type(event)]}"


def in_vain(agent_id: str, state: State, event: on.PersonEvent) -> str:
    """Say why a request that changes nothing is refused; nothing where it may be repeated."""
    if isinstance(event, _REPEATABLE):
        return ""
    if not isinstance(event, (on.PauseRequested, on.StopRequested)):
        return refusal(agent_id, state, event)
    if isinstance(state, Suspended) or (isinstance(state, Working) and state.frozen):
        again = f"continue with: loopwright resume {agent_id}"
        return f"{agent_id} {stands(state)} already; {again}"
    if not isinstance(state, ACTIVE):
        return refusal(agent_id, state, event)
    tally = state.tally
    if isinstance(state, Stopping) and tally.wanted_stop:
        return f"{agent_id} {stands(state)} already"
    if tally.wanted is Wanted.REJECT:
        held = "rejected"
    else:
        held = "stopped" if tally.wanted_stop else "paused"
    return refusal(agent_id, state, event, f"it will be {held} after this attempt already")


def stands(state: State) -> str:
    """Return where a lifecycle stands, as the predicate of a sentence."""
    word = word_for(state)
    name = word if word == NEEDS_YOU else f"is {word}"
    attempt = f" (attempt {state.tally.attempt})" if isinstance(state, ACTIVE) else ""
    about = f" ({state.about})" if isinstance(state, AwaitingHuman) else ""
    return f"{name}{attempt}{about}"
