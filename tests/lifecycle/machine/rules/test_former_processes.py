"""Transcripts of facts that come in another order, or of a process that another has replaced.

An attempt that was interrupted keeps its number, so its number does not tell its processes apart.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine.states import (
    AttemptOutcome,
    BackingOff,
    Capturing,
    Process,
    Spawning,
    State,
    Stopping,
    Suspended,
    Working,
)
from runtime.agents.outcome import Ending
from tests.lifecycle.machine.playbook import (
    DONE,
    PROCESS,
    capturing,
    play,
    preparing,
    spawning,
    stopping,
    working,
)

FORMER = Process(pid=40, start_time=6, boot_id="boot", spawn_id="a0")
SPAWNED = on.AgentSpawned(at=5, attempt=1, process=PROCESS)
SPOKE = on.BreakpointReached(at=5, attempt=1, word=DONE)
HUNG = on.LimitReached(at=5, attempt=1, idle=True, text="silent")
DOOMED = on.AttemptDoomed(at=5, attempt=1, ended=Ending.LOOP, text="5001 calls")
OF_A_PROCESS: tuple[on.AttemptEvent, ...] = (
    SPAWNED,
    SPOKE,
    HUNG,
    DOOMED,
    on.SpawnFailed(at=5, attempt=1, text="no memory", fault=on.Fault.ENVIRONMENT),
    on.MailboxInvalid(at=5, attempt=1, problem="torn"),
    on.AgentExited(at=5, attempt=1, word=DONE),
    on.FreezeFailed(at=5, attempt=1, text="forks"),
    on.AgentStopped(at=5, attempt=1),
    on.RunnerRestarted(at=5, attempt=1),
    on.SnapshotTaken(at=5, attempt=1, head="h1", tree="t1"),
    on.SnapshotFailed(at=5, attempt=1, text="disk full"),
)
SNAPSHOT = do.TakeSnapshot(attempt=1, spawn_id="a1")
STOP = do.StopAgent(attempt=1, process=PROCESS)


def former(event: on.AttemptEvent) -> on.AttemptEvent:
    if isinstance(event, on.AgentSpawned):
        return replace(event, process=FORMER)
    return replace(event, spawn_id=FORMER.spawn_id)


@pytest.mark.parametrize("event", OF_A_PROCESS)
@pytest.mark.parametrize(
    "state", [spawning(), working(), working(frozen=True), stopping(), capturing()]
)
def test_what_a_former_process_of_the_same_attempt_says_changes_nothing(
    state: State, event: on.AttemptEvent
) -> None:
    play(state).changes_nothing(former(event))


@pytest.mark.parametrize("event", OF_A_PROCESS)
def test_before_a_process_is_ordered_whatever_speaks_is_a_former_one(
    event: on.AttemptEvent,
) -> None:
    play(preparing()).changes_nothing(former(event))


def test_its_own_process_is_heard_and_so_is_one_of_which_only_the_number_is_known() -> None:
    for spawn_id in ("a1", ""):
        exited = on.AgentExited(at=5, attempt=1, spawn_id=spawn_id, exit_code=1)
        play(working()).on(exited).to(Capturing, spawn_id="a1").orders(SNAPSHOT)
    old = Capturing(tally=working().tally, outcome=AttemptOutcome(ended=Ending.CRASH))
    play(old).on(on.SnapshotTaken(at=5, attempt=1, spawn_id="a1")).to(BackingOff)


# --- before its start is told -----------------------------------------------------------------


def test_an_agent_that_is_over_before_its_start_is_told_counts_and_was_an_attempt() -> None:
    (
        play(spawning())
        .on(on.AgentExited(at=5, attempt=1, spawn_id="a1", exit_code=0, word=DONE))
        .to(Capturing, outcome=AttemptOutcome(ended=Ending.BREAKPOINT, word=DONE, exit_code=0))
        .orders(SNAPSHOT)
        .counts(spawn_count=1)
        .changes_nothing(SPAWNED)
    )


@pytest.mark.parametrize(
    ("event", "outcome"),
    [
        (SPOKE, AttemptOutcome(ended=Ending.BREAKPOINT, word=DONE)),
        (HUNG, AttemptOutcome(ended=Ending.HANG, text="silent")),
        (DOOMED, AttemptOutcome(ended=Ending.LOOP, text="5001 calls")),
    ],
)
def test_what_it_said_before_its_start_was_told_ends_it_then(
    event: on.AttemptEvent, outcome: AttemptOutcome
) -> None:
    held = play(spawning()).on(event).to(Spawning, ending=outcome)
    held.on(SPOKE).to(Spawning, ending=outcome)
    held.on(SPAWNED).to(Stopping, outcome=outcome).orders(STOP)

    ended = play(spawning()).on(event).on(on.AgentExited(at=6, attempt=1, exit_code=3))
    ended.to(Capturing, outcome=replace(outcome, exit_code=3)).orders(SNAPSHOT)

    lost = play(spawning()).on(event).on(on.RunnerRestarted(at=6, attempt=1))
    lost.to(Capturing, outcome=outcome).orders(SNAPSHOT).counts(spawn_count=1, interruptions=0)


def test_a_signal_that_cannot_be_read_is_kept_before_its_start_is_told() -> None:
    play(spawning()).on(on.MailboxInvalid(at=5, attempt=1, problem="torn")).to(Spawning)


# --- ended by its runner ----------------------------------------------------------------------


def test_what_its_runner_had_to_end_was_interrupted_and_costs_nothing() -> None:
    killed = on.AgentExited(at=5, attempt=1, signal=15, interrupted="the runner was shutting down")
    (
        play(working(retry_count=2))
        .on(killed)
        .to(Capturing)
        .orders(SNAPSHOT)
        .on(on.SnapshotTaken(at=6, attempt=1))
        .to(BackingOff, until=6, approved=True)
        .says("interrupted: the runner was shutting down")
        .counts(attempt=1, retry_count=2, interruptions=1)
    )
    said = replace(killed, word=DONE)
    play(working()).on(said).to(
        Capturing, outcome=AttemptOutcome(ended=Ending.BREAKPOINT, word=DONE, signal=15)
    ).orders(SNAPSHOT)


def test_who_stopped_it_before_its_start_was_told_is_named() -> None:
    stop = on.StopRequested(at=4, by="shutdown")
    interrupted = AttemptOutcome(ended=Ending.INTERRUPTED, text="stopped by shutdown")
    play(spawning()).on(stop).to(Spawning).on(SPAWNED).to(Stopping, outcome=interrupted).orders(
        STOP
    )
    hold = play(spawning()).on(replace(stop, pause=True)).on(SPAWNED).to(Stopping).orders(STOP)
    hold.on(on.AgentStopped(at=6, attempt=1)).orders(SNAPSHOT)
    hold.on(on.SnapshotTaken(at=7, attempt=1)).to(Suspended)


def test_a_second_process_of_an_attempt_works_on_whatever_comes_late_of_the_first() -> None:
    second = play(working()).on(on.RunnerRestarted(at=5, attempt=1, spawn_id="a1")).to(Capturing)
    second.orders(SNAPSHOT).on(on.SnapshotTaken(at=6, attempt=1, spawn_id="a1")).to(BackingOff)
    second.on(on.Admitted(at=6)).to(Spawning).orders(do.SpawnAgent(attempt=1))
    second.on(replace(SPAWNED, process=replace(PROCESS, pid=42, spawn_id="a2"))).to(Working)
    second.changes_nothing(on.AgentExited(at=7, attempt=1, spawn_id="a1", signal=9))
    second.changes_nothing(replace(SPOKE, spawn_id="a1"))
    second.changes_nothing(on.SnapshotTaken(at=7, attempt=1, spawn_id="a1"))
    second.on(on.AgentExited(at=8, attempt=1, spawn_id="a2", word=DONE)).to(Capturing)
    second.orders(do.TakeSnapshot(attempt=1, spawn_id="a2")).counts(attempt=1, interruptions=1)
