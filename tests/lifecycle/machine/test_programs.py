"""Transcripts of chains: who takes the next attempt when a program is limited or broken."""

from __future__ import annotations

import pytest

from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine.states import (
    About,
    AwaitingHuman,
    BackingOff,
    Preparing,
    Reason,
    Rejected,
    Spawning,
    State,
    Suspended,
    UnavailableProgram,
    Working,
)
from runtime.agents.outcome import Ending
from tests.lifecycle.machine.attempting import (
    BROKEN,
    CRASHES,
    LIMITED,
    NOT_RUN,
    TROUBLED,
    UNFIT,
    due,
    limited_until,
    over,
    started,
    until,
    whole,
)
from tests.lifecycle.machine.playbook import (
    awaiting,
    backing_off,
    blocked,
    play,
    pr_pending,
    preparing,
    queued,
    spawning,
    suspended,
    verifying,
    working,
)

AB = ("a", "b")
LIMITS = (UnavailableProgram(program="a", why="limit", until=500.0),)
MISSING = on.SpawnFailed(at=9, attempt=1, text="no such program: a", fault=on.Fault.USER)
RESUME = on.ResumeRequested(at=60, by="ada")


@pytest.mark.parametrize(
    "report", [LIMITED, TROUBLED, BROKEN, NOT_RUN], ids=lambda each: str(each.ended)
)
def test_the_next_takes_over_at_once_from_one_that_cannot_work(report: on.AgentReport) -> None:
    transcript = started(due(programs=AB)).counts(program="a")
    over(transcript, report, at=5).to(BackingOff, until=5, fixed=False).counts(retry_count=0)
    started(transcript).counts(program="b", attempt=3)


def test_a_task_that_goes_badly_changes_no_program() -> None:
    transcript = whole(due(programs=AB), CRASHES).to(BackingOff)
    started(transcript).counts(program="a")


def test_the_first_returns_when_its_limit_ended() -> None:
    transcript = whole(due(programs=AB, retry_interval=10), limited_until(500.0))
    whole(transcript, CRASHES).counts(program="b")
    assert until(transcript) < 500
    whole(transcript, CRASHES, at=499.0).counts(program="b")
    started(transcript, at=600.0).counts(program="a", resting=())


def test_where_all_are_limited_the_soonest_is_waited_for() -> None:
    transcript = whole(due(programs=("a", "b", "c")), limited_until(900.0))
    whole(transcript, limited_until(300.0)).counts(program="b")
    whole(transcript, limited_until(600.0)).counts(program="c", limits=3)
    transcript.to(BackingOff, fixed=True)
    assert 330 <= until(transcript) <= 360
    started(transcript).counts(program="b")


def test_one_limited_far_beyond_all_patience_stops_nothing_while_another_comes_back() -> None:
    week = 7 * 86_400.0
    transcript = whole(due(programs=AB, limit_patience=week), limited_until(5000.0))
    whole(transcript, limited_until(4 * week)).to(BackingOff, fixed=True)
    started(transcript).counts(program="a")


def test_a_limit_that_ended_while_another_worked_is_not_waited_for() -> None:
    transcript = whole(due(programs=AB), limited_until(500.0))
    over(started(transcript), limited_until(90_000.0), at=8000.0).to(BackingOff, until=8000.0)
    started(transcript).counts(program="a")


def test_one_broken_and_one_limited_waits_for_the_limit() -> None:
    transcript = whole(due(programs=AB), BROKEN).counts(program="a")
    whole(transcript, limited_until(500.0)).to(BackingOff, fixed=True)
    assert 530 <= until(transcript) <= 560
    started(transcript).counts(program="b")
    over(transcript, BROKEN, at=600.0).to(Rejected, reason=Reason.ERROR)


def test_one_limited_and_then_the_other_broken_waits_for_the_limit() -> None:
    transcript = whole(due(programs=AB), limited_until(500.0))
    whole(transcript, BROKEN).to(BackingOff, fixed=True).says("auth: not signed in. Log in.")
    started(transcript).counts(program="a")


def test_where_all_are_broken_it_stops_with_all_reasons() -> None:
    transcript = whole(due(programs=AB), BROKEN)
    billing = on.AgentReport(ended=Ending.BILLING, detail="no credit", advice="Add some.")
    (
        whole(transcript, billing)
        .to(Rejected, reason=Reason.ERROR)
        .says("a: auth: not signed in. Log in.; b: billing: no credit. Add some.")
        .on(RESUME)
        .to(BackingOff)
        .counts(resting=())
    )
    started(transcript).counts(program="a")


