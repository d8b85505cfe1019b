"""The table: in which state which fact leads where. Everything that changes a state is in here.

Each line names a state, an event, the function that decides, and every state it may lead to. The
diagram in docs/reference/state-machine.md is generated from these lines.

`decide` answers with the step, or with `late=True` for what belongs to something already over, or
raises `IllegalTransition` for what nobody expected; it never guesses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

from lifecycle.machine import events as on
from lifecycle.machine.events import AttemptEvent, Event
from lifecycle.machine.rules import attempt, blocks, capture_and_verify, second_opinion, waits
from lifecycle.machine.rules import operator as people
from lifecycle.machine.states import (
    ACTIVE,
    Accepted,
    AwaitingHuman,
    BackingOff,
    Blocked,
    Capturing,
    Completed,
    Preparing,
    PrPending,
    Queued,
    Rejected,
    Spawning,
    State,
    Stopping,
    Suspended,
    Verifying,
    Working,
    spawn_of,
)
from lifecycle.machine.step import IllegalTransition, Step, suspend
from lifecycle.machine.values import changed

if TYPE_CHECKING:
    from collections.abc import Callable

    from lifecycle.machine.policy import Policy

    Decision = Callable[[Any, Any, Policy], Step]

__all__ = ["RULES", "TABLE", "IllegalTransition", "decide", "rule", "rule_name"]

S = TypeVar("S", bound=State)
E = TypeVar("E", bound=Event)


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of the table."""

    state: type[State]
    event: type[Event]
    decide: Decision
    targets: tuple[type[State], ...]


def rule(
    state: type[S],
    event: type[E],
    function: Callable[[S, E, Policy], Step],
    *targets: type[State],
) -> Rule:
    """Tie state, event and function together; mypy checks that they fit."""
    return Rule(state, event, cast("Decision", function), targets)


WOKEN = (BackingOff, AwaitingHuman, Rejected)
"""Where a wait leads that may end in a charged failure."""

