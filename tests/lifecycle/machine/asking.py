"""What people ask for, and the states they may find."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine.states import (
    About,
)
from tests.lifecycle.machine.playbook import (
    PROCESS,
    awaiting,
    backing_off,
    blocked,
    capturing,
    pr_pending,
    preparing,
    queued,
    spawning,
    stopping,
    verifying,
    working,
)

if TYPE_CHECKING:
    from lifecycle.machine.states import State

PAUSE = on.PauseRequested(at=20, by="ada")
FREEZE = on.PauseRequested(at=20, by="ada", now=True)
STOP = on.StopRequested(at=20, by="ada")
HOLD = on.StopRequested(at=20, by="ada", pause=True)
RESUME = on.ResumeRequested(at=30, by="ada")
REJECT = on.RejectRequested(at=20, by="ada", why="wrong way")
GUIDE = on.Guided(at=20, by="ada", text="mind the edges")
UNBLOCK = on.Unblocked(at=20, by="ada", note="key is there")
REMOVE = do.RemoveWorkspace()
KILL = do.StopAgent(attempt=1, process=PROCESS)

WAITING = [
    queued("T000"),
    blocked(),
    pr_pending(),
    backing_off(),
    awaiting(About.QUESTION, until=50),
]
NOT_YET_STARTED = [preparing(), spawning()]
ALIVE = [working()]
ENDING = [stopping(), capturing(), verifying()]
UNDER_WAY = [*NOT_YET_STARTED, *ALIVE, *ENDING]


def name(state: State) -> str:
    return type(state).__name__


def each(states: list[State]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("state", states, ids=name)