def test_a_chain_of_one_is_as_one_without() -> None:
    whole(due(programs=("a",)), BROKEN).to(Rejected, text="auth: not signed in. Log in.")


def test_a_program_that_is_missing_is_done_without() -> None:
    (
        play(spawning(program="a"), programs=AB, review_summaries=True)
        .on(MISSING)
        .to(BackingOff, until=9, approved=True)
        .counts(attempt=1, spawn_count=0, retry_count=0)
        .on(on.Admitted(at=9))
        .to(Spawning)
        .orders(do.SpawnAgent(attempt=1))
        .counts(program="b")
    )


def test_where_no_program_is_there_it_stops() -> None:
    (
        play(spawning(program="a"), programs=AB)
        .on(MISSING)
        .on(on.Admitted(at=9))
        .orders(do.SpawnAgent(attempt=1))
        .on(on.SpawnFailed(at=9, attempt=1, text="no such program: b", fault=on.Fault.USER))
        .to(Rejected, reason=Reason.ERROR)
        .says("a: no such program: a; b: no such program: b")
    )


def test_trouble_of_one_provider_without_end_stops_nothing_while_another_can_work() -> None:
    transcript = whole(due(programs=AB, max_troubles=0), TROUBLED).to(BackingOff, until=0)
    whole(transcript, TROUBLED).to(Rejected, reason=Reason.ENVIRONMENT)


def test_trouble_stops_nothing_where_the_rest_of_another_is_over_meanwhile() -> None:
    transcript = whole(due(programs=AB, max_troubles=0), limited_until(500.0))
    over(started(transcript), TROUBLED, at=8000.0).to(BackingOff, until=8000.0)
    started(transcript).counts(program="a")


def test_a_summary_that_was_approved_stays_so_while_its_program_rests() -> None:
    approved = backing_off(until=10, approved=True)
    transcript = play(approved, programs=("a",), review_summaries=True)
    transcript.on(on.Admitted(at=10, resting=LIMITS)).to(BackingOff, until=500, approved=True)
    started(transcript)


def test_an_attempt_that_is_held_for_its_review_may_get_another_program() -> None:
    (
        play(backing_off(until=10), programs=AB, review_summaries=True)
        .on(on.Admitted(at=10))
        .to(AwaitingHuman, about=About.REVIEW)
        .counts(program="a")
        .on(on.SummaryApproved(at=20))
        .on(on.Admitted(at=20, resting=LIMITS))
        .to(Spawning)
        .orders(do.SpawnAgent(attempt=2))
        .counts(program="b")
    )


# --- not fit to run it ------------------------------------------------------------------------


def test_one_that_could_not_be_run_is_tried_again_when_its_wait_is_over() -> None:
    transcript = whole(due(programs=AB, retry_interval=30), NOT_RUN)
    over(started(transcript, at=0), CRASHES, at=20).counts(program="b", retry_count=1, unfit=0)
    started(transcript, at=50).counts(program="a", resting=())


def test_where_none_could_be_run_the_soonest_is_waited_for_longer_each_time() -> None:
    transcript = due(programs=AB, retry_interval=30)
    whole(transcript, NOT_RUN).to(BackingOff, until=0)
    whole(transcript, NOT_RUN).to(BackingOff, until=30).counts(program="b", unfit=2, retry_count=0)
    whole(transcript, NOT_RUN).counts(program="a")
    assert 30 + 15 <= until(transcript) <= 30 + 45
    whole(transcript, NOT_RUN).counts(program="b", unfit=4)


def test_where_none_could_be_run_too_often_it_stops_with_all_reasons() -> None:
    transcript = whole(whole(due(programs=AB, max_faults=2), NOT_RUN), NOT_RUN)
    whole(transcript, NOT_RUN).to(BackingOff).counts(program="a", unfit=3)
    (
        whole(transcript, UNFIT)
        .to(Rejected, reason=Reason.ENVIRONMENT)
        .says("4 times in a row the environment failed: a: environment: exit code 127")
        .says("b: environment: no space left")
        .on(on.ResumeRequested(at=9999))
        .to(BackingOff)
        .counts(resting=(), unfit=0)
    )


def test_one_that_could_never_be_run_does_not_end_the_wait_for_one_that_is_limited() -> None:
    transcript = whole(due(programs=AB, max_faults=1), limited_until(90_000.0))
    whole(transcript, NOT_RUN).to(BackingOff).counts(program="b")
    whole(transcript, NOT_RUN).to(BackingOff, fixed=True).counts(program="b", unfit=2)
    assert until(transcript) >= 90_000
    started(transcript).counts(program="a")


