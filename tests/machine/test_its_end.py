"""Transcripts of what the end of an attempt means: breakpoints, gates, retries, the breaker."""

from __future__ import annotations

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
    Ended,
    Gate,
    PrPending,
    Reason,
    Rejected,
    Spawning,
    Suspended,
    Verifying,
    Wanted,
    Word,
)
from tests.machine.playbook import BLOCKED, DONE, PR, QUESTION, capturing, play, verifying

TAKEN = on.SnapshotTaken(at=10, attempt=1, head="h1", tree="t1", changed_files=("a.py",))
GREEN = Gate(command="pytest -q", ok=True, code=0)
RED = Gate(command="ruff check", ok=False, code=2)
SLOW = Gate(command="make it", ok=False)
GATES = do.RunGates(attempt=1, head="h1")
PUBLISH = do.PublishBranch(head="h1")
LOOK = do.LookAtBlockers(blocked_on=("T000",), head="h1")


# --- failures ---------------------------------------------------------------------------------


def test_a_failed_attempt_costs_a_retry_and_waits() -> None:
    (
        play(capturing(Ended.CRASHED), retry_interval=30)
        .on(TAKEN)
        .to(BackingOff, until=40, approved=False)
        .says("crashed: the agent crashed")
        .counts(attempt=2, spawn_count=1, retry_count=1, stuck=1, tree="t1")
    )


def test_the_last_retry_ends_it() -> None:
    (
        play(capturing(Ended.NO_BREAKPOINT, retry_count=2), max_retries=3)
        .on(TAKEN)
        .to(Rejected, reason=Reason.MAX_RETRIES)
        .says("3 of 3 retries used; the last: no_breakpoint")
        .counts(retry_count=3)
    )


def test_the_breaker_names_its_evidence() -> None:
    alike = {"signature": "crashed: the agent crashed", "stuck": 2, "tree": "t1", "retry_count": 2}
    (
        play(capturing(Ended.CRASHED, **alike), stuck_limit=3)
        .on(TAKEN)
        .to(Rejected, reason=Reason.NO_PROGRESS)
        .says("3 attempts in a row failed alike and left the tree unchanged (t1): crashed")
    )


def test_a_change_in_the_tree_is_progress() -> None:
    alike = {"signature": "crashed: the agent crashed", "stuck": 2, "tree": "t0"}
    play(capturing(Ended.CRASHED, **alike), stuck_limit=3).on(TAKEN).to(BackingOff).counts(stuck=1)


def test_another_failure_is_progress() -> None:
    other = {"signature": "hung: 1800 s", "stuck": 2, "tree": "t1"}
    play(capturing(Ended.CRASHED, **other), stuck_limit=3).on(TAKEN).to(BackingOff).counts(stuck=1)


def test_without_a_known_tree_the_breaker_cannot_tell() -> None:
    alike = {"signature": "crashed: the agent crashed", "stuck": 2}
    nothing = on.SnapshotTaken(at=10, attempt=1)
    play(capturing(**alike), stuck_limit=3).on(nothing).to(BackingOff).counts(stuck=3)


def test_alike_failures_wait_longer_each_time() -> None:
    alike = {"signature": "crashed: the agent crashed", "stuck": 3, "tree": "t1"}
    transcript = play(capturing(**alike), retry_interval=10).on(TAKEN).to(BackingOff)
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
        .orders(do.TakeSnapshot(attempt=1))
        .changes_nothing(on.DeadlinePassed(at=41))
        .on(on.SnapshotTaken(at=42, attempt=1, head="h1"))
        .to(Blocked)
        .orders(PUBLISH, LOOK)
        .counts(faults=0)
    )


def test_a_snapshot_that_never_succeeds_ends_it() -> None:
    (
        play(capturing(DONE, faults=2), max_faults=2)
        .on(on.SnapshotFailed(at=10, attempt=1, text="disk full"))
        .to(Rejected, reason=Reason.ENVIRONMENT)
        .says("3 times in a row the work could not be captured: disk full")
    )


# --- task_complete ----------------------------------------------------------------------------


def test_without_gates_the_word_on_a_clean_tree_completes() -> None:
    (
        play(capturing(DONE))
        .on(TAKEN)
        .to(Completed, summary="all of it", head="h1", changed_files=("a.py",))
        .orders(PUBLISH)
        .counts(attempt=2)
    )


@pytest.mark.parametrize("has_gates", [True, False])
def test_uncommitted_files_are_not_done(has_gates: bool) -> None:  # noqa: FBT001  # a parameter
    dirty = on.SnapshotTaken(at=10, attempt=1, head="h1", tree="t1", dirty=tuple("abcdefg"))
    (
        play(capturing(DONE), has_gates=has_gates)
        .on(dirty)
        .to(BackingOff)
        .says("not committed: a, b, c, d, e ...")
        .counts(retry_count=1)
    )


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


