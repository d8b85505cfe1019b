"""Transcripts of work that does not go together: to an agent first, so often, then to a person."""

from __future__ import annotations

from typing import Any

import pytest

from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine.states import (
    ITS_BASE,
    About,
    AwaitingHuman,
    BackingOff,
    Completed,
    Gate,
    Preparing,
    PrPending,
    Rejected,
    Spawning,
    Suspended,
    Wanted,
)
from lifecycle.machine.states import Tally as Counts
from tests.lifecycle.machine.playbook import (
    DONE,
    PR,
    awaiting,
    backing_off,
    capturing,
    completed,
    play,
    pr_pending,
    preparing,
    suspended,
    verifying,
)

RED = (Gate(command="pytest", ok=False, code=1),)
CONFLICT = on.MergeFailed(at=21, text="both changed a.py", conflicts=("a.py",))
MERGE_RED = on.MergeFailed(at=21, text="is red", gates=RED, between=("agent-R (abc)",))
OF_PULL = on.PullRequestMoved(at=21, fate=on.PrFate.CONFLICT, number=1, url="local://pr/1")
TAKEN = on.SnapshotTaken(at=20, attempt=2, head="h2", tree="t2", commits=1)
APART = on.WorkspaceFailed(
    at=20, attempt=1, text="cannot be joined", fault=on.Fault.USER, conflicts=("a.py",)
)
RESUME = on.ResumeRequested(at=30, by="ada")


def merging(**tally: Any) -> Completed:
    work = completed(merging=True)
    return Completed(
        tally=Counts(attempt=2, spawn_count=1, **tally), summary=work.summary, head="h1",
        changed_files=work.changed_files, merging=True,
    )  # fmt: skip


@pytest.mark.parametrize("fact", [CONFLICT, MERGE_RED])
def test_work_that_does_not_merge_goes_to_an_agent_that_finds_the_merge_begun(
    fact: on.MergeFailed,
) -> None:
    (
        play(merging())
        .on(fact)
        .to(BackingOff, until=21)
        .counts(conflicts=1, merge=(ITS_BASE,), merge_head="h1", retry_count=0)
        .on(on.Admitted(at=22))
        .to(Spawning)
        .orders(do.SpawnAgent(attempt=2, merge=(ITS_BASE,)))
    )


def test_a_merge_that_is_refused_for_anything_else_goes_to_nobody() -> None:
    play(merging()).on(on.MergeFailed(at=21, text="no branch")).to(Completed, problem="no branch")


def test_what_was_resolved_waits_for_a_new_decision() -> None:
    tally = {"attempt": 2, "conflicts": 1, "merge": (ITS_BASE,), "merge_head": "h1"}
    (
        play(verifying(**tally))
        .on(on.GatesFinished(at=23, attempt=2, gates=(Gate(command="pytest", ok=True, code=0),)))
        .to(Completed, resolves="", passed=("pytest",))
        .counts(conflicts=1, merge=(), merge_head="")
        .orders(do.PublishBranch(head="h1"))
    )
    (
        play(capturing(DONE, **tally))
        .on(TAKEN)
        .to(Completed, resolves="h1", head="h2")
        .counts(conflicts=1, merge=())
        .orders(do.PublishBranch(head="h2"))
    )


def test_a_merge_that_is_not_finished_stands_before_the_next_attempt_too() -> None:
    tally = {"attempt": 2, "conflicts": 1, "merge": (ITS_BASE,), "merge_head": "h1"}
    dirty = on.SnapshotTaken(at=20, attempt=2, head="h1", tree="t2", dirty=("a.py",))
    (
        play(capturing(DONE, **tally), has_gates=True)
        .on(dirty)
        .to(BackingOff)
        .says("not committed: a.py")
        .counts(merge=(ITS_BASE,), retry_count=1)
    )


@pytest.mark.parametrize("fact", [CONFLICT, MERGE_RED])
def test_at_the_limit_a_person_decides_about_completed_work(fact: on.MergeFailed) -> None:
    text = f"{fact.text}; 3 attempts to resolve that failed"
    (
        play(merging(conflicts=3))
        .on(fact)
        .to(Completed, merging=False, problem=text)
        .on(on.Guided(at=30, by="ada", text="take ours"))
        .to(BackingOff)
        .counts(conflicts=0)
    )


def test_who_wants_to_be_asked_is_asked_at_once() -> None:
    play(merging(), resolves=False).on(CONFLICT).to(Completed, problem="both changed a.py")
    (
        play(pr_pending(head="h1"), resolves=False, blocked_timeout=50)
        .on(OF_PULL)
        .to(AwaitingHuman, about=About.CONFLICT, until=71, head="h1", number=1)
        .says("conflicts with its base")
    )


