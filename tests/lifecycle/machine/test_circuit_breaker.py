"""Transcripts of the breaker: when it opens, what closes it, and what never opens it."""

from __future__ import annotations

from typing import Any

import pytest

from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine.states import (
    About,
    AwaitingHuman,
    BackingOff,
    Blocked,
    Gate,
    PrPending,
    Reason,
    Rejected,
    Signal,
    Suspended,
    Verifying,
    Wanted,
)
from runtime.agents.outcome import Ending
from tests.lifecycle.machine.attempting import CRASHES, LIMITED, due, over, started, whole
from tests.lifecycle.machine.playbook import (
    BLOCKED,
    Play,
    awaiting,
    capturing,
    play,
    pr_pending,
    suspended,
    verifying,
)

TAKEN = on.SnapshotTaken(at=10, attempt=1, head="h1", tree="t1")
RED = (Gate(command="make test", ok=False, code=2),)
STUCK: dict[str, Any] = {"stuck": 2, "tree": "t1"}
PARK = (do.PublishBranch(head="h1"), do.LookAtBlockers(blocked_on=("T000",), head="h1"))


def failed(nth: int) -> on.AgentReport:
    return on.AgentReport(ended=Ending.ERROR, detail=f"for reason {nth}")


def open_breaker(transcript: Play) -> Play:
    return transcript.to(AwaitingHuman, about=About.NO_PROGRESS)


# --- what opens it ----------------------------------------------------------------------------


def test_attempts_that_change_nothing_and_say_nothing_open_it_with_the_evidence() -> None:
    transcript = due(stuck_limit=3, breaker_cooldown=3600)
    whole(transcript, CRASHES).to(BackingOff).counts(stuck=1)
    whole(transcript, CRASHES).to(BackingOff).counts(stuck=2)
    whole(transcript, CRASHES).to(AwaitingHuman, about=About.NO_PROGRESS).counts(
        stuck=3, trips=1, retry_count=3
    )
    transcript.says("3 attempts in a row changed nothing and said nothing new (tree t1)")
    transcript.says("the last: crash: cut off")
    state = transcript.state
    assert isinstance(state, AwaitingHuman)
    assert state.until == state.since + 3600


def test_different_failures_on_an_unchanged_tree_open_it() -> None:
    transcript = due(stuck_limit=3)
    for nth in range(3):
        whole(transcript, failed(nth))
    open_breaker(transcript).says("for reason 2")


def test_alike_failures_with_new_words_on_an_unchanged_tree_open_it() -> None:
    transcript = due(stuck_limit=3, has_gates=True)
    for nth in range(4):
        done = Signal(type="task_complete", summary=f"now it works, take {nth}")
        attempt = transcript.state.tally.attempt
        whole(transcript, done).to(Verifying).orders(do.RunGates(attempt=attempt, head="h1"))
        transcript.on(on.GatesFinished(at=1000.0 * attempt, attempt=attempt, gates=RED))
    open_breaker(transcript).says("the last: gate_failed: `make test` ended with code 2")


def test_to_block_again_and_again_on_the_same_opens_it() -> None:
    transcript = whole(due(stuck_limit=2), BLOCKED).to(Blocked).orders(*PARK)
    for nth in (1, 2):
        transcript.on(on.Unblocked(at=10 * nth, by="ada"))
        whole(transcript, BLOCKED).counts(retry_count=nth, stuck=nth)
        if nth == 1:
            transcript.to(Blocked).orders(*PARK)
    open_breaker(transcript).says("blocked once more on: T000")


def test_a_pull_request_of_nothing_that_stays_red_opens_it() -> None:
    red = on.PullRequestMoved(at=50, fate=on.PrFate.CHECKS_FAILED, number=1, text="unit is red")
    signature = "pr_checks_failed: unit is red"
    tally = STUCK | {"signature": signature, "said_new": True}
    open_breaker(play(pr_pending(**tally)).on(red)).counts(stuck=3, retry_count=1)
    unknown = on.PullRequestUnknown(at=50, text="there is none", fault=on.Fault.USER)
    open_breaker(play(pr_pending(number=None, **STUCK)).on(unknown))
    late = awaiting(About.PR_TIMEOUT, url="local://pr/1", tally=STUCK)
    closed = on.PullRequestMoved(at=50, fate=on.PrFate.CLOSED, number=1)
    open_breaker(play(late).on(closed))


def test_work_off_the_branch_opens_it() -> None:
    away = on.SnapshotTaken(at=10, attempt=1, tree="t1", elsewhere="branch other")
    done = Signal(type="task_complete")
    open_breaker(play(capturing(done, **STUCK, said="task_complete  ")).on(away))