def test_red_gates_at_the_last_retry_end_it() -> None:
    (
        play(verifying(retry_count=0), max_retries=1)
        .on(on.GatesFinished(at=12, attempt=1, gates=(RED,)))
        .to(Rejected, reason=Reason.MAX_RETRIES)
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
    (
        play(verifying(), max_faults=0)
        .on(on.GatesFinished(at=12, attempt=1, gates=(), problem="no space"))
        .to(Rejected, reason=Reason.ENVIRONMENT)
        .says("1 times in a row the gates could not be run: no space")
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


def test_blocking_again_on_the_same_thing_costs_a_retry() -> None:
    (
        play(capturing(BLOCKED, blocked_on="T000"))
        .on(TAKEN)
        .to(Blocked)
        .orders(PUBLISH, LOOK)
        .counts(retry_count=1)
    )


def test_blocking_on_another_thing_costs_nothing() -> None:
    (
        play(capturing(BLOCKED, blocked_on="the key"))
        .on(TAKEN)
        .to(Blocked)
        .orders(PUBLISH, LOOK)
        .counts(retry_count=0, blocked_on="T000")
    )


def test_the_order_of_the_blockers_makes_no_other_thing() -> None:
    swapped = Word(type="blocked", blocked_on=("b", "a"))
    (
        play(capturing(swapped, blocked_on="a, b"))
        .on(TAKEN)
        .to(Blocked)
        .orders(PUBLISH, do.LookAtBlockers(blocked_on=("b", "a"), head="h1"))
        .counts(retry_count=1)
    )


def test_blocking_on_nothing_named_costs_a_retry_only_the_second_time() -> None:
    unnamed = Word(type="blocked")
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
        play(capturing(BLOCKED, blocked_on="T000", retry_count=4), max_retries=5)
        .on(TAKEN)
        .to(Rejected, reason=Reason.MAX_RETRIES)
        .says("5 of 5 retries used; the last attempt blocked once more on: T000")
    )


# --- pr_created, question ---------------------------------------------------------------------


def test_a_pull_request_parks_it_until_its_deadline() -> None:
    (
        play(capturing(PR, blocked_on="T000"), pr_merge_timeout=100)
        .on(TAKEN)
        .to(PrPending, since=10, until=110, url="local://pr/1", number=None)
        .orders(PUBLISH, do.OpenPullRequest(url="local://pr/1", summary="the fix"))
        .counts(attempt=2, retry_count=0, blocked_on="")
    )


def test_a_question_waits_for_a_person() -> None:
    (
        play(capturing(QUESTION), blocked_timeout=100)
        .on(TAKEN)
        .to(AwaitingHuman, about=About.QUESTION, text="which port?", until=110)
        .counts(attempt=2, retry_count=0)
    )


# --- what was asked for meanwhile -------------------------------------------------------------


@pytest.mark.parametrize("said", [BLOCKED, PR, QUESTION, Ended.CRASHED, Ended.INTERRUPTED])
def test_a_pause_holds_whatever_the_attempt_came_to(said: Word | Ended) -> None:
    transcript = play(capturing(said, wanted=Wanted.PAUSE)).on(TAKEN).to(Suspended, since=10)
    transcript.counts(wanted=Wanted.NOTHING)
    orders = {BLOCKED: (PUBLISH, LOOK),
              PR: (PUBLISH, do.OpenPullRequest(url="local://pr/1", summary="the fix"))}  # fmt: skip
    transcript.orders(*orders.get(said, ()) if isinstance(said, Word) else ())


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
@pytest.mark.parametrize("said", [DONE, BLOCKED, PR, QUESTION, Ended.CRASHED, Ended.INTERRUPTED])
def test_a_rejection_counts_whatever_the_attempt_came_to(
    said: Word | Ended,
    has_gates: bool,  # noqa: FBT001  # a parameter
) -> None:
    asked = {"wanted": Wanted.REJECT, "wanted_by": "ada", "wanted_why": "wrong way"}
    (
        play(capturing(said, **asked), has_gates=has_gates)
        .on(TAKEN)
        .to(Rejected, reason=Reason.PERSON, text="rejected by ada: wrong way")
        .orders(do.RemoveWorkspace())
    )


def test_a_stop_starts_the_attempt_again_with_its_number() -> None:
    (
        play(capturing(Ended.INTERRUPTED, wanted=Wanted.STOP))
        .on(TAKEN)
        .to(BackingOff, until=10)
        .counts(attempt=1, wanted=Wanted.NOTHING)
        .on(on.Admitted(at=10))
        .to(Spawning)
        .orders(do.SpawnAgent(attempt=1))
    )
