"""Transcripts of budgets: checked before every attempt, and while one works."""

from __future__ import annotations

import pytest

from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine.states import (
    AttemptOutcome,
    BackingOff,
    Blocked,
    Capturing,
    Preparing,
    Reason,
    Rejected,
    Spawning,
    Stopping,
    Suspended,
    Wanted,
)
from runtime.agents.outcome import Ending
from tests.lifecycle.machine.attempting import due, over, started
from tests.lifecycle.machine.playbook import (
    BLOCKED,
    LOOK_INTO_BLOCK,
    PROCESS,
    backing_off,
    ended,
    play,
    queued,
    working,
)

OVER = "budget of the day: 3 of 3 attempts used"
DOOMED = on.AttemptDoomed(at=9, attempt=1, ended=Ending.BUDGET, text=OVER)
STOP = do.StopAgent(attempt=1, process=PROCESS)
SNAPSHOT = do.TakeSnapshot(spawn_id="a1", attempt=1)
TAKEN = on.SnapshotTaken(at=11, attempt=1, head="h1", tree="t1")


def test_no_first_attempt_where_a_budget_is_used_up() -> None:
    play(queued()).on(on.Admitted(at=1, over=OVER)).to(Rejected, reason=Reason.BUDGET, text=OVER)


def test_no_further_attempt_where_a_budget_is_used_up() -> None:
    transcript = play(backing_off(until=10))
    # Not before its instant: until then others may give back what they took.
    transcript.changes_nothing(on.Admitted(at=9, over=OVER))
    transcript.on(on.Admitted(at=10, over=OVER)).to(Rejected, reason=Reason.BUDGET, text=OVER)
    transcript.counts(retry_count=0, attempt=2)


def test_who_waits_for_others_is_not_stopped_by_a_budget() -> None:
    play(queued("T000")).changes_nothing(on.Admitted(at=1, over=OVER))


def test_an_attempt_that_uses_up_a_budget_is_ended_and_the_lifecycle_stops() -> None:
    (
        play(working())
        .on(DOOMED)
        .to(Stopping, outcome=AttemptOutcome(ended=Ending.BUDGET, text=OVER))
        .orders(STOP)
        .changes_nothing(DOOMED)
        .on(on.AgentStopped(at=10, attempt=1))
        .to(Capturing)
        .orders(SNAPSHOT)
        .on(TAKEN)
        .to(Rejected, reason=Reason.BUDGET, text=OVER)
        .counts(retry_count=0)
    )


def test_a_breakpoint_written_while_it_was_being_ended_for_its_budget_counts() -> None:
    (
        play(working())
        .on(DOOMED)
        .orders(STOP)
        .on(on.AgentStopped(at=10, attempt=1, word=BLOCKED))
        .to(Capturing, outcome=AttemptOutcome(ended=Ending.BREAKPOINT, word=BLOCKED))
        .orders(LOOK_INTO_BLOCK)
        .on(TAKEN)
        .to(Blocked)
        .orders(do.PublishBranch(head="h1"), do.LookAtBlockers(blocked_on=("T000",), head="h1"))
        .on(on.Unblocked(at=20))
        .on(on.Admitted(at=20, over=OVER))
        .to(Rejected, reason=Reason.BUDGET)
    )


def test_a_runner_that_ends_meanwhile_does_not_make_the_budget_forgotten() -> None:
    (
        play(working())
        .on(DOOMED)
        .orders(STOP)
        .on(on.RunnerRestarted(at=10, attempt=1))
        .to(Capturing)
        .orders(SNAPSHOT)
        .on(TAKEN)
        .to(Rejected, reason=Reason.BUDGET)
    )


def test_a_budget_of_the_programs_own_stops_it_too() -> None:
    own = on.AgentReport(ended=Ending.BUDGET, detail="its own limit of $5.00 is reached")
    over(started(due()), own, at=5).to(Rejected, reason=Reason.BUDGET).says("$5.00")
    play(ended(Ending.BUDGET)).on(TAKEN).to(Rejected, text="budget")


@pytest.mark.parametrize("spawned", [0, 1])
def test_it_goes_on_where_the_budget_was_raised(spawned: int) -> None:
    stopped = Rejected(
        reason=Reason.BUDGET, text=OVER, tally=backing_off(spawn_count=spawned).tally
    )
    transcript = play(stopped).on(on.ResumeRequested(at=20, by="ada"))
    transcript.to(BackingOff, until=20, prepare=not spawned).on(on.Admitted(at=20))
    if spawned:
        transcript.to(Spawning).orders(do.SpawnAgent(attempt=2))
    else:
        transcript.to(Preparing).orders(do.PrepareWorkspace(attempt=2))


def test_it_stops_again_where_the_budget_was_not_raised() -> None:
    stopped = Rejected(reason=Reason.BUDGET, text=OVER, tally=backing_off().tally)
    play(stopped).on(on.ResumeRequested(at=20)).on(on.Admitted(at=20, over=OVER)).to(
        Rejected, reason=Reason.BUDGET, text=OVER
    )


def test_a_pause_does_not_hide_that_a_budget_is_used_up() -> None:
    play(ended(Ending.BUDGET, OVER, tally={"wanted": Wanted.PAUSE})).on(TAKEN).to(
        Rejected, reason=Reason.BUDGET, text=OVER
    ).counts(wanted=Wanted.NOTHING)
    held = play(backing_off(until=10)).on(on.PauseRequested(at=5)).to(Suspended)
    held.changes_nothing(on.Admitted(at=10, over=OVER))


def test_a_budget_is_named_before_a_limit_of_attempts_or_a_rest() -> None:
    late = backing_off(until=10, attempt=9, spawn_count=8)
    play(late, max_attempts=8).on(on.Admitted(at=10, over=OVER)).to(Rejected, reason=Reason.BUDGET)
