"""Transcripts of the second opinion: what a reviewer says, and what is none of its approval."""

from __future__ import annotations

from typing import Any

import pytest

from lifecycle.json_form import decode, encode
from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine.opinion import MISSING, OUTSIDE, Finding, Opinion
from lifecycle.machine.states import (
    About,
    AttemptOutcome,
    AwaitingHuman,
    BackingOff,
    Completed,
    Gate,
    PrPending,
    Rejected,
    Spawning,
    State,
    Suspended,
    Verifying,
    Wanted,
)
from runtime.agents.outcome import Ending
from tests.lifecycle.machine.asking import GUIDE, REJECT, RESUME, UNBLOCK
from tests.lifecycle.machine.playbook import (
    DONE,
    PR,
    Play,
    capturing,
    completed,
    play,
    reviewing,
    verifying,
)

REVIEW = do.RunReview(attempt=1, head="h1")
PUBLISH = do.PublishBranch(head="h1")
MAJOR = Finding(severity="major", text="it divides by zero", file="a.py", line=3)
MINOR = Finding(severity="minor", text="a typing error", file="a.py", line=1)


def said(*findings: Finding, head: str = "h1", at: float = 12) -> on.ReviewFinished:
    opinion = Opinion(by="codex", head=head, approves=not findings, findings=findings)
    return on.ReviewFinished(at=at, attempt=1, opinion=opinion)


def failed(ended: Ending, text: str = "", at: float = 12, **more: Any) -> on.ReviewFinished:
    outcome = AttemptOutcome(ended=ended, text=text, **more)
    return on.ReviewFinished(at=at, attempt=1, outcome=outcome)


def reviewed(*findings: Finding, **numbers: Any) -> Play:
    return play(reviewing(), reviews=True, **numbers).on(said(*findings))


def test_green_work_is_reviewed_before_it_counts_as_done() -> None:
    gates = (Gate(command="pytest -q", ok=True),)
    (
        play(verifying(), reviews=True, has_gates=True)
        .on(on.GatesFinished(at=11, attempt=1, gates=gates, flagged=("test_a.py",)))
        .to(Verifying)
        .orders(REVIEW)
        .counts(attempt=1)
        .on(said())
        .to(Completed, head="h1", passed=("pytest -q",), flagged=("test_a.py",))
        .orders(PUBLISH)
        .counts(attempt=2, reviews=1)
    )


def test_red_work_is_not_reviewed() -> None:
    gates = (Gate(command="pytest -q", ok=False, code=1),)
    red = on.GatesFinished(at=11, attempt=1, gates=gates)
    play(verifying(), reviews=True, has_gates=True).on(red).to(BackingOff, verify=None)


def test_work_without_gates_is_reviewed_all_the_same() -> None:
    taken = on.SnapshotTaken(at=10, attempt=1, head="h1")
    play(capturing(DONE), reviews=True).on(taken).to(Verifying, head="h1").orders(REVIEW)


def test_a_pull_request_is_opened_once_its_commit_is_approved() -> None:
    taken = on.SnapshotTaken(at=10, attempt=1, head="h1")
    opens = do.OpenPullRequest(url="local://pr/1", summary="the fix")
    asked = play(capturing(PR), reviews=True, has_gates=True).on(taken).to(Verifying)
    asked.orders(REVIEW).on(said()).to(PrPending, head="h1").orders(PUBLISH, opens)
    refused = play(capturing(PR), reviews=True, review_rounds=0).on(taken).to(Verifying)
    refused.orders(REVIEW).on(said(MAJOR)).to(AwaitingHuman, about=About.OPINION)
    refused.on(UNBLOCK).to(PrPending).orders(PUBLISH, opens)


def test_work_is_done_without_a_reviewer_once_none_is_named_any_more() -> None:
    lost = on.ReviewFinished(at=12, attempt=1, problem="no reviewer is named")
    done = play(reviewing()).on(lost).to(Completed).orders(PUBLISH)
    assert "no reviewer is named any more" in done.state.notes[-1]  # type: ignore[attr-defined]


def test_findings_wake_a_fresh_attempt_that_costs_no_retry() -> None:
    (
        reviewed(MAJOR, MINOR)
        .to(BackingOff, until=12, verify=None)
        .says("the reviewer codex has 1 finding (major: it divides by zero)")
        .counts(attempt=2, retry_count=0, review_rounds=1)
        .on(on.Admitted(at=13))
        .to(Spawning)
        .orders(do.SpawnAgent(attempt=2))
    )


