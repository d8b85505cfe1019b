"""Which lifecycles only a person can move on, what that person is asked, and what they type.

Pure: reads a state and what is known beside it. Decides nothing about lifecycles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.machine.rules.blocks import names_ci, open_words, tasks_of
from lifecycle.machine.states import About, AwaitingHuman, Blocked, Suspended
from lifecycle.state_words import commands_for

if TYPE_CHECKING:
    from collections.abc import Collection

    from lifecycle.machine.states import State

UNDECIDED = ("", "pending")
"""Verdicts of CI that are still to come."""
_WORDS = 300


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
