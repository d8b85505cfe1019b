"""Transcripts of what an agent's breakpoint means: complete, blocked, pull request, question."""

from __future__ import annotations

import pytest

from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine.states import (
    About,
    AwaitingHuman,
    BackingOff,
    Blocked,
    Completed,
    Gate,
    PrPending,
    Reason,
    Rejected,
    Verifying,
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


# --- task_complete ----------------------------------------------------------------------------


def test_without_gates_the_word_on_a_clean_tree_completes() -> None:
    (
        play(capturing(DONE, blocked_on="T000"))
        .on(TAKEN)
        .to(Completed, summary="all of it", head="h1", changed_files=("a.py",))
        .orders(PUBLISH)
        .counts(attempt=2, blocked_on="")
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


def test_a_few_uncommitted_files_are_all_named() -> None:
    dirty = on.SnapshotTaken(at=10, attempt=1, head="h1", tree="t1", dirty=tuple("abcde"))
    transcript = play(capturing(DONE)).on(dirty).to(BackingOff)
    assert transcript.state.tally.signature.endswith("not committed: a, b, c, d, e")


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
        play(verifying(retry_count=1), max_retries=1)
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


def test_a_question_waits_for_a_person() -> None:
    (
        play(capturing(QUESTION, blocked_on="T000"), blocked_timeout=100)
        .on(TAKEN)
        .to(AwaitingHuman, about=About.QUESTION, text="which port?", until=110)
        .counts(attempt=2, retry_count=0, blocked_on="")
    )