@pytest.mark.parametrize(
    ("severity", "follows"),
    [("minor", BackingOff), ("major", Completed), ("critical", Completed), ("note", BackingOff)],
)
def test_only_findings_of_the_chosen_severity_and_graver_ones_count(
    severity: str, follows: type[State]
) -> None:
    orders = (PUBLISH,) if follows is Completed else ()
    reviewed(MINOR, review_severity=severity).to(follows).orders(*orders)


def test_a_person_decides_once_the_rounds_are_used_up() -> None:
    (
        play(reviewing(review_rounds=2), reviews=True)
        .on(said(MAJOR))
        .to(AwaitingHuman, about=About.OPINION, head="h1", until=12 + 86_400)
        .says("after 2 attempts to resolve that (review_rounds = 2)")
        .counts(attempt=1)
    )


def test_without_a_round_a_person_decides_at_once() -> None:
    reviewed(MAJOR, review_rounds=0).to(AwaitingHuman, about=About.OPINION).says("1 finding")


def test_a_person_overrules_the_reviewer() -> None:
    transcript = reviewed(MAJOR, review_rounds=0).to(AwaitingHuman).on(UNBLOCK).to(Completed)
    transcript.orders(PUBLISH).counts(attempt=2, review_rounds=0)
    state = transcript.state
    assert isinstance(state, Completed)
    assert state.notes == (
        "mind this", "unblocked by ada: key is there, without the reviewer's approval",
    )  # fmt: skip
    assert (state.passed, state.flagged) == (("pytest -q",), ("test_a.py",))


def test_work_that_a_person_approves_during_a_pause_is_done() -> None:
    asked = reviewed(MAJOR, review_rounds=0).to(AwaitingHuman)
    paused = asked.on(on.PauseRequested(at=15)).to(Suspended)
    paused.on(UNBLOCK).to(Completed).orders(PUBLISH).counts(pause_turns=0)


def test_a_persons_guidance_goes_to_a_fresh_attempt_and_the_rounds_begin_anew() -> None:
    (
        play(reviewing(review_rounds=2), reviews=True)
        .on(said(MAJOR))
        .to(AwaitingHuman)
        .on(GUIDE)
        .to(BackingOff, verify=None)
        .counts(attempt=2, review_rounds=0)
        .on(on.Admitted(at=40))
        .to(Spawning)
        .orders(do.SpawnAgent(attempt=2))
    )


def test_a_person_has_the_reviewer_asked_again() -> None:
    asked = reviewed(MAJOR, review_rounds=0).to(AwaitingHuman).on(RESUME).to(BackingOff)
    asked.on(on.Admitted(at=40)).to(Verifying).orders(REVIEW).on(said(at=50)).to(Completed)
    asked.orders(PUBLISH)


def test_a_person_rejects_what_the_reviewer_did_not_approve() -> None:
    reviewed(MAJOR, review_rounds=0).to(AwaitingHuman).on(REJECT).to(Rejected).orders(
        do.RemoveWorkspace()
    )


def test_the_wait_for_a_decision_ends_the_loop_and_the_decision_still_counts() -> None:
    (
        reviewed(MAJOR, review_rounds=0)
        .to(AwaitingHuman)
        .on(on.DeadlinePassed(at=12 + 86_400))
        .to(AwaitingHuman, about=About.OPINION, until=None)
        .on(UNBLOCK)
        .to(Completed)
        .orders(PUBLISH)
    )


@pytest.mark.parametrize(
    "ended", [Ending.CRASH, Ending.TIMEOUT, Ending.HANG, Ending.INVALID_BREAKPOINT, Ending.ERROR]
)
def test_a_reviewer_that_fails_is_asked_again_and_then_a_person_is(ended: Ending) -> None:
    transcript = play(reviewing(), reviews=True)
    for nth in (1, 2):
        transcript.on(failed(ended, "no answer")).to(BackingOff).counts(review_failures=nth)
        transcript.on(on.Admitted(at=9_000, over="budget of the day: 3 of 3 attempts used"))
        transcript.to(Verifying).orders(REVIEW)
    transcript.on(failed(ended, "no answer", at=9_001)).to(AwaitingHuman, about=About.OPINION)
    transcript.says(f"3 times in a row the second opinion failed ({ended}): no answer")
    transcript.counts(attempt=1, retry_count=0)


