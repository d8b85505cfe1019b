"""Transcripts of the waits for dependencies, blockers and people, and of their time-outs."""

from __future__ import annotations

import pytest

from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine.states import (
    About,
    AwaitingHuman,
    BackingOff,
    Blocked,
    Preparing,
    PrPending,
    Queued,
    Signal,
)
from tests.lifecycle.machine.playbook import awaiting, blocked, capturing, play, pr_pending, queued

LOOK = do.LookAtBlockers(blocked_on=("T000",), head="h1")


def settled(task_id: str, *, at: float = 20, done: bool = True) -> on.DependencySettled:
    return on.DependencySettled(at=at, task_id=task_id, done=done, text="" if done else "rejected")


def ci(*, sha: str = "", green: bool = True) -> on.CiReported:
    kind = "build_success" if green else "build_failure"
    return on.CiReported(at=20, type=kind, green=green, sha=sha, text="7 passed")


# --- dependencies -----------------------------------------------------------------------------


def test_it_begins_when_its_last_dependency_completed() -> None:
    (
        play(queued("T000", "T001"))
        .on(settled("T000"))
        .to(Queued, waiting_on=("T001",))
        .on(settled("T001"))
        .to(Queued, waiting_on=())
        .on(on.Admitted(at=21))
        .to(Preparing)
        .orders(do.PrepareWorkspace(attempt=1))
    )


def test_a_task_it_does_not_depend_on_changes_nothing() -> None:
    play(queued("T000")).changes_nothing(settled("T009"))
    play(awaiting(About.DEPENDENCY, blocked_on=("T000",), failed=("T000",))).changes_nothing(
        settled("T009")
    )


def test_a_dependency_that_failed_blocks_its_dependents_with_the_reason() -> None:
    (
        play(queued("T000", "T001"))
        .on(settled("T000", done=False))
        .to(AwaitingHuman, about=About.DEPENDENCY, blocked_on=("T000", "T001"), failed=("T000",))
        .says("dependency T000 did not complete: rejected")
    )


def test_it_never_queues_for_a_dependency_that_stands_failed() -> None:
    (
        play(queued("T000", "T001", "T002"))
        .on(settled("T000", done=False))
        .to(AwaitingHuman)
        .on(settled("T001"))
        .to(AwaitingHuman, blocked_on=("T000", "T002"), failed=("T000",))
        .on(settled("T002", done=False))
        .to(AwaitingHuman, failed=("T000", "T002"))
        .changes_nothing(settled("T000", done=False))
        .on(settled("T000"))
        .to(AwaitingHuman, blocked_on=("T002",), failed=("T002",))
        .on(settled("T002"))
        .to(Queued, waiting_on=())
    )


def test_a_dependency_that_completes_after_all_queues_it_for_the_others() -> None:
    (
        play(awaiting(About.DEPENDENCY, blocked_on=("T000", "T001"), failed=("T000",)))
        .on(settled("T000"))
        .to(Queued, waiting_on=("T001",))
    )


# --- questions ---------------------------------------------------------------------------------


def test_a_question_nobody_answers_keeps_no_runner_and_only_an_answer_ends_it() -> None:
    (
        play(awaiting(About.QUESTION, until=50))
        .changes_nothing(on.DeadlinePassed(at=49))
        .on(on.DeadlinePassed(at=50))
        .to(AwaitingHuman, about=About.QUESTION, until=None)
        .changes_nothing(on.DeadlinePassed(at=51))
        .changes_nothing(on.CiReported(at=52, type="build_success", green=True))
        .on(on.ResumeRequested(at=55))
        .to(AwaitingHuman, about=About.QUESTION)
        .on(on.Answered(at=60, by="ada", text="8080"))
        .to(BackingOff, until=60)
        .says("answered by ada")
    )


# --- waiting once more for what was given up --------------------------------------------------


def test_resume_waits_once_more_for_the_blockers() -> None:
    (
        play(awaiting(About.BLOCKED_TIMEOUT, blocked_on=("T000",), head="h1"), blocked_timeout=100)
        .on(on.ResumeRequested(at=500))
        .to(
            Blocked,
            since=500,
            until=600,
            head="h1",
            word=Signal(type="blocked", blocked_on=("T000",), reason="why it waits"),
        )
        .orders(LOOK)
    )


def test_resume_waits_once_more_for_the_merge() -> None:
    (
        play(
            awaiting(About.PR_TIMEOUT, url="local://pr/1", signalled_url="https://x/pull/7"),
            pr_merge_timeout=100,
        )
        .on(on.ResumeRequested(at=500))
        .to(PrPending, since=500, until=600, url="local://pr/1", number=None)
        .to(PrPending, word=Signal(type="pr_created", pr_url="https://x/pull/7"))
        .orders(do.OpenPullRequest(url="local://pr/1", summary=""))
    )


def test_resume_waits_once_more_for_the_dependencies() -> None:
    (
        play(awaiting(About.DEPENDENCY, blocked_on=("T000", "T001"), failed=("T000",)))
        .on(on.ResumeRequested(at=500))
        .to(Queued, waiting_on=("T000", "T001"))
    )


@pytest.mark.parametrize("about", [About.QUESTION, About.REVIEW])
def test_resume_answers_no_question(about: About) -> None:
    play(awaiting(about, until=900.0)).changes_nothing(on.ResumeRequested(at=500))


def test_a_summary_that_nobody_reads_is_given_up_to_a_person_and_can_still_be_approved() -> None:
    transcript = play(awaiting(About.REVIEW, until=100.0), blocked_timeout=1000)
    transcript.on(on.DeadlinePassed(at=100)).to(AwaitingHuman, about=About.REVIEW, until=None)
    transcript.on(on.ResumeRequested(at=500)).to(AwaitingHuman, about=About.REVIEW, until=1500)
    transcript.on(on.SummaryApproved(at=600, by="ada")).to(BackingOff, approved=True)


# --- what the world tells without knowing who waits -------------------------------------------


def test_the_outside_may_speak_to_a_lifecycle_that_does_not_wait_for_it() -> None:
    play(capturing()).changes_nothing(ci())
    play(queued()).changes_nothing(on.DeadlinePassed(at=1))
    play(pr_pending()).changes_nothing(settled("T000"))
    play(blocked()).changes_nothing(on.PullRequestMoved(at=20, fate=on.PrFate.MERGED, number=1))
    play(blocked()).changes_nothing(on.Admitted(at=1))