RULES: tuple[Rule, ...] = (
    # in this state  on this fact                does this                     and may lead to
    rule(Queued, on.Admitted, attempt.begin, Queued, Preparing, Rejected),
    rule(Queued, on.DependencySettled, waits.dependency_settled, Queued, AwaitingHuman),
    rule(Queued, on.Unblocked, people.skip_dependencies, Queued),
    rule(Queued, on.Guided, attempt.note, Queued),
    rule(Queued, on.PauseRequested, people.pause_wait, Suspended),
    rule(Queued, on.StopRequested, people.pause_wait, Suspended),
    rule(Queued, on.RejectRequested, people.reject_now, Rejected),
    # one attempt: before the agent lives
    rule(Preparing, on.WorkspaceReady, attempt.first_spawn,
         Spawning, AwaitingHuman, BackingOff, Suspended, Rejected),
    rule(Preparing, on.WorkJoined, attempt.joined,
         Spawning, AwaitingHuman, BackingOff, Suspended, Rejected),
    rule(Preparing, on.WorkspaceFailed, attempt.no_workspace,
         BackingOff, AwaitingHuman, Suspended, Rejected),
    rule(Preparing, on.Guided, attempt.note, Preparing),
    rule(Preparing, on.Reviewed, attempt.note, Preparing),
    rule(Preparing, on.PauseRequested, people.pause_after_attempt, Preparing),
    rule(Preparing, on.ResumeRequested, people.unpause, Preparing),
    rule(Preparing, on.TurnPassed, people.turn_passed, Preparing),
    rule(Preparing, on.StopRequested, people.stop_soon, Preparing),
    rule(Preparing, on.RejectRequested, people.reject_soon, Preparing),
    rule(Spawning, on.AgentSpawned, attempt.work, Working, Stopping),
    rule(Spawning, on.SpawnFailed, attempt.no_spawn, BackingOff, Suspended, Rejected),
    rule(Spawning, on.BreakpointReached, attempt.breakpoint_reached, Spawning),
    rule(Spawning, on.LimitReached, attempt.limit_reached, Spawning),
    rule(Spawning, on.AttemptDoomed, attempt.doomed, Spawning),
    rule(Spawning, on.MailboxInvalid, attempt.note, Spawning),
    rule(Spawning, on.AgentExited, attempt.exited, Capturing),
    rule(Spawning, on.RunnerRestarted, attempt.spawn_again, BackingOff, Suspended, Capturing),
    rule(Spawning, on.Guided, attempt.note, Spawning),
    rule(Spawning, on.Reviewed, attempt.note, Spawning),
    rule(Spawning, on.PauseRequested, people.pause_after_attempt, Spawning),
    rule(Spawning, on.ResumeRequested, people.unpause, Spawning),
    rule(Spawning, on.TurnPassed, people.turn_passed, Spawning),
    rule(Spawning, on.StopRequested, people.stop_soon, Spawning),
    rule(Spawning, on.RejectRequested, people.reject_soon, Spawning),
    # while it lives
    rule(Working, on.BreakpointReached, attempt.breakpoint_reached, Stopping),
    rule(Working, on.AgentExited, attempt.exited, Capturing),
    rule(Working, on.LimitReached, attempt.limit_reached, Stopping),
    rule(Working, on.AttemptDoomed, attempt.doomed, Stopping),
    rule(Working, on.MailboxInvalid, attempt.note, Working),
    rule(Working, on.RunnerRestarted, attempt.lost_while_working, Capturing),
    rule(Working, on.Guided, attempt.note, Working),
    rule(Working, on.Reviewed, attempt.note, Working),
    rule(Working, on.PauseRequested, people.pause_working, Working),
    rule(Working, on.ResumeRequested, people.resume_working, Working),
    rule(Working, on.TurnPassed, people.turn_passed, Working),
    rule(Working, on.FreezeFailed, people.not_frozen, Working),
    rule(Working, on.StopRequested, people.stop_working, Stopping),
    rule(Working, on.RejectRequested, people.reject_working, Stopping),
    # while it is being ended
    rule(Stopping, on.AgentStopped, attempt.stopped, Capturing),
    rule(Stopping, on.RunnerRestarted, attempt.lost_while_stopping, Capturing),
    rule(Stopping, on.Guided, attempt.note, Stopping),
    rule(Stopping, on.Reviewed, attempt.note, Stopping),
    rule(Stopping, on.PauseRequested, people.pause_after_attempt, Stopping),
    rule(Stopping, on.ResumeRequested, people.unpause, Stopping),
    rule(Stopping, on.TurnPassed, people.turn_passed, Stopping),
    rule(Stopping, on.StopRequested, people.hold_next, Stopping),
    rule(Stopping, on.RejectRequested, people.reject_soon, Stopping),
    # when it is gone
    rule(Capturing, on.SnapshotTaken, capture_and_verify.conclude,
         Verifying, Completed, Blocked, PrPending, AwaitingHuman, BackingOff, Suspended, Rejected),
    rule(Capturing, on.SnapshotFailed, capture_and_verify.no_snapshot, Capturing, Rejected),
    rule(Capturing, on.DeadlinePassed, capture_and_verify.capture_again, Capturing),
    rule(Capturing, on.Guided, attempt.note, Capturing),
    rule(Capturing, on.Reviewed, attempt.note, Capturing),
    rule(Capturing, on.PauseRequested, people.pause_after_attempt, Capturing),
    rule(Capturing, on.ResumeRequested, people.unpause, Capturing),
    rule(Capturing, on.TurnPassed, people.turn_passed, Capturing),
    rule(Capturing, on.StopRequested, people.hold_next, Capturing),
    rule(Capturing, on.RejectRequested, people.reject_soon, Capturing),
    rule(Verifying, on.GatesFinished, capture_and_verify.judged,
         Completed, Verifying, BackingOff, AwaitingHuman, Suspended, Rejected),
    rule(Verifying, on.ReviewFinished, second_opinion.reviewed,
         Completed, PrPending, Verifying, BackingOff, AwaitingHuman, Suspended, Rejected),
    rule(Verifying, on.DeadlinePassed, capture_and_verify.verify_again, Verifying),
    rule(Verifying, on.Guided, attempt.note, Verifying),
    rule(Verifying, on.Reviewed, attempt.note, Verifying),
    rule(Verifying, on.PauseRequested, people.pause_after_attempt, Verifying),
    rule(Verifying, on.ResumeRequested, people.unpause, Verifying),
    rule(Verifying, on.TurnPassed, people.turn_passed, Verifying),
    rule(Verifying, on.StopRequested, people.hold_next, Verifying),
    rule(Verifying, on.RejectRequested, people.reject_soon, Verifying),
    # waits
    rule(Blocked, on.BlockersLooked, blocks.looked, Blocked, BackingOff, AwaitingHuman),
    rule(Blocked, on.CiReported, blocks.ci_unblocks, Blocked, BackingOff),
    rule(Blocked, on.PullRequestMoved, blocks.ci_unblocks, Blocked, BackingOff),
    rule(Blocked, on.DependencySettled, blocks.blocker_settled, Blocked),
    rule(Blocked, on.DeadlinePassed, blocks.blocked_deadline, Blocked, AwaitingHuman),
    rule(Blocked, on.Unblocked, people.unblock, BackingOff),
    rule(Blocked, on.Answered, people.answer, BackingOff),
    rule(Blocked, on.ResumeRequested, people.try_programs_again, Blocked),
    rule(Blocked, on.Guided, attempt.note, Blocked),
    rule(Blocked, on.Reviewed, attempt.note, Blocked),
    rule(Blocked, on.PauseRequested, people.pause_wait, Suspended),
    rule(Blocked, on.StopRequested, people.pause_wait, Suspended),
    rule(Blocked, on.RejectRequested, people.reject_now, Rejected),
    rule(PrPending, on.PullRequestOpened, waits.opened, PrPending),
    rule(PrPending, on.PullRequestUnknown, waits.unknown, PrPending, *WOKEN),
    rule(PrPending, on.PullRequestMoved, waits.moved, PrPending, *WOKEN),
    rule(PrPending, on.Reviewed, waits.reviewed, PrPending, BackingOff, AwaitingHuman),
    rule(PrPending, on.DeadlinePassed, waits.pr_deadline, PrPending, AwaitingHuman),
    rule(PrPending, on.Unblocked, people.stop_waiting_for_merge, BackingOff),
    rule(PrPending, on.ResumeRequested, people.try_programs_again, PrPending),
    rule(PrPending, on.Guided, attempt.note, PrPending),
    rule(PrPending, on.PauseRequested, people.pause_wait, Suspended),
    rule(PrPending, on.StopRequested, people.pause_wait, Suspended),
    rule(PrPending, on.RejectRequested, people.reject_now, Rejected),
    rule(BackingOff, on.Admitted, attempt.respawn,
         BackingOff, Preparing, Spawning, Verifying, AwaitingHuman, Rejected),
    rule(BackingOff, on.ResumeRequested, people.hurry, BackingOff),
    rule(BackingOff, on.Guided, attempt.note, BackingOff),
    rule(BackingOff, on.Reviewed, attempt.note, BackingOff),
    rule(BackingOff, on.PauseRequested, people.pause_wait, Suspended),
    rule(BackingOff, on.StopRequested, people.pause_wait, Suspended),
    rule(BackingOff, on.RejectRequested, people.reject_now, Rejected),
    rule(AwaitingHuman, on.Answered, people.answer, AwaitingHuman, BackingOff),
    rule(AwaitingHuman, on.Unblocked, people.unblock,
         AwaitingHuman, Queued, BackingOff, Completed, PrPending),
    rule(AwaitingHuman, on.SummaryApproved, people.approve, AwaitingHuman, BackingOff),
    rule(AwaitingHuman, on.DeadlinePassed, waits.human_deadline, AwaitingHuman, BackingOff),
    rule(AwaitingHuman, on.ResumeRequested, waits.rearm,
         AwaitingHuman, Blocked, PrPending, BackingOff, Queued),
    rule(AwaitingHuman, on.PullRequestMoved, waits.moved_after_timeout, Blocked, *WOKEN),
    rule(AwaitingHuman, on.Reviewed, waits.reviewed_late, AwaitingHuman, BackingOff),
    rule(AwaitingHuman, on.DependencySettled, waits.dependency_came_late,
         AwaitingHuman, Queued, Blocked),
    rule(AwaitingHuman, on.CiReported, blocks.ci_came_late, AwaitingHuman, BackingOff, Blocked),
    rule(AwaitingHuman, on.Guided, people.guide_waiting, AwaitingHuman, BackingOff),
    rule(AwaitingHuman, on.PauseRequested, people.pause_wait, Suspended),
    rule(AwaitingHuman, on.StopRequested, people.pause_wait, Suspended),
    rule(AwaitingHuman, on.RejectRequested, people.reject_now, Rejected),
    rule(Suspended, on.ResumeRequested, people.resume,
         Queued, Blocked, PrPending, BackingOff, AwaitingHuman),
    rule(Suspended, on.TurnPassed, people.turn_passed,
         Suspended, Queued, Blocked, PrPending, BackingOff, AwaitingHuman),
    rule(Suspended, on.RejectRequested, people.reject_now, Rejected),
    # the end
    rule(Completed, on.AcceptRequested, people.accept, Completed),
    rule(Completed, on.MergeSucceeded, people.merged, Accepted),
    rule(Completed, on.MergeFailed, people.not_merged, Completed, BackingOff, Rejected),
    rule(Completed, on.AlongAccepted, people.along_accepted, Completed),
    rule(Completed, on.Guided, people.send_back, Completed, BackingOff),
    rule(Completed, on.Reviewed, attempt.note, Completed),
    rule(Completed, on.RejectRequested, people.reject_completed, Completed, Rejected),
    rule(Accepted, on.WorkspaceRemoved, attempt.note, Accepted),
    rule(Rejected, on.WorkspaceRemoved, attempt.note, Rejected),
    rule(Rejected, on.ResumeRequested, people.reopen, BackingOff),
    rule(Rejected, on.RejectRequested, people.reject_given_up, Rejected),
)  # fmt: skip