def test_without_another_program_the_machine_is_waited_for_without_a_rest() -> None:
    for programs in ((), ("a",)):
        transcript = whole(due(programs=programs, retry_interval=30), NOT_RUN)
        transcript.to(BackingOff, until=30, fixed=False).counts(resting=(), unfit=1)


# --- the board --------------------------------------------------------------------------------


def test_what_others_found_limited_is_not_tried() -> None:
    (
        play(backing_off(until=10))
        .on(on.Admitted(at=10, resting=(UnavailableProgram(program="", why="limit", until=500.0),)))
        .to(BackingOff, until=500, fixed=True, why="limit")
        .counts(retry_count=0, limits=0)
    )
    started(play(backing_off(until=500, tree="t1"))).counts(resting=())


def test_what_others_found_limited_is_not_tried_by_the_first_attempt_either() -> None:
    (
        play(queued(), programs=AB)
        .on(on.Admitted(at=1, resting=LIMITS))
        .to(Preparing)
        .orders(do.PrepareWorkspace(attempt=1))
        .on(on.WorkspaceReady(at=2, attempt=1, branch="agent/a", base_commit="b0"))
        .to(Spawning)
        .orders(do.SpawnAgent(attempt=1))
        .counts(program="b")
    )
    (
        play(preparing(resting=LIMITS), programs=("a",))
        .on(on.WorkspaceReady(at=2, attempt=1, branch="agent/a", base_commit="b0"))
        .to(BackingOff, until=500, fixed=True)
    )


@pytest.mark.parametrize(("told", "kept"), [(300.0, 500.0), (500.0, 500.0), (900.0, 900.0)])
def test_what_others_say_makes_no_rest_shorter(told: float, kept: float) -> None:
    known = backing_off(until=10, resting=LIMITS)
    others = (UnavailableProgram(program="a", why="others", until=told),)
    (
        play(known, programs=("a",))
        .on(on.Admitted(at=10, resting=others))
        .to(BackingOff, until=kept, fixed=True)
    )


def test_what_is_broken_stays_so_whatever_others_say() -> None:
    broken = UnavailableProgram(program="a", why="no credit")
    (
        play(backing_off(until=10, resting=(broken,)), programs=("a",))
        .on(on.Admitted(at=10, resting=LIMITS))
        .to(Rejected, reason=Reason.ERROR, text="no credit")
        .counts(resting=(broken,))
    )


def test_a_pause_meanwhile_holds_what_has_to_rest() -> None:
    (
        play(preparing(resting=LIMITS), programs=("a",))
        .on(on.PauseRequested(at=1))
        .on(on.WorkspaceReady(at=2, attempt=1, branch="agent/a", base_commit="b0"))
        .to(Suspended)
    )


# --- a person fixed it ------------------------------------------------------------------------

BROKE = (UnavailableProgram(program="a", why="no credit"),)


@pytest.mark.parametrize(
    "state",
    [
        working(resting=BROKE),
        verifying(resting=BROKE),
        blocked(resting=BROKE),
        pr_pending(resting=BROKE),
        backing_off(until=10, resting=BROKE),
        awaiting(About.QUESTION, tally={"resting": BROKE}),
    ],
    ids=lambda state: type(state).__name__,
)
def test_the_first_is_tried_again_when_a_person_says_that_it_is_fixed(state: State) -> None:
    play(state, programs=AB).on(RESUME).to(type(state)).counts(resting=()).changes_nothing(RESUME)


@pytest.mark.parametrize("about", [About.BLOCKED_TIMEOUT, About.PR_TIMEOUT, About.NO_PROGRESS])
def test_to_take_up_again_what_was_given_up_tries_all_programs(about: About) -> None:
    transcript = play(awaiting(about, tally={"resting": BROKE}), programs=AB).on(RESUME)
    transcript.counts(resting=())
    transcript.orders(*transcript.given)


def test_the_end_of_a_pause_says_nothing_about_limits() -> None:
    held = suspended(backing_off(until=10, resting=BROKE))
    play(held, programs=AB).on(RESUME).to(BackingOff).counts(resting=BROKE)


def test_a_pause_taken_back_says_nothing_about_limits() -> None:
    asked = play(working(resting=BROKE), programs=AB).on(on.PauseRequested(at=5, by="ada"))
    asked.on(RESUME).to(Working).counts(resting=BROKE)