def test_a_rejection_during_the_merge_counts_before_any_attempt_to_resolve() -> None:
    (play(merging(wanted=Wanted.REJECT)).on(CONFLICT).to(Rejected).orders(do.RemoveWorkspace()))


def test_a_pull_request_in_conflict_goes_to_an_agent_and_costs_nothing() -> None:
    (
        play(pr_pending())
        .on(OF_PULL)
        .to(BackingOff, until=21)
        .counts(conflicts=1, merge=(ITS_BASE,), retry_count=0)
    )
    (
        play(capturing(PR, conflicts=1, merge=(ITS_BASE,)), pr_merge_timeout=100)
        .on(on.SnapshotTaken(at=20, attempt=1, head="h2", tree="t2", commits=1))
        .to(PrPending)
        .counts(conflicts=1, merge=())
        .orders(
            do.PublishBranch(head="h2"),
            do.OpenPullRequest(url="local://pr/1", summary="the fix"),
        )
        .on(on.PullRequestMoved(at=30, fate=on.PrFate.MERGED, number=1, url="local://pr/1"))
        .to(BackingOff)
        .counts(conflicts=0)
    )


def test_a_pull_request_in_conflict_waits_for_a_person_at_the_limit() -> None:
    limit = awaiting(About.CONFLICT, url="local://pr/1", number=1, until=71, tally={"conflicts": 3})
    merged = on.PullRequestMoved(at=30, fate=on.PrFate.MERGED, number=1, url="local://pr/1")
    play(pr_pending(conflicts=3)).on(OF_PULL).to(AwaitingHuman).says("3 attempts to resolve")
    play(limit).changes_nothing(OF_PULL)
    play(limit).on(merged).to(BackingOff).counts(conflicts=0)
    play(limit).on(on.Unblocked(at=30, by="ada")).to(BackingOff).counts(conflicts=0)
    play(limit).on(on.Answered(at=30, by="ada", text="ours")).to(BackingOff)
    play(limit).on(on.DeadlinePassed(at=71)).to(AwaitingHuman, about=About.PR_TIMEOUT)
    play(limit, pr_merge_timeout=10).on(RESUME).to(PrPending, until=40).counts(conflicts=0).orders(
        do.OpenPullRequest(url="local://pr/1", summary="")
    )


def test_a_conflict_that_comes_after_the_timeout_goes_to_an_agent_too() -> None:
    late = awaiting(About.PR_TIMEOUT, url="local://pr/1", number=1)
    play(late).on(OF_PULL).to(BackingOff).counts(conflicts=1, merge=(ITS_BASE,))


def test_dependencies_that_do_not_go_together_are_merged_by_the_first_attempt() -> None:
    ready = on.WorkspaceReady(
        at=20, attempt=1, branch="agent/a", base_commit="b0", merge=("h7", "h8")
    )
    (
        play(preparing())
        .on(ready)
        .to(Spawning)
        .counts(merge=("h7", "h8"), conflicts=0)
        .orders(do.SpawnAgent(attempt=1, merge=("h7", "h8")))
    )


def test_dependencies_that_do_not_go_together_wait_for_a_person_who_wants_to_be_asked() -> None:
    apart = play(preparing()).on(APART).to(AwaitingHuman, about=About.CONFLICT).state
    for fact in (RESUME, on.Unblocked(at=30), on.Answered(at=30, text="I did")):
        (
            play(apart)
            .on(fact)
            .to(BackingOff, prepare=True, until=30)
            .on(on.Admitted(at=30))
            .to(Preparing)
            .orders(do.PrepareWorkspace(attempt=1))
        )
    play(preparing(wanted=Wanted.PAUSE)).on(APART).to(Suspended)


def test_an_attempt_that_is_cut_short_finds_the_merge_begun_again() -> None:
    tally: dict[str, Any] = {"merge": (ITS_BASE,), "merge_head": "h1"}
    (
        play(backing_off(until=10, **tally))
        .on(on.Admitted(at=10))
        .to(Spawning)
        .orders(do.SpawnAgent(attempt=2, merge=(ITS_BASE,)))
        .on(on.RunnerRestarted(at=11, attempt=2))
        .to(BackingOff)
        .counts(merge=(ITS_BASE,))
    )
    play(suspended(pr_pending())).on(OF_PULL).to(Suspended)
