"""Transcripts of how an attempt lands: retries, the breaker, the capture, what people wished."""

from __future__ import annotations

from typing import Any

import pytest

from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine.states import (
    BackingOff,
    Blocked,
    Capturing,
    Completed,
    Ended,
    Gate,
    Reason,
    Rejected,
    Spawning,
    Suspended,
    Wanted,
    Word,
)
from tests.machine.playbook import (
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


# --- failures ---------------------------------------------------------------------------------


def test_a_failed_attempt_costs_a_retry_and_waits() -> None:
    (
        play(capturing(Ended.CRASH), retry_interval=30)
        .on(TAKEN)
        .to(BackingOff, until=40, approved=False)
        .says("crash: the agent crash")
        .counts(attempt=2, spawn_count=1, retry_count=1, stuck=1, tree="t1")
    )


def test_the_last_retry_ends_it() -> None:
    (
        play(capturing(Ended.NO_BREAKPOINT, retry_count=3), max_retries=3)
        .on(TAKEN)
        .to(Rejected, reason=Reason.MAX_RETRIES)
        .says("3 of 3 retries used; the last: no_breakpoint")
        .counts(retry_count=3)
    )


def test_attempts_without_progress_wait_longer_each_time() -> None:
    alike: dict[str, Any] = {"signature": "crash: the agent crash", "stuck": 3, "tree": "t1"}
    transcript = (
        play(capturing(Ended.CRASH, **alike), retry_interval=10, stuck_limit=9)
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


@pytest.mark.parametrize("said", [BLOCKED, PR, QUESTION, Ended.CRASH, Ended.INTERRUPTED])
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
@pytest.mark.parametrize("said", [DONE, BLOCKED, PR, QUESTION, Ended.CRASH, Ended.INTERRUPTED])
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
