"""Transcripts of what people decide: guide, unblock, answer, approve, accept, reject."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine.states import (
    About,
    Accepted,
    BackingOff,
    Completed,
    Queued,
    Reason,
    Rejected,
    Stopping,
    Tally,
    Wanted,
)
from tests.lifecycle.machine.playbook import (
    awaiting,
    blocked,
    capturing,
    completed,
    play,
    pr_pending,
    preparing,
    queued,
    spawning,
    suspended,
    verifying,
    working,
)

if TYPE_CHECKING:
    from lifecycle.machine.states import State

from tests.lifecycle.machine.asking import (
    ENDING,
    GUIDE,
    KILL,
    NOT_YET_STARTED,
    PAUSE,
    REJECT,
    REMOVE,
    RESUME,
    STOP,
    UNBLOCK,
    UNDER_WAY,
    WAITING,
    each,
)

# --- guidance ---------------------------------------------------------------------------------


@each([*WAITING, *UNDER_WAY])
def test_guidance_is_kept_for_the_next_summary(state: State) -> None:
    assert play(state).on(GUIDE).to(type(state)).state == state


def test_guidance_sends_completed_work_back() -> None:
    (
        play(completed())
        .on(GUIDE)
        .to(BackingOff, until=20)
        .says("sent back with guidance by ada")
        .counts(attempt=2, retry_count=0)
    )
    play(completed(merging=True)).changes_nothing(GUIDE)


# --- unblock, answer, approve -----------------------------------------------------------------


def test_a_person_may_say_that_the_blocker_is_gone() -> None:
    play(blocked()).on(UNBLOCK).to(BackingOff, until=20).says("unblocked by ada: key is there")
    play(blocked()).on(on.Unblocked(at=20)).to(BackingOff).says("unblocked by a person")


def test_a_person_may_skip_the_dependencies() -> None:
    play(queued("T000")).on(UNBLOCK).to(Queued, waiting_on=())
    play(awaiting(About.DEPENDENCY, blocked_on=("T000",), failed=("T000",))).on(UNBLOCK).to(
        Queued, waiting_on=()
    )


def test_a_person_may_go_on_without_the_merge() -> None:
    moved = play(pr_pending()).on(UNBLOCK).to(BackingOff, until=20)
    moved.says("continued without the merge by ada")
    play(awaiting(About.PR_TIMEOUT)).on(UNBLOCK).to(BackingOff)


def test_an_answer_wakes_what_asked_and_what_is_blocked() -> None:
    answer = on.Answered(at=20, by="ada", text="8080")
    for state in (awaiting(About.QUESTION), awaiting(About.BLOCKED_TIMEOUT), blocked()):
        play(state).on(answer).to(BackingOff, until=20).says("answered by ada")


@pytest.mark.parametrize("about", [About.REVIEW, About.PR_TIMEOUT, About.DEPENDENCY])
def test_an_answer_to_what_nobody_asked_changes_nothing(about: About) -> None:
    play(awaiting(about)).changes_nothing(on.Answered(at=20, text="8080"))


def test_only_the_review_of_a_summary_is_approved_and_nothing_else_ends_it() -> None:
    play(awaiting(About.REVIEW)).changes_nothing(UNBLOCK)
    play(awaiting(About.QUESTION)).changes_nothing(on.SummaryApproved(at=20))


# --- accept and reject ------------------------------------------------------------------------


def test_accept_merges_once_and_cleans_up() -> None:
    (
        play(completed())
        .on(on.AcceptRequested(at=20, by="ada"))
        .to(Completed, merging=True)
        .orders(do.MergeBranch(head="h1"))
        .changes_nothing(on.AcceptRequested(at=21, by="ada"))
        .on(on.MergeSucceeded(at=22, commit="m1"))
        .to(Accepted, commit="m1", summary="all of it", changed_files=("a.py",))
        .orders(REMOVE)
        .changes_nothing(on.AcceptRequested(at=23))
        .on(on.WorkspaceRemoved(at=24))
        .to(Accepted, commit="m1")
    )


def test_only_the_commit_that_was_looked_at_is_merged() -> None:
    play(completed()).refuses(on.AcceptRequested(at=19, head="h0"))
    play(completed()).on(on.AcceptRequested(at=20, head="h1")).orders(do.MergeBranch(head="h1"))


def test_a_merge_that_is_refused_leaves_everything_as_it_was() -> None:
    (
        play(completed())
        .on(on.AcceptRequested(at=20))
        .to(Completed)
        .orders(do.MergeBranch(head="h1"))
        .on(on.MergeFailed(at=21, text="conflict in a.py"))
        .to(Completed, merging=False, problem="conflict in a.py")
        .on(on.AcceptRequested(at=22))
        .to(Completed, merging=True, problem="")
        .orders(do.MergeBranch(head="h1"))
    )


def test_a_refusal_lasts_until_all_that_would_come_along_is_accepted() -> None:
    along = ("agent-A", "agent-B")
    (
        play(completed(merging=True))
        .on(on.MergeFailed(at=21, text="holds work of A and B", along=along))
        .to(Completed, problem="holds work of A and B", along=along)
        .on(on.AlongAccepted(at=22, agent_id="agent-A"))
        .to(Completed, problem="holds work of A and B", along=("agent-B",))
        .changes_nothing(on.AlongAccepted(at=23, agent_id="agent-A"))
        .on(on.AlongAccepted(at=24, agent_id="agent-B"))
        .to(Completed, problem="", along=())
    )


@each([*WAITING, suspended(blocked()), completed()])
def test_reject_ends_whatever_rests_and_cleans_up(state: State) -> None:
    (
        play(state)
        .on(REJECT)
        .to(Rejected, reason=Reason.PERSON, text="rejected by ada: wrong way")
        .orders(REMOVE)
        .changes_nothing(REJECT)
        .on(on.WorkspaceRemoved(at=24, saved_ref="refs/loopwright/saved/a/1"))
        .to(Rejected, reason=Reason.PERSON)
    )


def test_reject_ends_the_agent_first() -> None:
    (
        play(working())
        .on(REJECT)
        .to(Stopping)
        .orders(KILL)
        .counts(wanted=Wanted.REJECT, wanted_by="ada", wanted_why="wrong way")
        .changes_nothing(PAUSE)
        .changes_nothing(RESUME)
    )


@each([*NOT_YET_STARTED, *ENDING])
def test_reject_waits_for_what_cannot_be_broken_off(state: State) -> None:
    play(state).on(REJECT).to(type(state)).counts(wanted=Wanted.REJECT)


@pytest.mark.parametrize(
    ("state", "event"),
    [
        (spawning(), on.SpawnFailed(at=21, attempt=1, text="no file", fault=on.Fault.USER)),
        (spawning(), on.SpawnFailed(at=21, attempt=1, text="full", fault=on.Fault.ENVIRONMENT)),
        (preparing(), on.WorkspaceFailed(at=21, attempt=1, text="no", fault=on.Fault.USER)),
        (capturing(), on.SnapshotFailed(at=21, attempt=1, text="disk full")),
        (verifying(), on.GatesFinished(at=21, attempt=1, gates=(), problem="no space")),
        (verifying(), on.GatesFinished(at=21, attempt=1, gates=())),
    ],
)
def test_a_rejection_is_not_forgotten_for_what_ends_it_first(state: State, event: on.Event) -> None:
    (
        play(state, max_faults=0)
        .on(REJECT)
        .to(type(state))
        .on(event)
        .to(Rejected, reason=Reason.PERSON, text="rejected by ada: wrong way")
        .orders(REMOVE)
    )


def test_a_rejection_during_the_merge_counts_only_if_the_merge_fails() -> None:
    (
        play(completed(merging=True))
        .on(REJECT)
        .to(Completed, merging=True)
        .on(on.MergeSucceeded(at=22, commit="m1"))
        .to(Accepted)
        .orders(REMOVE)
        .counts(wanted=Wanted.NOTHING)
    )
    (
        play(completed(merging=True))
        .on(REJECT)
        .to(Completed)
        .on(on.MergeFailed(at=22, text="conflict"))
        .to(Rejected, reason=Reason.PERSON)
        .orders(REMOVE)
    )


@pytest.mark.parametrize("spawned", [0, 3])
def test_what_a_limit_ended_goes_on_with_its_counters_once_the_limit_is_raised(
    spawned: int,
) -> None:
    ended = Rejected(
        reason=Reason.MAX_RETRIES,
        text="",
        tally=Tally(attempt=4, spawn_count=spawned, retry_count=3, stuck=2, faults=1),
    )
    play(ended, max_retries=3).refuses(RESUME)
    play(ended, max_retries=9, max_attempts=3).refuses(RESUME)
    (
        play(ended, max_retries=9)
        .on(RESUME)
        .to(BackingOff, prepare=not spawned)
        .counts(attempt=4, retry_count=3, stuck=0, faults=0)
    )


# --- what people cannot have ------------------------------------------------------------------


def test_what_makes_no_sense_is_refused() -> None:
    play(working()).refuses(on.AcceptRequested(at=20))
    play(working()).refuses(on.Answered(at=20, text="8080"))
    play(working()).refuses(on.SummaryApproved(at=20))
    play(completed()).refuses(UNBLOCK)
    play(suspended(blocked())).refuses(on.AcceptRequested(at=20))
    play(suspended(queued())).refuses(on.Answered(at=20, text="8080"))


def test_a_person_may_reject_what_was_given_up_and_has_the_last_word() -> None:
    given_up = Rejected(reason=Reason.MAX_RETRIES, text="3 of 3 retries used")
    (
        play(given_up)
        .on(REJECT)
        .to(
            Rejected,
            reason=Reason.PERSON,
            text="rejected by ada: wrong way; it was given up before: 3 of 3 retries used",
        )
        .changes_nothing(REJECT)
        .refuses(RESUME)
    )


def test_the_end_is_the_end() -> None:
    accepted = Accepted(commit="m1")
    play(accepted).refuses(REJECT).refuses(GUIDE).refuses(RESUME).changes_nothing(STOP)
    ended = Rejected(reason=Reason.PERSON, text="")
    play(ended).refuses(on.AcceptRequested(at=20)).refuses(GUIDE).refuses(RESUME)