TABLE: dict[tuple[type[State], type[Event]], Rule] = {
    (line.state, line.event): line for line in RULES
}

OUTSIDE: tuple[type[Event], ...] = (
    on.CiReported,
    on.PullRequestOpened,
    on.PullRequestUnknown,
    on.PullRequestMoved,
    on.Reviewed,
    on.BlockersLooked,
    on.DependencySettled,
    on.AlongAccepted,
    on.DeadlinePassed,
    on.TurnPassed,
    on.Admitted,
)
"""Facts that may reach any state: the world does not know what we wait for."""

REPEATED: dict[type[State], tuple[type[Event], ...]] = {
    Suspended: (on.PauseRequested, on.StopRequested),
    Accepted: (on.AcceptRequested, on.StopRequested, on.PauseRequested),
    Rejected: (on.StopRequested, on.PauseRequested),
    Completed: (on.StopRequested, on.PauseRequested, on.ResumeRequested),
    Queued: (on.ResumeRequested,),
}
"""What people may ask for twice, or too late, without harm."""

HEARD_WHILE_SUSPENDED: tuple[type[Event], ...] = (
    on.CiReported,
    on.PullRequestOpened,
    on.PullRequestUnknown,
    on.PullRequestMoved,
    on.Reviewed,
    on.BlockersLooked,
    on.DependencySettled,
    on.Unblocked,
    on.Answered,
    on.Guided,
    on.SummaryApproved,
)
"""What must not be lost only because a person paused the loop."""


