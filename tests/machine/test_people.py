"""Transcripts of what people ask for: pause, resume, stop, unblock, answer, accept, reject."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine.states import (
    About,
    Accepted,
    AwaitingHuman,
    BackingOff,
    Blocked,
    Capturing,
    Completed,
    Ended,
    Outcome,
    Preparing,
    PrPending,
    Queued,
    Reason,
    Rejected,
    Spawning,
    Stopping,
    Suspended,
    Wanted,
    Working,
)
from lifecycle.machine.table import rule_name
from tests.machine.playbook import (
    PROCESS,
    awaiting,
    backing_off,
    blocked,
    capturing,
    completed,
    play,
    pr_pending,
    preparing,
    queued,
    spawning,
    stopping,
    suspended,
    verifying,
    working,
)

if TYPE_CHECKING:
    from lifecycle.machine.states import State

PAUSE = on.PauseRequested(at=20, by="ada")
STOP = on.StopRequested(at=20, by="ada")
HOLD = on.StopRequested(at=20, by="ada", pause=True)
RESUME = on.ResumeRequested(at=30, by="ada")
REJECT = on.RejectRequested(at=20, by="ada", why="wrong way")
GUIDE = on.Guided(at=20, by="ada", text="mind the edges")
UNBLOCK = on.Unblocked(at=20, by="ada", note="key is there")
REMOVE = do.RemoveWorkspace()
KILL = do.StopAgent(attempt=1, process=PROCESS)

WAITING = [
    queued("T000"),
    blocked(),
    pr_pending(),
    backing_off(),
    awaiting(About.QUESTION, until=50),
]
NOT_YET_STARTED = [preparing(), spawning()]
ALIVE = [working()]
ENDING = [stopping(), capturing(), verifying()]
UNDER_WAY = [*NOT_YET_STARTED, *ALIVE, *ENDING]


def name(state: State) -> str:
    return type(state).__name__


def each(states: list[State]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("state", states, ids=name)


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


# --- pause and resume -------------------------------------------------------------------------


@each(WAITING)
def test_a_pause_holds_a_wait_at_once_and_resume_lets_it_go_on(state: State) -> None:
    play(state).on(PAUSE).to(Suspended, inner=state, since=20).changes_nothing(PAUSE).on(RESUME).to(
        type(state)
    )
    play(state).on(STOP).to(Suspended, inner=state, since=20)


@each([blocked(), pr_pending(), backing_off(100), awaiting(About.QUESTION, until=100)])
def test_the_clocks_stand_still_while_it_is_paused(state: State) -> None:
    play(state).on(PAUSE).to(Suspended).on(RESUME).to(type(state), until=110)


def test_a_wait_without_a_deadline_has_none_after_the_pause() -> None:
    play(suspended(awaiting(About.REVIEW))).on(RESUME).to(AwaitingHuman, until=None)


def test_while_it_is_paused_no_deadline_passes_and_no_place_is_taken() -> None:
    (
        play(suspended(blocked()))
        .changes_nothing(on.DeadlinePassed(at=1000))
        .changes_nothing(on.Admitted(at=1000))
    )


def test_what_happens_while_it_is_paused_is_not_lost() -> None:
    (
        play(suspended(blocked(ci="pending"), since=10))
        .on(on.DependencySettled(at=15, task_id="T000", done=True))
        .to(Suspended)
        .orders(do.LookAtBlockers(blocked_on=("T000",), head="h1"))
        .changes_nothing(on.CiReported(at=16, type="build_success", green=True, sha="h0"))
        .on(on.BlockersLooked(at=17, done=("T000",)))
        .to(Suspended, since=10)
        .on(RESUME)
        .to(BackingOff, until=30)
        .says("unblocked: T000 completed")
    )


@pytest.mark.parametrize("answered_at", [20, 1000, 5000])
def test_an_answer_during_a_pause_starts_the_next_attempt_as_soon_as_it_ends(
    answered_at: float,
) -> None:
    (
        play(suspended(awaiting(About.QUESTION, until=500), since=10))
        .on(on.Answered(at=answered_at, text="8080"))
        .to(Suspended, since=10)
        .on(on.ResumeRequested(at=6000))
        .to(BackingOff, until=6000)
    )


def test_a_failure_during_a_pause_waits_its_full_time_after_it() -> None:
    closed = on.PullRequestMoved(at=1000, fate=on.PrFate.CLOSED, number=1)
    (
        play(suspended(pr_pending(), since=10), retry_interval=30)
        .on(closed)
        .to(Suspended)
        .on(on.ResumeRequested(at=2000))
        .to(BackingOff, until=2030)
    )


def test_the_last_retry_may_be_used_up_during_a_pause() -> None:
    closed = on.PullRequestMoved(at=1000, fate=on.PrFate.CLOSED, number=1)
    play(suspended(pr_pending()), max_retries=1).on(closed).to(
        Rejected, reason=Reason.MAX_RETRIES
    )


def test_the_journal_names_the_rule_inside_a_pause() -> None:
    assert rule_name(suspended(blocked()), UNBLOCK) == "unblock"
    assert rule_name(suspended(blocked()), on.Admitted(at=1)) == "late"
    assert rule_name(suspended(blocked()), RESUME) == "resume"
    assert rule_name(working(attempt=2), on.AgentExited(at=1, attempt=1)) == "late"
    assert rule_name(working(attempt=2), on.AgentExited(at=1, attempt=2)) == "exited"


@each(UNDER_WAY)
def test_a_pause_lets_the_attempt_end(state: State) -> None:
    (
        play(state)
        .on(PAUSE)
        .to(type(state))
        .counts(wanted=Wanted.PAUSE, wanted_by="ada")
        .changes_nothing(PAUSE)
        .on(RESUME)
        .to(type(state))
        .counts(wanted=Wanted.NOTHING, wanted_by="")
        .changes_nothing(RESUME)
    )


def test_resume_cuts_a_wait_short() -> None:
    play(backing_off(100)).on(RESUME).to(BackingOff, until=30).changes_nothing(RESUME)


@each([queued(), blocked(), pr_pending(), completed()])
def test_resume_of_what_is_not_paused_does_no_harm(state: State) -> None:
    play(state).changes_nothing(RESUME)


# --- stop -------------------------------------------------------------------------------------


def test_stop_ends_the_agent_and_costs_nothing() -> None:
    (
        play(working(retry_count=1))
        .on(STOP)
        .to(Stopping, outcome=Outcome(ended=Ended.INTERRUPTED, text="stopped by ada"))
        .orders(KILL)
        .on(on.AgentStopped(at=21, attempt=1, signal=15))
        .to(Capturing)
        .orders(do.TakeSnapshot(attempt=1))
        .on(on.SnapshotTaken(at=22, attempt=1))
        .to(BackingOff, until=22)
        .says("stopped by ada")
        .counts(attempt=1, retry_count=1, interruptions=1)
    )


def test_stop_with_pause_holds_the_attempt_after_it() -> None:
    (
        play(working())
        .on(HOLD)
        .to(Stopping)
        .orders(KILL)
        .on(on.AgentStopped(at=21, attempt=1, signal=15))
        .to(Capturing)
        .orders(do.TakeSnapshot(attempt=1))
        .on(on.SnapshotTaken(at=22, attempt=1))
        .to(Suspended, since=22)
    )


@each(NOT_YET_STARTED)
def test_stop_ends_an_attempt_as_soon_as_it_can_be_ended(state: State) -> None:
    play(state).on(STOP).to(type(state)).counts(wanted=Wanted.STOP).changes_nothing(STOP)


def test_a_process_that_is_no_longer_wanted_is_ended_at_once() -> None:
    for asked in (STOP, HOLD, REJECT):
        (
            play(spawning())
            .on(asked)
            .to(Spawning)
            .on(on.AgentSpawned(at=21, attempt=1, process=PROCESS))
            .to(Stopping)
            .orders(KILL)
            .counts(spawn_count=1)
        )


def test_an_attempt_stopped_before_it_began_is_not_begun() -> None:
    ready = on.WorkspaceReady(at=21, attempt=1, branch="agent/a", base_commit="b0")
    play(preparing()).on(STOP).to(Preparing).on(ready).to(BackingOff, until=21)
    play(preparing()).on(PAUSE).to(Preparing).on(ready).to(Suspended)
    play(preparing()).on(REJECT).to(Preparing).on(ready).to(Rejected).orders(REMOVE)


@each(ENDING)
def test_what_has_ended_needs_no_stop_but_the_next_attempt_can_be_held(state: State) -> None:
    play(state).changes_nothing(STOP).on(HOLD).to(type(state)).counts(wanted=Wanted.PAUSE)


@each(NOT_YET_STARTED)
@pytest.mark.parametrize("asked", [(STOP, PAUSE), (PAUSE, STOP), (STOP, HOLD), (PAUSE, HOLD)])
def test_neither_a_stop_nor_a_pause_makes_the_other_forgotten(
    state: State, asked: tuple[on.PersonEvent, ...]
) -> None:
    transcript = play(state)
    for event in asked:
        transcript.on(event).to(type(state))
    transcript.counts(wanted=Wanted.HOLD).changes_nothing(STOP).changes_nothing(PAUSE)


def test_a_pause_is_heard_while_a_stop_is_carried_out() -> None:
    play(stopping(wanted=Wanted.STOP)).on(PAUSE).to(Stopping).counts(wanted=Wanted.HOLD)
    play(stopping(wanted=Wanted.STOP)).on(HOLD).to(Stopping).counts(wanted=Wanted.HOLD)


def test_resume_takes_back_the_pause_but_not_the_stop() -> None:
    play(spawning()).on(HOLD).to(Spawning).on(RESUME).to(Spawning).counts(
        wanted=Wanted.STOP
    ).changes_nothing(RESUME)


@pytest.mark.parametrize("wanted", [Wanted.PAUSE, Wanted.HOLD])
def test_a_pause_holds_what_could_not_be_started(wanted: Wanted) -> None:
    full = on.SpawnFailed(at=21, attempt=1, text="no memory", fault=on.Fault.ENVIRONMENT)
    play(spawning(wanted=wanted)).on(full).to(Suspended, since=21)
    no_disk = on.WorkspaceFailed(at=21, attempt=1, text="disk full", fault=on.Fault.ENVIRONMENT)
    play(preparing(wanted=wanted)).on(no_disk).to(Suspended, since=21)


@pytest.mark.parametrize("wanted", [Wanted.STOP, Wanted.HOLD, Wanted.REJECT])
def test_a_lost_spawn_that_nobody_wants_any_more_is_not_ordered_again(wanted: Wanted) -> None:
    (
        play(spawning(wanted=wanted))
        .on(on.RunnerRestarted(at=21, attempt=1))
        .to(Capturing)
        .orders(do.TakeSnapshot(attempt=1))
        .counts(spawn_count=0)
    )


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
    play(pr_pending()).on(UNBLOCK).to(BackingOff, until=20).says("went on without the merge by ada")
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
def test_a_rejection_is_not_forgotten_for_what_ends_it_first(
    state: State, event: on.Event
) -> None:
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


# --- what people cannot have ------------------------------------------------------------------


def test_what_makes_no_sense_is_refused() -> None:
    play(working()).refuses(on.AcceptRequested(at=20))
    play(working()).refuses(on.Answered(at=20, text="8080"))
    play(working()).refuses(on.SummaryApproved(at=20))
    play(completed()).refuses(UNBLOCK)
    play(suspended(blocked())).refuses(on.AcceptRequested(at=20))
    play(suspended(queued())).refuses(on.Answered(at=20, text="8080"))


def test_the_end_is_the_end() -> None:
    accepted = Accepted(commit="m1")
    play(accepted).refuses(REJECT).refuses(GUIDE).refuses(RESUME).changes_nothing(STOP)
    ended = Rejected(reason=Reason.PERSON, text="")
    play(ended).refuses(on.AcceptRequested(at=20)).refuses(GUIDE).refuses(RESUME)


def test_the_same_pull_request_wait_goes_on_after_a_pause() -> None:
    (
        play(suspended(pr_pending(number=None), since=10))
        .on(on.PullRequestOpened(at=15, number=1, url="local://pr/1"))
        .to(Suspended, since=10)
        .orders(do.LookAtPullRequest(number=1))
        .on(RESUME)
        .to(PrPending, number=1, until=120)
    )


def test_a_blocked_wait_that_was_given_up_can_be_paused_too() -> None:
    (
        play(suspended(awaiting(About.BLOCKED_TIMEOUT, blocked_on=("T000",))))
        .on(RESUME)
        .to(AwaitingHuman)
        .on(RESUME)
        .to(Blocked)
        .orders(do.LookAtBlockers(blocked_on=("T000",), head=""))
    )


def test_a_pause_before_the_process_lives_does_not_end_it() -> None:
    (
        play(spawning())
        .on(PAUSE)
        .to(Spawning)
        .on(on.AgentSpawned(at=21, attempt=1, process=PROCESS))
        .to(Working)
        .counts(wanted=Wanted.PAUSE)
    )
