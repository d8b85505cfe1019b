"""Whole attempts in one line, for transcripts of many in a row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine.states import BackingOff, Capturing, Signal, Spawning, Working
from runtime.agents.outcome import Ending
from tests.lifecycle.machine.playbook import PROCESS, backing_off, play

if TYPE_CHECKING:
    from typing import Any

    from tests.lifecycle.machine.playbook import Play

CRASHES = on.AgentReport(ended=Ending.CRASH, detail="cut off")
LIMITED = on.AgentReport(ended=Ending.RATE_LIMIT, detail="no more for now")
TROUBLED = on.AgentReport(ended=Ending.OVERLOADED, detail="529")
BROKEN = on.AgentReport(ended=Ending.AUTH, detail="not signed in", advice="Log in.")
UNFIT = on.AgentReport(ended=Ending.ENVIRONMENT, detail="no space left")
NOT_RUN = on.AgentReport(ended=Ending.ENVIRONMENT, detail="exit code 127: it could not be run")


def limited_until(reset_at: float) -> on.AgentReport:
    return on.AgentReport(ended=Ending.RATE_LIMIT, detail="no more for now", reset_at=reset_at)


def due(at: float = 0, **numbers: Any) -> Play:
    """Begin where the second attempt may start, on a tree that is known."""
    return play(backing_off(until=at, tree="t1"), **numbers)


def started(transcript: Play, *, at: float | None = None) -> Play:
    """Start the next attempt, as soon as it may or at that instant."""
    state = transcript.state
    assert isinstance(state, BackingOff)
    now, attempt = state.until if at is None else at, state.tally.attempt
    return (
        transcript.on(on.Admitted(at=now))
        .to(Spawning)
        .orders(do.SpawnAgent(attempt=attempt))
        .on(on.AgentSpawned(at=now, attempt=attempt, process=PROCESS))
        .to(Working)
    )


def over(transcript: Play, how: on.AgentReport | Signal, *, at: float, tree: str = "t1") -> Play:
    """End the attempt that works, and capture it."""
    attempt = transcript.state.tally.attempt
    word, report = (how, None) if isinstance(how, Signal) else (None, how)
    blocked_on = word.blocked_on if word is not None and word.type == "blocked" else ()
    return (
        transcript.on(on.AgentExited(at=at, attempt=attempt, exit_code=1, word=word, report=report))
        .to(Capturing)
        .orders(do.TakeSnapshot(spawn_id="a1", attempt=attempt, blocked_on=blocked_on))
        .on(on.SnapshotTaken(at=at, attempt=attempt, head="h1", tree=tree))
    )


def whole(
    transcript: Play, how: on.AgentReport | Signal, *, at: float | None = None, tree: str = "t1"
) -> Play:
    """Start the next attempt, end it at the same instant, and capture it."""
    state = transcript.state
    assert isinstance(state, BackingOff)
    now = state.until if at is None else at
    return over(started(transcript, at=now), how, at=now, tree=tree)


def until(transcript: Play) -> float:
    """Return the instant that is waited for."""
    state = transcript.state
    assert isinstance(state, BackingOff)
    return state.until