def test_a_usage_limit_of_the_reviewer_is_waited_for_and_costs_nothing() -> None:
    limited = failed(Ending.QUOTA, "come back later", reset_at=5_000.0)
    transcript = play(reviewing(), reviews=True, limit_margin=0).on(limited)
    transcript.to(BackingOff, until=5_000.0, fixed=True).says("come back later")
    transcript.counts(retry_count=0, review_failures=0, review_rounds=0, attempt=1)
    transcript.changes_nothing(on.Admitted(at=4_000))
    transcript.on(on.Admitted(at=5_000)).to(Verifying).orders(REVIEW)
    transcript.on(said(at=5_100)).to(Completed).orders(PUBLISH).counts(limits=0)


def test_a_usage_limit_beyond_all_patience_goes_to_a_person() -> None:
    limited = failed(Ending.QUOTA, reset_at=9_999.0)
    transcript = play(reviewing(), reviews=True, limit_patience=60.0).on(limited)
    transcript.to(AwaitingHuman, about=About.OPINION).says("limit_patience")


def test_trouble_of_the_provider_is_tried_again_so_often() -> None:
    transcript = play(reviewing(), reviews=True, max_troubles=1).on(failed(Ending.OVERLOADED))
    transcript.to(BackingOff).on(on.Admitted(at=9_000)).to(Verifying).orders(REVIEW)
    transcript.on(failed(Ending.NETWORK, at=9_001)).to(AwaitingHuman, about=About.OPINION)


@pytest.mark.parametrize("ended", [Ending.AUTH, Ending.BILLING, Ending.BUDGET])
def test_what_only_a_person_can_fix_goes_to_a_person_at_once(ended: Ending) -> None:
    transcript = play(reviewing(), reviews=True).on(failed(ended, "no", advice="Log in."))
    transcript.to(AwaitingHuman, about=About.OPINION).says("no. Log in.")


def test_a_reviewer_that_cannot_be_started_waits_for_the_machine_but_not_for_the_user() -> None:
    lost = on.ReviewFinished(at=12, attempt=1, problem="no memory", fault=on.Fault.SHORTAGE)
    play(reviewing(), reviews=True).on(lost).to(BackingOff).counts(shortages=1, reviews=0)
    unknown = on.ReviewFinished(at=12, attempt=1, problem="no such program", fault=on.Fault.USER)
    asked = play(reviewing(), reviews=True).on(unknown).to(AwaitingHuman, about=About.OPINION)
    asked.says("no such program")


def test_a_machine_that_stays_unfit_goes_to_a_person() -> None:
    unfit = on.ReviewFinished(at=12, attempt=1, problem="git fails")
    asked = play(reviewing(faults=10), reviews=True).on(unfit).to(AwaitingHuman)
    asked.says("11 times the second opinion could not be asked for: git fails").counts(faults=0)


def test_an_answer_about_another_commit_is_none() -> None:
    transcript = play(reviewing(), reviews=True).on(said(head="h0")).to(BackingOff)
    transcript.says("about another commit").counts(review_failures=1)


def test_findings_that_point_at_nothing_are_neither_findings_nor_approval() -> None:
    lie = Finding(severity="critical", text="look there", file="b.py", line=900, place=MISSING)
    reviewed(lie).to(BackingOff).says("do not exist").counts(review_failures=1, review_rounds=0)
    reviewed(lie, MAJOR).to(BackingOff, verify=None).counts(review_rounds=1)


def test_findings_beside_the_change_count() -> None:
    beside = Finding(severity="major", text="its caller breaks", file="c.py", place=OUTSIDE)
    reviewed(beside).to(BackingOff, verify=None).counts(review_rounds=1)


def test_a_rejection_meanwhile_ends_it_whatever_the_reviewer_says() -> None:
    state = reviewing(wanted=Wanted.REJECT, wanted_by="ada")
    play(state, reviews=True).on(said()).to(Rejected).orders(do.RemoveWorkspace())


def test_a_pause_meanwhile_holds_what_follows_of_findings() -> None:
    state = reviewing(wanted=Wanted.PAUSE, wanted_by="ada")
    play(state, reviews=True).on(said(MAJOR)).to(Suspended)


def test_an_answer_that_nobody_asked_for_moves_nothing() -> None:
    play(verifying(), reviews=True).changes_nothing(said())


def test_completed_work_that_a_person_sends_back_has_all_its_rounds() -> None:
    state = completed()
    play(state).on(GUIDE).to(BackingOff).counts(review_rounds=0)


def test_what_a_reviewer_said_survives_a_restart() -> None:
    waiting = reviewed(MAJOR, review_rounds=0).to(AwaitingHuman).state
    assert decode(State, encode(waiting)) == waiting
    fact = said(MAJOR, MINOR)
    assert decode(on.Event, encode(fact)) == fact
    assert decode(do.Effect, encode(REVIEW)) == REVIEW
