"""Transcripts of pause, resume and stop."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine.states import (
    About,
    AttemptOutcome,
    AwaitingHuman,
    BackingOff,
    Blocked,
    Capturing,
    Gate,
    Preparing,
    PrPending,
    Reason,
    Rejected,
    Spawning,
    Stopping,
    Suspended,
    Verifying,
    Wanted,
    Working,
)
from lifecycle.machine.table import rule_name
from runtime.agents.outcome import Ending
from tests.lifecycle.machine.playbook import (
    PROCESS,
    awaiting,
    backing_off,
    blocked,
    completed,
    play,
    pr_pending,
    preparing,
    queued,
    spawning,
    stopping,
    suspended,
    verifying,
    working,
)

if TYPE_CHECKING:
    from lifecycle.machine.states import State

from tests.lifecycle.machine.asking import (
    ENDING,
    FREEZE,
    HOLD,
    KILL,
    NOT_YET_STARTED,
    PAUSE,
    REJECT,
    REMOVE,
    RESUME,
    STOP,
    UNBLOCK,
    UNDER_WAY,
    WAITING,
    each,
)

# --- pause and resume -------------------------------------------------------------------------


@each(WAITING)
def test_a_pause_holds_a_wait_at_once_and_resume_lets_it_go_on(state: State) -> None:
    play(state).on(PAUSE).to(Suspended, inner=state, since=20).changes_nothing(PAUSE).on(RESUME).to(
        type(state)
    )
    play(state).on(STOP).to(Suspended, inner=state, since=20)


@each([blocked(), pr_pending(), backing_off(100), awaiting(About.QUESTION, until=100)])
def test_the_clocks_stand_still_while_it_is_paused(state: State) -> None:
    play(state).on(PAUSE).to(Suspended).on(RESUME).to(type(state), until=110)


def test_a_wait_without_a_deadline_has_none_after_the_pause() -> None:
    play(suspended(awaiting(About.REVIEW))).on(RESUME).to(AwaitingHuman, until=None)


def test_while_it_is_paused_no_deadline_passes_and_no_place_is_taken() -> None:
    (
        play(suspended(blocked()))
        .changes_nothing(on.DeadlinePassed(at=1000))
        .changes_nothing(on.Admitted(at=1000))
    )


def test_what_happens_while_it_is_paused_is_not_lost() -> None:
    (
        play(suspended(blocked(ci="pending"), since=10))
        .on(on.DependencySettled(at=15, task_id="T000", done=True))
        .to(Suspended)
        .orders(do.LookAtBlockers(blocked_on=("T000",), head="h1"))
        .changes_nothing(on.CiReported(at=16, type="build_success", green=True, sha="h0"))
        .on(on.BlockersLooked(at=17, done=("T000",)))
        .to(Suspended, since=10)
        .on(RESUME)
        .to(BackingOff, until=30)
        .says("unblocked: T000 completed")
    )


@pytest.mark.parametrize("answered_at", [20, 1000, 5000])
def test_an_answer_during_a_pause_starts_the_next_attempt_as_soon_as_it_ends(
    answered_at: float,
) -> None:
    (
        play(suspended(awaiting(About.QUESTION, until=500), since=10))
        .on(on.Answered(at=answered_at, text="8080"))
        .to(Suspended, since=10)
        .on(on.ResumeRequested(at=6000))
        .to(BackingOff, until=6000)
    )


def test_a_failure_during_a_pause_waits_its_full_time_after_it() -> None:
    closed = on.PullRequestMoved(at=1000, fate=on.PrFate.CLOSED, number=1)
    (
        play(suspended(pr_pending(), since=10), retry_interval=30)
        .on(closed)
        .to(Suspended)
        .on(on.ResumeRequested(at=2000))
        .to(BackingOff, until=2030)
    )


def test_the_last_retry_may_be_used_up_during_a_pause() -> None:
    closed = on.PullRequestMoved(at=1000, fate=on.PrFate.CLOSED, number=1)
    play(suspended(pr_pending()), max_retries=0).on(closed).to(Rejected, reason=Reason.MAX_RETRIES)


def test_the_journal_names_the_rule_inside_a_pause() -> None:
    assert rule_name(suspended(blocked()), UNBLOCK) == "unblock"
    assert rule_name(suspended(blocked()), on.Admitted(at=1)) == "late"
    assert rule_name(suspended(blocked()), RESUME) == "resume"
    assert rule_name(working(attempt=2), on.AgentExited(at=1, attempt=1)) == "late"
    assert rule_name(working(attempt=2), on.AgentExited(at=1, attempt=2)) == "exited"


@each(UNDER_WAY)
def test_a_pause_lets_the_attempt_end(state: State) -> None:
    (
        play(state)
        .on(PAUSE)
        .to(type(state))
        .counts(wanted=Wanted.PAUSE, wanted_by="ada")
        .changes_nothing(PAUSE)
        .on(RESUME)
        .to(type(state))
        .counts(wanted=Wanted.NOTHING, wanted_by="")
        .changes_nothing(RESUME)
    )


def test_resume_cuts_a_wait_short() -> None:
    play(backing_off(100)).on(RESUME).to(BackingOff, until=30).changes_nothing(RESUME)


@each([queued(), blocked(), pr_pending(), completed()])
def test_resume_of_what_is_not_paused_does_no_harm(state: State) -> None:
    play(state).changes_nothing(RESUME)


# --- stop -------------------------------------------------------------------------------------


def test_stop_ends_the_agent_and_costs_nothing() -> None:
    (
        play(working(retry_count=1))
        .on(STOP)
        .to(Stopping, outcome=AttemptOutcome(ended=Ending.INTERRUPTED, text="stopped by ada"))
        .orders(KILL)
        .on(on.AgentStopped(at=21, attempt=1, signal=15))
        .to(Capturing)
        .orders(do.TakeSnapshot(spawn_id="a1", attempt=1))
        .on(on.SnapshotTaken(at=22, attempt=1))
        .to(BackingOff, until=22)
        .says("stopped by ada")
        .counts(attempt=1, retry_count=1, interruptions=1)
    )


def test_stop_with_pause_holds_the_attempt_after_it() -> None:
    (
        play(working())
        .on(HOLD)
        .to(Stopping)
        .orders(KILL)
        .on(on.AgentStopped(at=21, attempt=1, signal=15))
        .to(Capturing)
        .orders(do.TakeSnapshot(spawn_id="a1", attempt=1))
        .on(on.SnapshotTaken(at=22, attempt=1))
        .to(Suspended, since=22)
    )


@each(NOT_YET_STARTED)
def test_stop_ends_an_attempt_as_soon_as_it_can_be_ended(state: State) -> None:
    play(state).on(STOP).to(type(state)).counts(wanted=Wanted.STOP).changes_nothing(STOP)


def test_a_process_that_is_no_longer_wanted_is_ended_at_once() -> None:
    for asked in (STOP, HOLD, REJECT):
        (
            play(spawning())
            .on(asked)
            .to(Spawning)
            .on(on.AgentSpawned(at=21, attempt=1, process=PROCESS))
            .to(Stopping, outcome=AttemptOutcome(ended=Ending.INTERRUPTED, text="stopped by ada"))
            .orders(KILL)
            .counts(spawn_count=1)
        )


def test_an_attempt_stopped_before_it_began_is_not_begun() -> None:
    ready = on.WorkspaceReady(at=21, attempt=1, branch="agent/a", base_commit="b0")
    play(preparing()).on(STOP).to(Preparing).on(ready).to(BackingOff, until=21).says("interrupted")
    play(preparing()).on(PAUSE).to(Preparing).on(ready).to(Suspended)
    play(preparing()).on(REJECT).to(Preparing).on(ready).to(Rejected).orders(REMOVE)


@each(ENDING)
def test_what_has_ended_needs_no_stop_but_the_next_attempt_can_be_held(state: State) -> None:
    play(state).changes_nothing(STOP).on(HOLD).to(type(state)).counts(wanted=Wanted.PAUSE)


@each(NOT_YET_STARTED)
@pytest.mark.parametrize("asked", [(STOP, PAUSE), (PAUSE, STOP), (STOP, HOLD), (PAUSE, HOLD)])
def test_neither_a_stop_nor_a_pause_makes_the_other_forgotten(
    state: State, asked: tuple[on.PersonEvent, ...]
) -> None:
    transcript = play(state)
    for event in asked:
        transcript.on(event).to(type(state))
    transcript.counts(wanted=Wanted.HOLD, wanted_by="ada").changes_nothing(STOP).changes_nothing(
        PAUSE
    )


def test_a_pause_is_heard_while_a_stop_is_carried_out() -> None:
    play(stopping(wanted=Wanted.STOP)).on(PAUSE).to(Stopping).counts(
        wanted=Wanted.HOLD, wanted_by="ada"
    )
    play(stopping(wanted=Wanted.STOP)).on(HOLD).to(Stopping).counts(
        wanted=Wanted.HOLD, wanted_by="ada"
    )


def test_resume_takes_back_the_pause_but_not_the_stop() -> None:
    play(spawning()).on(HOLD).to(Spawning).on(RESUME).to(Spawning).counts(
        wanted=Wanted.STOP
    ).changes_nothing(RESUME)


@pytest.mark.parametrize("wanted", [Wanted.PAUSE, Wanted.HOLD])
def test_a_pause_holds_what_could_not_be_started(wanted: Wanted) -> None:
    full = on.SpawnFailed(at=21, attempt=1, text="no memory", fault=on.Fault.ENVIRONMENT)
    play(spawning(wanted=wanted)).on(full).to(Suspended, since=21)
    no_disk = on.WorkspaceFailed(at=21, attempt=1, text="disk full", fault=on.Fault.ENVIRONMENT)
    play(preparing(wanted=wanted)).on(no_disk).to(Suspended, since=21)


@pytest.mark.parametrize("wanted", [Wanted.STOP, Wanted.HOLD, Wanted.REJECT])
def test_a_lost_spawn_that_nobody_wants_any_more_is_not_ordered_again(wanted: Wanted) -> None:
    (
        play(spawning(wanted=wanted))
        .on(on.RunnerRestarted(at=21, attempt=1))
        .to(
            Capturing,
            outcome=AttemptOutcome(ended=Ending.INTERRUPTED, text="stopped by a person"),
        )
        .orders(do.TakeSnapshot(spawn_id="a1", attempt=1))
        .counts(spawn_count=0)
    )


def test_the_same_pull_request_wait_goes_on_after_a_pause() -> None:
    (
        play(suspended(pr_pending(number=None), since=10))
        .on(on.PullRequestOpened(at=15, number=1, url="local://pr/1"))
        .to(Suspended, since=10)
        .orders(do.LookAtPullRequest(number=1))
        .on(RESUME)
        .to(PrPending, number=1, until=120)
    )


def test_a_blocked_wait_that_was_given_up_can_be_paused_too() -> None:
    (
        play(suspended(awaiting(About.BLOCKED_TIMEOUT, blocked_on=("T000",))))
        .on(RESUME)
        .to(AwaitingHuman)
        .on(RESUME)
        .to(Blocked)
        .orders(do.LookAtBlockers(blocked_on=("T000",), head=""))
    )


def test_a_pause_before_the_process_lives_does_not_end_it() -> None:
    (
        play(spawning())
        .on(PAUSE)
        .to(Spawning)
        .on(on.AgentSpawned(at=21, attempt=1, process=PROCESS))
        .to(Working)
        .counts(wanted=Wanted.PAUSE)
    )


def test_a_process_is_frozen_once_and_thawed_once() -> None:
    (
        play(working())
        .on(FREEZE)
        .to(Working, frozen=True)
        .counts(wanted=Wanted.PAUSE)
        .orders(do.FreezeAgent(attempt=1))
        .changes_nothing(FREEZE)
        .on(RESUME)
        .to(Working, frozen=False)
        .counts(wanted=Wanted.NOTHING)
        .orders(do.ThawAgent(attempt=1))
        .changes_nothing(RESUME)
    )


def test_a_pause_can_be_sharpened_to_a_freeze() -> None:
    play(working()).on(PAUSE).to(Working, frozen=False).on(FREEZE).to(Working, frozen=True).orders(
        do.FreezeAgent(attempt=1)
    )


def test_a_process_that_could_not_be_frozen_works_on_and_the_next_attempt_is_held() -> None:
    (
        play(working())
        .on(FREEZE)
        .orders(do.FreezeAgent(attempt=1))
        .on(on.FreezeFailed(at=21, attempt=1, text="it forks too fast"))
        .to(Working, frozen=False)
        .counts(wanted=Wanted.PAUSE)
    )


def test_a_frozen_process_is_ended_like_any_other() -> None:
    play(working(frozen=True)).on(STOP).to(Stopping).orders(KILL)


@pytest.mark.parametrize(("asked", "stopped"), [(PAUSE, False), (HOLD, True)])
def test_what_is_held_knows_whether_a_pause_or_a_stop_holds_it(
    asked: on.PersonEvent, *, stopped: bool
) -> None:
    for wait in (queued(), blocked(), pr_pending(), awaiting(About.QUESTION)):
        play(wait).on(asked).to(Suspended, stopped=stopped)
    full = on.SpawnFailed(at=21, attempt=1, text="no memory", fault=on.Fault.ENVIRONMENT)
    play(spawning()).on(asked).to(Spawning).on(full).to(Suspended, stopped=stopped)
    gone = on.GatesFinished(at=21, attempt=1, gates=(Gate(command="make", ok=False, code=1),))
    play(verifying()).on(asked).to(Verifying).on(gone).to(Suspended, stopped=stopped)


def test_the_end_of_the_runner_makes_no_stop_of_a_pause() -> None:
    ends = on.StopRequested(at=21, by="shutdown")
    full = on.SpawnFailed(at=22, attempt=1, text="no memory", fault=on.Fault.ENVIRONMENT)
    (
        play(spawning())
        .on(PAUSE)
        .to(Spawning)
        .on(ends)
        .to(Spawning)
        .counts(wanted=Wanted.HOLD)
        .on(full)
        .to(Suspended, stopped=False)
    )


# --- pauses that end by themselves ------------------------------------------------------------

TURN = on.TurnPassed(at=40)
FOR_TWO = on.PauseRequested(at=20, by="ada", turns=2)


@each(WAITING)
def test_a_pause_for_turns_ends_with_the_last_of_them(state: State) -> None:
    held = play(state).on(FOR_TWO).to(Suspended, since=20).counts(pause_turns=2)
    held.on(TURN).to(Suspended, since=20).counts(pause_turns=1)
    held.on(TURN).to(type(state)).counts(pause_turns=0)


def test_the_turns_of_a_pause_pass_also_while_its_attempt_works() -> None:
    asked = play(working()).on(FOR_TWO).to(Working).counts(wanted=Wanted.PAUSE, pause_turns=2)
    asked.on(TURN).to(Working).counts(wanted=Wanted.PAUSE, pause_turns=1)
    asked.on(TURN).to(Working).counts(wanted=Wanted.NOTHING, pause_turns=0)


@each(UNDER_WAY)
def test_what_holds_an_attempt_for_turns_is_forgotten_with_the_last_of_them(state: State) -> None:
    once = on.PauseRequested(at=20, by="ada", turns=1)
    play(state).on(once).on(TURN).to(type(state)).counts(wanted=Wanted.NOTHING, pause_turns=0)


def test_a_frozen_process_goes_on_with_the_last_turn_of_its_pause() -> None:
    freeze = on.PauseRequested(at=20, by="ada", turns=1, now=True)
    held = play(working()).on(freeze).orders(do.FreezeAgent(attempt=1))
    held.on(TURN).to(Working, frozen=False).orders(do.ThawAgent(attempt=1))


@pytest.mark.parametrize("asked", [PAUSE, HOLD])
def test_no_turn_ends_a_stop_or_a_pause_without_turns(asked: on.PersonEvent) -> None:
    play(suspended(blocked())).changes_nothing(TURN)
    play(blocked()).on(asked).to(Suspended).changes_nothing(TURN)
    play(blocked()).changes_nothing(TURN)


def test_a_stop_while_a_pause_for_turns_is_asked_for_takes_its_turns_away() -> None:
    play(spawning()).on(FOR_TWO).on(HOLD).to(Spawning).counts(pause_turns=0, wanted=Wanted.HOLD)
    play(working()).on(FOR_TWO).on(HOLD).to(Stopping).orders(KILL).counts(pause_turns=0)


def test_turns_of_an_earlier_pause_are_forgotten_with_it() -> None:
    play(blocked()).on(FOR_TWO).on(RESUME).to(Blocked).on(PAUSE).to(Suspended).changes_nothing(TURN)


def test_the_end_of_the_runner_keeps_the_turns_of_a_pause() -> None:
    ends = on.StopRequested(at=21, by="shutdown")
    play(spawning()).on(FOR_TWO).on(ends).counts(pause_turns=2, wanted=Wanted.HOLD)


def test_what_is_heard_during_a_pause_keeps_its_turns() -> None:
    held = play(suspended(awaiting(About.QUESTION))).on(RESUME).on(FOR_TWO)
    held.on(on.Answered(at=25, text="8080")).to(Suspended).counts(pause_turns=2)
    held.on(TURN).to(Suspended).on(TURN).to(BackingOff)