def test_retries_that_are_used_up_come_before_it() -> None:
    play(capturing(Ending.CRASH, **STUCK, retry_count=5), max_retries=5).on(TAKEN).to(
        Rejected, reason=Reason.MAX_RETRIES
    )


# --- no false trips ---------------------------------------------------------------------------


def test_a_changed_tree_is_progress() -> None:
    before: dict[str, Any] = {"stuck": 2, "trips": 1, "tree": "t0"}
    alike = capturing(Ending.CRASH, signature="crash: the agent crash", **before)
    play(alike).on(TAKEN).to(BackingOff).counts(stuck=0, trips=0)


def test_a_commit_is_progress_even_if_the_tree_is_as_it_was() -> None:
    committed = on.SnapshotTaken(at=10, attempt=1, tree="t1", commits=1)
    play(capturing(Ending.CRASH, **STUCK)).on(committed).to(BackingOff).counts(stuck=0)


def test_files_left_uncommitted_by_the_first_attempt_are_progress() -> None:
    dirty = on.SnapshotTaken(at=10, attempt=1, tree="t1", dirty=("a.py",))
    play(capturing(Ending.CRASH), stuck_limit=1).on(dirty).to(BackingOff).counts(stuck=0)
    open_breaker(play(capturing(Ending.CRASH), stuck_limit=1).on(TAKEN))


def test_without_a_known_tree_nobody_can_tell() -> None:
    nothing = on.SnapshotTaken(at=10, attempt=1)
    transcript = play(capturing(Ending.CRASH, stuck=7), stuck_limit=3).on(nothing)
    transcript.to(BackingOff).counts(stuck=8)


@pytest.mark.parametrize(
    "word",
    [
        Signal(type="question", question="which port?"),
        Signal(type="blocked", blocked_on=("T000",)),
        Signal(type="blocked", reason="no key"),
    ],
)
def test_to_say_something_new_is_progress(word: Signal) -> None:
    transcript = play(capturing(word, **STUCK, trips=1), stuck_limit=3).on(TAKEN)
    transcript.counts(stuck=0, trips=0).orders(*transcript.given)


def test_the_same_question_again_is_no_progress() -> None:
    asked = Signal(type="question", question="which port?")
    tally = STUCK | {"said": "question  which port?"}
    play(capturing(asked, **tally)).on(TAKEN).to(AwaitingHuman, about=About.QUESTION).counts(
        stuck=2
    )


def test_new_words_before_another_failure_are_progress() -> None:
    done = Signal(type="task_complete", summary="another way")
    dirty = on.SnapshotTaken(at=10, attempt=1, tree="t1", dirty=("a.py",))
    tally = STUCK | {"signature": "crash: cut off", "trips": 2}
    play(capturing(done, **tally)).on(dirty).to(BackingOff).counts(stuck=0, trips=0)


@pytest.mark.parametrize(
    "word",
    [
        Signal(type="question", question="which port?"),
        Signal(type="pr_created", pr_url="local://pr/1"),
    ],
)
def test_the_same_words_over_changed_work_are_progress(word: Signal) -> None:
    said = f"{word.type}  {word.question}"
    state = capturing(word, **STUCK | {"trips": 2, "said": said})
    changed = on.SnapshotTaken(at=10, attempt=1, head="h1", tree="t2")
    transcript = play(state).on(changed).counts(stuck=0, trips=0, said_new=False)
    transcript.orders(*transcript.given)


def test_blocked_on_the_same_with_new_words_is_progress_that_costs_a_retry() -> None:
    again = Signal(type="blocked", blocked_on=("T000",), reason="now it is the index")
    tally = STUCK | {"blocked_on": "T000", "said": "blocked T000 needs the schema"}
    play(capturing(again, **tally)).on(TAKEN).to(Blocked).orders(*PARK).counts(
        stuck=0, retry_count=1
    )


def test_a_pull_request_with_new_words_is_judged_by_what_becomes_of_it() -> None:
    word = Signal(type="pr_created", summary="fixed at last", pr_url="local://pr/1")
    transcript = play(capturing(word, **STUCK)).on(TAKEN).to(PrPending).counts(stuck=2)
    transcript.orders(*transcript.given)


def test_usage_limits_and_interruptions_are_no_attempts_without_progress() -> None:
    transcript = due(stuck_limit=2)
    whole(transcript, CRASHES).counts(stuck=1)
    for _ in range(4):
        whole(transcript, LIMITED).to(BackingOff).counts(stuck=1)
    play(capturing(Ending.INTERRUPTED, **STUCK)).on(TAKEN).to(BackingOff).counts(stuck=2)


