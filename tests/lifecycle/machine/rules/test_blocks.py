"""Transcripts of blocked attempts: what clears a task, what a free word, and what nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine.rules.blocks import names_ci
from lifecycle.machine.states import (
    About,
    AwaitingHuman,
    BackingOff,
    Blocked,
    Preparing,
    Reason,
    Rejected,
    Signal,
    Spawning,
    Suspended,
)
from runtime.agents.outcome import Ending
from tests.lifecycle.machine.playbook import (
    BLOCKED,
    awaiting,
    blocked,
    capturing,
    play,
    preparing,
    suspended,
)

LOOK = do.LookAtBlockers(blocked_on=("T000",), head="h1")
PUBLISH = do.PublishBranch(head="h1")
NOTHING_NAMED = Signal(type="blocked", reason="no green build")
A_KEY = Signal(type="blocked", blocked_on=("a key",))
THE_CI = Signal(type="blocked", blocked_on=("the CI run",))
MIXED = Signal(type="blocked", blocked_on=("T000", "a key"))


def settled(task_id: str, *, done: bool = True) -> on.DependencySettled:
    return on.DependencySettled(at=20, task_id=task_id, done=done, text="" if done else "rejected")


def ci(kind: str = "build_success", **more: Any) -> on.CiReported:
    return on.CiReported(at=20, type=kind, green="success" in kind, text="7 passed", **more)


def looked(at: float = 20, **found: Any) -> on.BlockersLooked:
    return on.BlockersLooked(at=at, **found)


def ended(*, at: float = 10, **found: Any) -> on.SnapshotTaken:
    return on.SnapshotTaken(at=at, attempt=1, head="h1", tree="t1", **found)


# --- what is a task ---------------------------------------------------------------------------


def test_what_a_task_is_is_decided_when_the_block_begins_and_it_becomes_a_dependency() -> None:
    word = Signal(type="blocked", blocked_on=("agent-T000", "a key"))
    (
        play(capturing(word))
        .on(ended(blocked_on=("T000", "a key"), tasks=("T000",)))
        .to(Blocked, word=MIXED)
        .orders(PUBLISH, do.LookAtBlockers(blocked_on=("T000", "a key"), head="h1"))
        .counts(depends_on=("T000",))
    )


def test_a_name_that_a_task_settles_under_is_a_task_from_then_on() -> None:
    (
        play(blocked(depends_on=()))
        .on(settled("T000"))
        .to(Blocked)
        .orders(LOOK)
        .counts(depends_on=("T000",))
    )
    play(blocked(depends_on=())).on(looked(tasks=("T000",))).to(Blocked).counts(
        depends_on=("T000",)
    )


@pytest.mark.parametrize(
    "word", ["ci", "CI must be green", "the nightly build", "checks", "test", "pipeline-7", ""]
)
def test_words_that_name_ci(word: str) -> None:
    assert names_ci(word)


@pytest.mark.parametrize("word", ["a key", "circle", "building", "latest", "T000", "testing"])
def test_words_that_do_not_name_ci(word: str) -> None:
    assert not names_ci(word)


# --- tasks ------------------------------------------------------------------------------------


def test_all_tasks_must_be_done_and_their_work_is_merged_before_the_next_attempt() -> None:
    two = Signal(type="blocked", blocked_on=("T000", "T001"))
    join = do.PrepareWorkspace(attempt=2, join=("T000", "T001"))
    joined = on.WorkJoined(
        at=31, attempt=2, tasks=("T000", "T001"), head="h2", base="h0", tree="t2"
    )
    (
        play(blocked(two))
        .on(looked(done=("T000",)))
        .to(Blocked)
        .on(looked(at=30, done=("T001", "T000")))
        .to(BackingOff, until=30, prepare=True)
        .says("unblocked: T000, T001 completed")
        .on(on.Admitted(at=31))
        .to(Preparing)
        .orders(join)
        .on(joined)
        .to(Spawning)
        .orders(do.SpawnAgent(attempt=2))
        .counts(tree="t2", retry_count=0)
    )


@pytest.mark.parametrize("event", [ci(), ci(sha="h1"), ci(sha="h2"), ci(handed=True)])
def test_no_report_of_ci_clears_a_task(event: on.CiReported) -> None:
    play(blocked()).changes_nothing(event)
    play(awaiting(About.BLOCKED_TIMEOUT, blocked_on=("T000",), tally=TASK)).changes_nothing(event)


TASK = {"depends_on": ("T000",)}


@pytest.mark.parametrize("word", [BLOCKED, A_KEY])
@pytest.mark.parametrize("verdict", ["green", "red"])
def test_no_verdict_clears_a_task_or_words_that_do_not_name_ci(word: Signal, verdict: str) -> None:
    play(blocked(word, ci="pending")).on(looked(ci=verdict)).to(Blocked, ci=verdict, cleared=())


def test_a_task_that_moved_is_looked_at_and_another_changes_nothing() -> None:
    play(blocked()).on(settled("T000")).to(Blocked).orders(LOOK)
    play(blocked()).on(settled("T000", done=False)).to(Blocked).orders(LOOK)
    play(blocked()).changes_nothing(settled("T009"))


def test_a_task_that_ended_otherwise_is_for_a_person_and_a_completion_after_all_counts() -> None:
    (
        play(blocked())
        .on(looked(failed=("T000",), tasks=("T000",), why="person: rejected by ada"))
        .to(AwaitingHuman, about=About.BLOCKED_TIMEOUT, failed=("T000",), blocked_on=("T000",))
        .says("it is blocked on T000, which did not complete: person: rejected by ada")
        .on(settled("T000"))
        .to(Blocked)
        .orders(LOOK)
        .on(looked(done=("T000",)))
        .to(BackingOff, prepare=True)
    )


def test_a_circle_of_waits_is_for_a_person_at_once_and_what_settles_it_still_counts() -> None:
    circle = ("T001", "T000", "T001")
    (
        play(blocked())
        .on(looked(circle=circle))
        .to(AwaitingHuman, about=About.BLOCKED_TIMEOUT, circle=circle, blocked_on=("T000",))
        .says("it waits in a circle: T001 -> T000 -> T001")
        .on(settled("T000"))
        .to(Blocked)
        .orders(LOOK)
    )
    play(blocked()).on(looked(circle=("T001", "T001"))).to(AwaitingHuman).says(
        "it waits for itself: T001 -> T001"
    )


def test_blocked_again_on_work_that_is_complete_and_in_its_branch_is_for_a_person() -> None:
    (
        play(capturing(BLOCKED, depends_on=("T000",)))
        .on(ended(tasks=("T000",), joined=("T000",)))
        .to(AwaitingHuman, about=About.BLOCKED_TIMEOUT, joined=("T000",), blocked_on=("T000",))
        .says("blocked on T000, which is complete and part of its branch: needs the schema")
        .counts(retry_count=0)
        .on(on.ResumeRequested(at=30))
        .to(Blocked)
        .orders(LOOK)
        .on(looked(at=31, done=("T000",)))
        .to(BackingOff)
    )


def test_who_waits_for_something_else_besides_waits_for_that() -> None:
    word = Signal(type="blocked", blocked_on=("T000", "T001"))
    (
        play(capturing(word, depends_on=("T000",)))
        .on(ended(tasks=("T000", "T001"), joined=("T000",)))
        .to(Blocked)
        .orders(PUBLISH, do.LookAtBlockers(blocked_on=("T000", "T001"), head="h1"))
    )


# --- free words -------------------------------------------------------------------------------


@pytest.mark.parametrize("word", [NOTHING_NAMED, THE_CI])
@pytest.mark.parametrize("kind", ["build_success", "build_failure", "pr_checks_passed"])
def test_who_waits_for_ci_is_woken_by_the_build_of_its_own_commit(word: Signal, kind: str) -> None:
    play(blocked(word)).on(ci(kind, sha="h1")).to(BackingOff, until=20, prepare=False).says(
        f"unblocked: CI reports {kind}. 7 passed"
    )


@pytest.mark.parametrize("fate", on.PrFate)
def test_the_fate_of_a_pull_request_is_a_report_of_ci_also_after_the_time_out(
    fate: on.PrFate,
) -> None:
    moved = on.PullRequestMoved(at=20, fate=fate, number=1, sha="h9", text="by ada")
    said = f"unblocked: CI reports pr_{fate}. by ada"
    play(blocked(A_KEY)).on(moved).to(BackingOff).says(said)
    given_up = play(blocked(A_KEY)).on(on.DeadlinePassed(at=100)).to(AwaitingHuman)
    given_up.on(moved).to(BackingOff).says(said)
    play(blocked(A_KEY)).changes_nothing(replace(moved, earlier=True))
    mixed = awaiting(About.BLOCKED_TIMEOUT, blocked_on=("T000", "a key"), tally=TASK)
    play(mixed).on(moved).to(Blocked, cleared=("a key",)).orders(
        do.LookAtBlockers(blocked_on=("T000", "a key"), head="")
    )


@pytest.mark.parametrize("word", [NOTHING_NAMED, THE_CI, A_KEY])
def test_a_build_of_a_newer_commit_wakes_all_that_wait_for_free_words(word: Signal) -> None:
    play(blocked(word)).on(ci(sha="h2")).to(BackingOff)
    play(blocked(word)).on(ci()).to(BackingOff)


@pytest.mark.parametrize("word", [NOTHING_NAMED, THE_CI, A_KEY])
def test_a_build_of_an_older_commit_changes_nothing(word: Signal) -> None:
    play(blocked(word)).changes_nothing(ci(sha="h0", earlier=True))


def test_a_build_of_its_own_commit_clears_no_other_words() -> None:
    play(blocked(A_KEY)).changes_nothing(ci(sha="h1"))
    play(blocked(A_KEY)).on(ci("pr_merged", sha="h1")).to(BackingOff)


def test_what_the_caller_hands_in_clears_free_words() -> None:
    play(blocked(A_KEY)).on(ci(sha="h1", handed=True)).to(BackingOff)


def test_each_word_is_cleared_by_itself_and_stays_so() -> None:
    both = Signal(type="blocked", blocked_on=("ci", "a key"))
    (
        play(blocked(both))
        .on(ci(sha="h1"))
        .to(Blocked, cleared=("ci",), heard="CI reports build_success. 7 passed")
        .changes_nothing(ci(sha="h1"))
        .on(ci("build_failure", sha="h2"))
        .to(BackingOff)
        .says("unblocked: CI reports build_success. 7 passed; CI reports build_failure")
    )


def test_words_that_are_cleared_start_nothing_while_a_task_is_open_and_are_not_forgotten() -> None:
    look = do.LookAtBlockers(blocked_on=("T000", "a key"), head="h1")
    (
        play(blocked(MIXED), blocked_timeout=100)
        .on(ci(sha="h2"))
        .to(Blocked, cleared=("a key",))
        .orders(look)
        .on(looked())
        .to(Blocked)
        .on(on.DeadlinePassed(at=100))
        .to(AwaitingHuman, about=About.BLOCKED_TIMEOUT, cleared=("a key",))
        .on(settled("T000"))
        .to(Blocked, cleared=("a key",))
        .orders(look)
        .on(looked(at=101, done=("T000",)))
        .to(BackingOff, prepare=True)
        .says("T000 completed; CI reports build_success")
    )


def test_a_task_that_is_done_starts_nothing_while_words_are_open() -> None:
    play(blocked(MIXED)).on(looked(done=("T000",))).to(Blocked)
    free = Signal(type="blocked", reason="credentials")
    play(blocked(free)).on(looked(done=("T000",))).to(Blocked)


def test_a_person_clears_all_of_it() -> None:
    play(blocked(MIXED)).on(on.Unblocked(at=20, by="ada", note="here")).to(
        BackingOff, until=20, prepare=True
    ).says("unblocked by ada: here")
    play(blocked(MIXED)).on(on.Answered(at=20, by="ada", text="here")).to(BackingOff, until=20)


def test_a_verdict_that_was_there_before_it_blocked_is_no_news() -> None:
    (
        play(blocked(THE_CI))
        .on(looked(ci="green"))
        .to(Blocked, ci="green")
        .on(looked(at=30, ci="red"))
        .to(Blocked, ci="red")
    )


@pytest.mark.parametrize("before", ["pending", "none"])
@pytest.mark.parametrize("verdict", ["green", "red"])
def test_a_verdict_that_came_while_it_was_blocked_wakes_it(before: str, verdict: str) -> None:
    (
        play(blocked(THE_CI))
        .on(looked(ci=before))
        .to(Blocked, ci=before)
        .on(looked(at=30, ci=verdict, text="7 passed"))
        .to(BackingOff, until=30)
        .says(f"unblocked: CI is {verdict}. 7 passed")
    )


def test_a_look_that_could_not_tell_does_not_hide_the_verdict_after_it() -> None:
    (
        play(blocked(NOTHING_NAMED, ci="pending"))
        .on(looked(ci=""))
        .to(Blocked, ci="pending")
        .on(looked(at=30, ci="green"))
        .to(BackingOff)
    )


# --- the time-out -----------------------------------------------------------------------------


def test_a_block_that_lasts_too_long_is_given_up_to_a_person() -> None:
    (
        play(blocked())
        .changes_nothing(on.DeadlinePassed(at=99))
        .on(on.DeadlinePassed(at=100))
        .to(AwaitingHuman, about=About.BLOCKED_TIMEOUT, blocked_on=("T000",), head="h1", until=None)
        .says("needs the schema")
    )


def test_ci_unblocks_also_after_the_time_out() -> None:
    timed_out = awaiting(About.BLOCKED_TIMEOUT, head="h1")
    play(timed_out).on(ci(sha="h1")).to(BackingOff, until=20).says("CI reports build_success")
    play(timed_out).changes_nothing(ci(sha="h0", earlier=True))
    play(awaiting(About.QUESTION)).changes_nothing(ci())
    words = awaiting(About.BLOCKED_TIMEOUT, head="h1", blocked_on=("ci", "a key"))
    play(words).on(ci(sha="h1")).to(AwaitingHuman, cleared=("ci",))
    mixed = awaiting(About.BLOCKED_TIMEOUT, head="h1", blocked_on=("T000", "ci"), tally=TASK)
    play(mixed).on(ci(sha="h1")).to(Blocked, cleared=("ci",)).orders(
        do.LookAtBlockers(blocked_on=("T000", "ci"), head="h1")
    )


def test_a_blocker_that_completes_after_the_time_out_is_looked_at() -> None:
    timed_out = awaiting(About.BLOCKED_TIMEOUT, blocked_on=("T000",), head="h1")
    (
        play(timed_out, blocked_timeout=100)
        .on(settled("T000"))
        .to(Blocked, since=20, until=120, head="h1")
        .orders(LOOK)
        .on(looked(at=21, done=("T000",)))
        .to(BackingOff)
    )
    play(timed_out).changes_nothing(settled("T000", done=False))


# --- the work that it waited for is merged ----------------------------------------------------

JOINED = on.WorkJoined(at=20, attempt=2, tasks=("T000",), head="h2", base="h0", tree="t2")
SECOND: dict[str, Any] = {"attempt": 2, "spawn_count": 1, "depends_on": ("T000",)}


def test_work_that_does_not_go_together_is_begun_for_the_agent() -> None:
    apart = on.WorkJoined(at=20, attempt=2, merge=("m1",), apart=("T000",), head="h1", base="h0")
    (
        play(preparing(**SECOND))
        .on(apart)
        .to(Spawning)
        .orders(do.SpawnAgent(attempt=2, merge=("m1",)))
    )


def test_where_a_person_resolves_conflicts_he_is_waited_for() -> None:
    failed = on.WorkspaceFailed(
        at=20, attempt=2, text="both changed a.txt", fault=on.Fault.USER,
        conflicts=("a.txt",), merge=("m1",),
    )  # fmt: skip
    waits = play(preparing(**SECOND)).on(failed)
    waits.to(AwaitingHuman, about=About.CONFLICT, blocked_on=("T000",)).says("both changed a.txt")
    play(waits.state).on(on.ResumeRequested(at=30)).to(BackingOff, prepare=True)
    (
        play(waits.state)
        .on(on.Unblocked(at=30))
        .to(BackingOff, prepare=False)
        .on(on.Admitted(at=30))
        .to(Spawning)
        .orders(do.SpawnAgent(attempt=2, merge=("m1",)))
    )


def test_what_was_merged_for_it_is_no_progress_of_the_agent() -> None:
    moved = play(preparing(**SECOND, tree="t1")).on(JOINED).orders(do.SpawnAgent(attempt=2))
    attempt = {**SECOND, "tree": moved.state.tally.tree, "spawn_count": 2}
    taken = on.SnapshotTaken(at=30, attempt=2, head="h2", tree="t2")
    play(capturing(Ending.CRASH, **attempt)).on(taken).counts(moved=False)


def test_a_limit_or_a_review_or_a_pause_stands_before_the_attempt_after_a_merge() -> None:
    play(preparing(**SECOND), max_attempts=1).on(JOINED).to(Rejected, reason=Reason.MAX_RETRIES)
    play(preparing(**SECOND), review_summaries=True).on(JOINED).to(
        AwaitingHuman, about=About.REVIEW
    )
    held = play(preparing(**SECOND)).on(on.PauseRequested(at=19)).on(JOINED)
    held.to(Suspended)
    play(preparing(**SECOND)).on(on.StopRequested(at=19, by="ada")).on(JOINED).to(BackingOff)


def test_a_pause_loses_nothing_of_what_is_cleared() -> None:
    paused = suspended(blocked(MIXED), since=15)
    heard = play(paused).on(ci(sha="h2"))
    heard.to(Suspended).orders(do.LookAtBlockers(blocked_on=("T000", "a key"), head="h1"))
    assert isinstance(heard.state, Suspended)
    assert isinstance(heard.state.inner, Blocked)
    assert heard.state.inner.cleared == ("a key",)