def decide(state: State, event: Event, policy: Policy) -> Step:
    """Return what follows from this fact in this state."""
    if _is_stale(state, event):
        return Step(state, late=True)
    if isinstance(state, Suspended) and isinstance(event, HEARD_WHILE_SUSPENDED):
        return _within_suspension(state, event, policy)
    line = TABLE.get((type(state), type(event)))
    if line is not None:
        return line.decide(state, event, policy)
    if _is_late(state, event):
        return Step(state, late=True)
    raise IllegalTransition(state, event)


def rule_name(state: State, event: Event) -> str:
    """Name the function that decides, for the journal and `show --why`."""
    if _is_stale(state, event):
        return "late"
    if isinstance(state, Suspended) and isinstance(event, HEARD_WHILE_SUSPENDED):
        return rule_name(state.inner, event)
    line = TABLE.get((type(state), type(event)))
    return line.decide.__name__ if line is not None else "late"


def _is_stale(state: State, event: Event) -> bool:
    """Tell whether it speaks of another attempt, or of another process of the same."""
    if not isinstance(event, AttemptEvent):
        return False
    if event.attempt != state.tally.attempt:
        return True
    theirs, ours = event.speaks_of, spawn_of(state)
    # Of a process without an id, which earlier versions wrote, nothing but the number is known.
    return bool(theirs) and ours not in ("", theirs)


def _is_late(state: State, event: Event) -> bool:
    if isinstance(event, AttemptEvent):
        # The attempt itself is meant, but it has moved on: an exit after the stop was ordered.
        return not isinstance(state, ACTIVE) or isinstance(
            state, (Stopping, Capturing, Verifying, Working)
        )
    return isinstance(event, (*OUTSIDE, *REPEATED.get(type(state), ())))


def _within_suspension(state: Suspended, event: Event, policy: Policy) -> Step:
    # The clocks stand still in here, so that `resume` can move every deadline by the same span.
    try:
        step = decide(state.inner, changed(event, at=state.since), policy)
    except IllegalTransition as refusal:
        raise IllegalTransition(state, event, refusal.why) from refusal
    if step.late or isinstance(step.state, Rejected):
        return changed(step, state=state) if step.late else step
    if isinstance(step.state, Completed):  # nothing is left to hold
        return decide(people.resumed(state, event.at), event, policy)
    return Step(suspend(step.state, state.since, stopped=state.stopped), step.effects)
