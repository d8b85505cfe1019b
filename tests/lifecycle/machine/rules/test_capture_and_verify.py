"""Transcripts of what an attempt left: its word, its snapshot, its gates, what people wished."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine.states import (
    About,
    AwaitingHuman,
    BackingOff,
    Blocked,
    Capturing,
    Completed,
    Gate,
    PrPending,
    Reason,
    Rejected,
    RemarkReply,
    Signal,
    Suspended,
    Verifying,
    Wanted,
)
from runtime.agents.outcome import Ending
from tests.lifecycle.machine.playbook import (
    BLOCKED,
    DONE,
    LOOK_INTO_BLOCK,
    PR,
    QUESTION,
    capturing,
    play,
    verifying,
)

TAKEN = on.SnapshotTaken(at=10, attempt=1, head="h1", tree="t1", changed_files=("a.py",))
GREEN = Gate(command="pytest -q", ok=True, code=0)
RED = Gate(command="ruff check", ok=False, code=2)
SLOW = Gate(command="make it", ok=False)
GATES = do.RunGates(attempt=1, head="h1")
PUBLISH = do.PublishBranch(head="h1")
LOOK = do.LookAtBlockers(blocked_on=("T000",), head="h1")


# --- task_complete ----------------------------------------------------------------------------


def test_without_gates_the_word_on_a_clean_tree_completes() -> None:
    (
        play(capturing(DONE, blocked_on="T000"))
        .on(TAKEN)
        .to(Completed, summary="all of it", head="h1", changed_files=("a.py",))
        .orders(PUBLISH)
        .counts(attempt=2, blocked_on="")
    )


@pytest.mark.parametrize(
    ("files", "has_gates", "named"),
    [
        ("abcdefg", True, "a, b, c, d, e ..."),
        ("abcdefg", False, "a, b, c, d, e ..."),
        ("abcde", False, "a, b, c, d, e"),
    ],
)
def test_uncommitted_files_are_not_done(files: str, named: str, *, has_gates: bool) -> None:
    dirty = on.SnapshotTaken(at=10, attempt=1, head="h1", tree="t1", dirty=tuple(files))
    transcript = play(capturing(DONE), has_gates=has_gates).on(dirty).to(BackingOff)
    transcript.says("not committed: ").counts(retry_count=1)
    assert transcript.state.tally.signature.endswith(f"not committed: {named}")


def test_green_gates_complete_and_flag_what_they_were_changed_with() -> None:
    (
        play(capturing(DONE), has_gates=True)
        .on(TAKEN)
        .to(Verifying, word=DONE, head="h1", changed_files=("a.py",))
        .orders(GATES)
        .counts(attempt=1)
        .on(on.GatesFinished(at=12, attempt=1, gates=(GREEN,), flagged=("tests/test_a.py",)))
        .to(Completed, summary="all of it", flagged=("tests/test_a.py",), changed_files=("a.py",))
        .orders(PUBLISH)
        .counts(attempt=2, retry_count=0)
    )


def test_red_gates_wake_a_fresh_attempt_and_cost_a_retry() -> None:
    (
        play(verifying(), retry_interval=30)
        .on(on.GatesFinished(at=12, attempt=1, gates=(GREEN, RED, SLOW)))
        .to(BackingOff, until=42)
        .says("gate_failed: `ruff check` ended with code 2; `make it` ran out of time")
        .counts(attempt=2, retry_count=1)
    )


def test_gates_that_cannot_be_run_are_run_again_at_nobodys_cost() -> None:
    (
        play(verifying(), retry_interval=30)
        .on(on.GatesFinished(at=12, attempt=1, gates=(), problem="no space"))
        .to(Verifying, again_at=42)
        .counts(retry_count=0, faults=1)
        .changes_nothing(on.DeadlinePassed(at=41))
        .on(on.DeadlinePassed(at=42))
        .to(Verifying, again_at=None)
        .orders(GATES)
        .on(on.GatesFinished(at=50, attempt=1, gates=(GREEN,)))
        .to(Completed)
        .orders(PUBLISH)
        .counts(faults=0)
    )


def test_gates_that_can_never_be_run_end_it() -> None:
    no_space = on.GatesFinished(at=12, attempt=1, gates=(), problem="no space")
    (
        play(verifying(), max_faults=1, retry_interval=0)
        .on(no_space)
        .to(Verifying, again_at=12)
        .on(on.DeadlinePassed(at=12))
        .to(Verifying)
        .orders(GATES)
        .on(no_space)
        .to(Rejected, reason=Reason.ENVIRONMENT)
        .says("2 times in a row the gates could not be run: no space")
    )


# --- blocked ----------------------------------------------------------------------------------


def test_waiting_costs_no_retry() -> None:
    (
        play(capturing(BLOCKED), blocked_timeout=100)
        .on(TAKEN)
        .to(Blocked, since=10, until=110, word=BLOCKED, head="h1")
        .orders(PUBLISH, LOOK)
        .counts(attempt=2, retry_count=0, blocked_on="T000")
        .on(on.BlockersLooked(at=50, done=("T000",)))
        .to(BackingOff, until=50)
        .counts(retry_count=0)
    )


@pytest.mark.parametrize(
    ("word", "before", "charged"),
    [
        (BLOCKED, "T000", 1),
        (BLOCKED, "the key", 0),
        (Signal(type="blocked", blocked_on=("b", "a")), "a, b", 1),
    ],
)
def test_blocking_again_on_the_same_in_any_order_costs_a_retry_and_on_another_nothing(
    word: Signal, before: str, charged: int
) -> None:
    (
        play(capturing(word, blocked_on=before))
        .on(TAKEN)
        .to(Blocked)
        .orders(PUBLISH, do.LookAtBlockers(blocked_on=word.blocked_on, head="h1"))
        .counts(retry_count=charged, blocked_on=", ".join(sorted(word.blocked_on)))
    )


def test_blocking_on_nothing_named_costs_a_retry_only_the_second_time() -> None:
    unnamed = Signal(type="blocked")
    look = do.LookAtBlockers(blocked_on=(), head="h1")
    first = play(capturing(unnamed)).on(TAKEN).to(Blocked).orders(PUBLISH, look)
    first.counts(retry_count=0)
    thing = first.state.tally.blocked_on
    (
        play(capturing(unnamed, blocked_on=thing))
        .on(TAKEN)
        .to(Blocked)
        .orders(PUBLISH, look)
        .counts(retry_count=1)
    )


def test_blocking_for_ever_on_the_same_thing_ends_it() -> None:
    (
        play(capturing(BLOCKED, blocked_on="T000", retry_count=5), max_retries=5)
        .on(TAKEN)
        .to(Rejected, reason=Reason.MAX_RETRIES)
        .says("5 of 5 retries used; the last attempt blocked once more on: T000")
    )


# --- pr_created, question ---------------------------------------------------------------------


def test_a_pull_request_parks_it_until_its_deadline() -> None:
    (
        play(capturing(PR, blocked_on="T000"), pr_merge_timeout=100)
        .on(TAKEN)
        .to(PrPending, since=10, until=110, word=PR, url="local://pr/1", number=None)
        .orders(PUBLISH, do.OpenPullRequest(url="local://pr/1", summary="the fix"))
        .counts(attempt=2, retry_count=0, blocked_on="")
    )


def test_answers_to_reviewers_are_ordered_with_the_work_that_is_handed_over() -> None:
    said = (RemarkReply(remark="r1abc", text="Done."),)
    answers = do.PostReplies(head="h1", replies=said)
    pr, done = replace(PR, replies=said), replace(DONE, replies=said)
    opens = do.OpenPullRequest(url="local://pr/1", summary="the fix")
    play(capturing(pr)).on(TAKEN).to(PrPending).orders(PUBLISH, opens, answers)
    play(capturing(done)).on(TAKEN).to(Completed).orders(PUBLISH, answers)
    for gate, end, orders in ((GREEN, Completed, (PUBLISH, answers)), (RED, BackingOff, ())):
        judged = on.GatesFinished(at=11, attempt=1, gates=(gate,))
        verified = play(capturing(done), has_gates=True).on(TAKEN).to(Verifying).orders(GATES)
        verified.on(judged).to(end).orders(*orders)


def test_answers_beside_work_that_was_red_are_posted_with_the_next() -> None:
    first, second = (RemarkReply(remark=key, text="Done.") for key in ("r1abc", "r2def"))
    better = replace(first, text="Done, and tested.")
    said = replace(PR, replies=(better,))
    opens = do.OpenPullRequest(url="local://pr/1", summary="the fix")
    answers = do.PostReplies(head="h1", replies=(better, second))
    held = capturing(said, replies=(first, second))
    play(held).on(TAKEN).to(PrPending).orders(PUBLISH, opens, answers).counts(replies=())
    play(held).on(replace(TAKEN, elsewhere="other")).to(BackingOff).counts(replies=(better, second))
    red = on.GatesFinished(at=11, attempt=1, gates=(RED,))
    played = play(capturing(replace(DONE, replies=(first,))), has_gates=True).on(TAKEN)
    played.to(Verifying).orders(GATES).on(red).to(BackingOff).counts(replies=(first,))


def test_a_question_waits_for_a_person() -> None:
    (
        play(capturing(QUESTION, blocked_on="T000"), blocked_timeout=100)
        .on(TAKEN)
        .to(AwaitingHuman, about=About.QUESTION, text="which port?", until=110)
        .counts(attempt=2, retry_count=0, blocked_on="")
    )


# --- failures ---------------------------------------------------------------------------------


def test_attempts_without_progress_wait_longer_each_time() -> None:
    alike: dict[str, Any] = {"signature": "crash: the agent crash", "stuck": 3, "tree": "t1"}
    transcript = (
        play(capturing(Ending.CRASH, **alike), retry_interval=10, stuck_limit=9)
        .on(TAKEN)
        .to(BackingOff)
    )
    assert isinstance(transcript.state, BackingOff)
    assert 60 <= transcript.state.until - 10 <= 100


# --- the capture itself -----------------------------------------------------------------------


def test_a_failing_snapshot_is_taken_again_so_that_no_word_is_lost() -> None:
    (
        play(capturing(BLOCKED), retry_interval=30)
        .on(on.SnapshotFailed(at=10, attempt=1, text="disk full"))
        .to(Capturing, again_at=40)
        .counts(faults=1, retry_count=0)
        .changes_nothing(on.DeadlinePassed(at=39))
        .on(on.DeadlinePassed(at=40))
        .to(Capturing, again_at=None)
        .orders(LOOK_INTO_BLOCK)
        .changes_nothing(on.DeadlinePassed(at=41))
        .on(on.SnapshotTaken(at=42, attempt=1, head="h1"))
        .to(Blocked)
        .orders(PUBLISH, LOOK)
        .counts(faults=0)
    )


def test_a_snapshot_that_never_succeeds_ends_it() -> None:
    (
        play(capturing(DONE, faults=1), max_faults=2)
        .on(on.SnapshotFailed(at=10, attempt=1, text="disk full"))
        .to(Capturing)
        .on(on.SnapshotFailed(at=11, attempt=1, text="disk full"))
        .to(Rejected, reason=Reason.ENVIRONMENT)
        .says("3 times in a row the work could not be captured: disk full")
    )


# --- what was asked for meanwhile -------------------------------------------------------------


@pytest.mark.parametrize("said", [BLOCKED, PR, QUESTION, Ending.CRASH, Ending.INTERRUPTED])
def test_a_pause_holds_whatever_the_attempt_came_to(said: Signal | Ending) -> None:
    transcript = play(capturing(said, wanted=Wanted.PAUSE)).on(TAKEN).to(Suspended, since=10)
    transcript.counts(wanted=Wanted.NOTHING)
    orders = {BLOCKED: (PUBLISH, LOOK),
              PR: (PUBLISH, do.OpenPullRequest(url="local://pr/1", summary="the fix"))}  # fmt: skip
    transcript.orders(*orders.get(said, ()) if isinstance(said, Signal) else ())


def test_a_pause_holds_the_attempt_after_red_gates() -> None:
    transcript = (
        play(verifying(wanted=Wanted.PAUSE))
        .on(on.GatesFinished(at=12, attempt=1, gates=(RED,)))
        .to(Suspended, since=12)
    )
    assert isinstance(transcript.state, Suspended)
    assert isinstance(transcript.state.inner, BackingOff)


def test_nothing_is_left_to_pause_when_it_is_complete() -> None:
    play(capturing(DONE, wanted=Wanted.PAUSE)).on(TAKEN).to(Completed).orders(PUBLISH).counts(
        wanted=Wanted.NOTHING
    )


@pytest.mark.parametrize("has_gates", [True, False])
@pytest.mark.parametrize("said", [DONE, BLOCKED, PR, QUESTION, Ending.CRASH, Ending.INTERRUPTED])
def test_a_rejection_counts_whatever_the_attempt_came_to(
    said: Signal | Ending,
    has_gates: bool,  # noqa: FBT001  # a parameter
) -> None:
    asked = {"wanted": Wanted.REJECT, "wanted_by": "ada", "wanted_why": "wrong way"}
    (
        play(capturing(said, **asked), has_gates=has_gates)
        .on(TAKEN)
        .to(Rejected, reason=Reason.PERSON, text="rejected by ada: wrong way")
        .orders(do.RemoveWorkspace())
    )
