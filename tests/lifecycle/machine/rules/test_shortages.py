"""A machine that is short of something is waited for, however often: nothing is given up."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine.states import (
    BackingOff,
    Capturing,
    Preparing,
    Rejected,
    Spawning,
    State,
    Verifying,
)
from tests.lifecycle.machine.playbook import DONE, capturing, play, preparing, spawning, verifying

if TYPE_CHECKING:
    from lifecycle.machine.events import Event

SHORT = on.Fault.SHORTAGE
TEXT = "this machine is short of file descriptors"
OFTEN = 50

STARTS: list[tuple[State, type[State], Event]] = [
    (preparing(), Preparing, on.WorkspaceFailed(at=0, attempt=1, text=TEXT, fault=SHORT)),
    (spawning(), Spawning, on.SpawnFailed(at=0, attempt=1, text=TEXT, fault=SHORT)),
    (capturing(DONE), Capturing, on.SnapshotFailed(at=0, attempt=1, text=TEXT, fault=SHORT)),
    (
        verifying(),
        Verifying,
        on.GatesFinished(at=0, attempt=1, gates=(), problem=TEXT, fault=SHORT),
    ),
]


def _next_try(state: State) -> tuple[float, Event]:
    """Return when it is tried again, and the fact that has it tried then."""
    if isinstance(state, BackingOff):
        return state.until, on.Admitted(at=state.until)
    assert isinstance(state, (Capturing, Verifying))
    assert state.again_at is not None
    return state.again_at, on.DeadlinePassed(at=state.again_at)


@pytest.mark.parametrize(("state", "kind", "refused"), STARTS)
def test_nothing_is_given_up_for_a_shortage_and_the_waits_grow_up_to_their_cap(
    state: State, kind: type[State], refused: Event
) -> None:
    transcript = play(state, max_faults=0, retry_interval=30, retry_interval_cap=600)
    now, waits = 10.0, []
    for _ in range(OFTEN):
        transcript.on(replace(refused, at=now))
        until, again = _next_try(transcript.state)
        waits.append(until - now)
        now = until
        transcript.on(again).to(kind).orders(*transcript.given)
    assert waits[0] == 30
    assert waits[1] > 30
    assert max(waits) <= 600
    assert min(waits[10:]) > 300
    assert transcript.state.tally.faults == 0
    assert transcript.state.tally.retry_count == 0


def test_a_start_that_succeeds_forgets_the_shortages_before_it() -> None:
    ready = on.WorkspaceReady(at=3, attempt=1, branch="agent/a", base_commit="b0")
    play(preparing(shortages=4, faults=1)).on(ready).to(Spawning).orders(
        do.SpawnAgent(attempt=1)
    ).counts(shortages=0, faults=0)


def test_a_shortage_does_not_help_a_failing_disk_over_its_limit() -> None:
    full = on.SpawnFailed(at=2, attempt=1, text="disk full", fault=on.Fault.ENVIRONMENT)
    (
        play(spawning(faults=1, shortages=9), max_faults=1)
        .on(full)
        .to(Rejected)
        .says("2 times in a row the environment failed: disk full")
    )