# --- what closes it ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "event",
    [
        on.Guided(at=20, by="ada", text="look at the parser"),
        on.Answered(at=20, by="ada", text="8080"),
        on.Unblocked(at=20, by="ada"),
        on.ResumeRequested(at=20, by="ada"),
    ],
    ids=lambda event: type(event).__name__,
)
def test_a_person_has_it_try_once_more(event: on.PersonEvent) -> None:
    state = awaiting(About.NO_PROGRESS, until=3600.0, tally={"tree": "t1", "stuck": 3, "trips": 1})
    transcript = play(state, stuck_limit=3).on(event).to(BackingOff, until=20)
    transcript.says("ada").counts(stuck=2, trips=1)
    open_breaker(whole(transcript, CRASHES)).counts(trips=2)


def test_guidance_during_a_pause_is_heard_when_it_ends() -> None:
    held = suspended(awaiting(About.NO_PROGRESS, until=99.0, tally={"tree": "t1", "stuck": 3}))
    guided = on.Guided(at=20, by="ada", text="look at the parser")
    play(held).on(guided).to(Suspended).on(on.ResumeRequested(at=30)).to(BackingOff)


def test_after_the_cool_down_it_tries_once_and_waits_longer_when_that_failed() -> None:
    transcript = due(stuck_limit=2, breaker_cooldown=3600, breaker_cooldown_cap=4 * 3600)
    whole(transcript, CRASHES)
    whole(transcript, CRASHES)
    spans = []
    for trip in range(1, 6):
        open_breaker(transcript).counts(trips=trip)
        state = transcript.state
        assert isinstance(state, AwaitingHuman)
        assert state.until is not None
        spans.append(state.until - state.since)
        transcript.changes_nothing(on.DeadlinePassed(at=state.until - 1))
        transcript.on(on.DeadlinePassed(at=state.until)).to(BackingOff, until=state.until)
        whole(transcript, CRASHES)
    assert spans[0] == 3600
    assert 1.5 * 3600 <= spans[1] <= 2.5 * 3600
    assert all(2.4 * 3600 <= span <= 4 * 3600 for span in spans[2:])


def test_one_try_with_progress_closes_it() -> None:
    state = awaiting(About.NO_PROGRESS, until=50.0, tally={"tree": "t1", "stuck": 3, "trips": 4})
    transcript = play(state, stuck_limit=3).on(on.DeadlinePassed(at=50)).to(BackingOff)
    whole(transcript, CRASHES, tree="t2").to(BackingOff).counts(stuck=0, trips=0)
    whole(transcript, CRASHES, tree="t2").to(BackingOff)
    whole(transcript, CRASHES, tree="t2").to(BackingOff)
    open_breaker(whole(transcript, CRASHES, tree="t2")).counts(trips=1)


def test_a_limit_met_by_the_one_try_leaves_it_untried() -> None:
    state = awaiting(About.NO_PROGRESS, until=50.0, tally={"tree": "t1", "stuck": 3, "trips": 1})
    transcript = play(state, stuck_limit=3).on(on.DeadlinePassed(at=50))
    whole(transcript, LIMITED).to(BackingOff).counts(stuck=2)
    open_breaker(whole(transcript, CRASHES))


def test_without_a_cool_down_only_a_person_closes_it() -> None:
    transcript = due(stuck_limit=1, breaker_cooldown=0, blocked_timeout=1000)
    open_breaker(whole(transcript, CRASHES))
    transcript.on(on.DeadlinePassed(at=1000)).to(AwaitingHuman, about=About.NO_PROGRESS, until=None)
    transcript.on(on.ResumeRequested(at=2000, by="ada")).to(BackingOff, until=2000)
    open_breaker(whole(transcript, CRASHES)).counts(trips=2)


def test_a_pause_holds_it_and_its_cool_down() -> None:
    play(capturing(Ending.CRASH, **STUCK, wanted=Wanted.PAUSE), breaker_cooldown=3600).on(TAKEN).to(
        Suspended
    ).on(on.ResumeRequested(at=510)).to(AwaitingHuman, about=About.NO_PROGRESS, until=4110)


def test_red_gates_open_it_too() -> None:
    red = on.GatesFinished(at=12, attempt=1, gates=RED)
    open_breaker(play(verifying(**STUCK)).on(red))
    over(started(due()), CRASHES, at=5).to(BackingOff)
