"""What holds for every step, whatever the state and whatever the fact."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine.rules.endings import TREATMENTS, FollowUp
from lifecycle.machine.states import (
    ACTIVE,
    TERMINAL,
    WAITS,
    About,
    Accepted,
    AwaitingHuman,
    BackingOff,
    Blocked,
    Capturing,
    Completed,
    Preparing,
    PrPending,
    Reason,
    Rejected,
    Spawning,
    State,
    Stopping,
    Suspended,
    Verifying,
    Wanted,
    Working,
)
from lifecycle.machine.table import TABLE, IllegalTransition, decide, rule_name
from runtime.agents.outcome import Ending

if TYPE_CHECKING:
    from lifecycle.machine.policy import Policy
    from lifecycle.machine.step import Step

GIVEN_IN: dict[type[do.Effect], tuple[type[State], ...]] = {
    do.PrepareWorkspace: (Preparing,),
    do.SpawnAgent: (Spawning,),
    do.StopAgent: (Stopping,),
    do.FreezeAgent: (Working,),
    do.ThawAgent: (Working,),
    do.TakeSnapshot: (Capturing,),
    do.RunGates: (Verifying,),
    do.RunReview: (Verifying,),
    do.MergeBranch: (Completed,),
    do.PublishBranch: (Blocked, PrPending, Completed),
    do.LookAtBlockers: (Blocked,),
    do.OpenPullRequest: (PrPending,),
    do.LookAtPullRequest: (PrPending,),
    do.PostReplies: (PrPending, Completed),
    do.RemoveWorkspace: (Accepted, Rejected),
}
"""In which state, or in a pause of which, an order can be given."""

OPENED_BY: dict[type[State], tuple[type[do.Effect], ...]] = {
    Preparing: (do.PrepareWorkspace,),
    Spawning: (do.SpawnAgent,),
    Stopping: (do.StopAgent,),
    Capturing: (do.TakeSnapshot,),
    Verifying: (do.RunGates, do.RunReview),
}
"""Without one of these orders nothing would ever move the state on."""


def lawful(before: State, event: on.Event, policy: Policy) -> Step | None:
    """Decide, check every law, and return the step; None where the fact is refused."""
    step = _decided(before, event, policy)
    again = _decided(before, event, policy)
    if isinstance(step, IllegalTransition):
        assert isinstance(again, IllegalTransition)
        assert step.state is before
        assert step.event is event
        return None
    assert step == again
    _nothing_late_moves_anything(before, event, step)
    if type(before) in TERMINAL:
        assert step.effects == ()
        if isinstance(before, Rejected) and isinstance(event, on.RejectRequested):
            assert isinstance(step.state, Rejected)
            assert step.state.reason is Reason.PERSON, "a person has the last word"
        elif not (isinstance(before, Rejected) and isinstance(event, on.ResumeRequested)):
            assert step.state == before
    if rule_name(before, event) != "late" and not _within_a_pause(before, event):
        assert type(step.state) in TABLE[type(before), type(event)].targets
    _counts(before, step.state, policy)
    _orders(before, step)
    _rests(step.state)
    _deadlines(before, event, step.state)
    if not step.late:
        _pays(before, event, step.state, policy)
        _waits_its_time(before, event, step.state)
        _keeps_rests(before, event, step.state)
        _stops_for_a_reason(before, event, step.state, policy)
        _heeds_bots_so_often(before, event, step.state, policy)
    return step


def _decided(before: State, event: on.Event, policy: Policy) -> Step | IllegalTransition:
    try:
        return decide(before, event, policy)
    except IllegalTransition as refusal:
        return refusal


def _within_a_pause(before: State, event: on.Event) -> bool:
    return isinstance(before, Suspended) and (Suspended, type(event)) not in TABLE


def _nothing_late_moves_anything(before: State, event: on.Event, step: Step) -> None:
    if isinstance(event, on.AttemptEvent) and event.attempt != before.tally.attempt:
        assert step.late
    if step.late:
        assert step.state == before
        assert step.effects == ()


def _counts(before: State, after: State, policy: Policy) -> None:
    was, now = before.tally, after.tally
    assert was.attempt <= now.attempt <= was.attempt + 1
    assert was.spawn_count <= now.spawn_count <= was.spawn_count + 1
    requeued = now.requeues > was.requeues
    assert (0 if requeued else was.retry_count) <= now.retry_count <= was.retry_count + 1
    assert was.interruptions <= now.interruptions <= was.interruptions + 1
    assert was.attempts <= now.attempts <= now.attempt
    assert now.attempts <= policy.max_attempts
    assert now.attempts <= now.spawn_count
    assert now.retry_count <= policy.max_retries
    if not isinstance(after, Rejected):
        assert now.faults <= policy.max_faults


def _orders(before: State, step: Step) -> None:
    after = step.state
    place = type(after.inner if isinstance(after, Suspended) else after)
    for order in step.effects:
        assert place in GIVEN_IN[type(order)]
        if isinstance(order, do.AttemptEffect):
            assert order.attempt == after.tally.attempt
            assert type(after) in ACTIVE
    assert len({type(order) for order in step.effects}) == len(step.effects)
    opening = OPENED_BY.get(type(after))
    if opening is not None and type(after) is not type(before):
        assert any(isinstance(order, opening) for order in step.effects)


def _rests(after: State) -> None:
    if isinstance(after, Suspended):
        assert after.tally == after.inner.tally
        assert type(after.inner) in WAITS
    merging = isinstance(after, Completed) and after.merging
    if type(after) not in ACTIVE and not merging:
        assert after.tally.wanted is Wanted.NOTHING


def deadline(state: State) -> float | None:
    match state:
        case Blocked(until=until) | PrPending(until=until) | BackingOff(until=until):
            return until
        case AwaitingHuman(until=until):
            return until
        case Capturing(again_at=again_at) | Verifying(again_at=again_at):
            return again_at
        case _:
            return None


def _deadlines(before: State, event: on.Event, after: State) -> None:
    """No deadline lies before the instant at which it was set; a pause leaves what was left."""
    if isinstance(before, Suspended) and isinstance(after, Suspended):
        then, now, instant = deadline(before.inner), deadline(after.inner), before.since
    elif isinstance(before, Suspended):
        then, now = deadline(before.inner), deadline(after)
        if then is not None and isinstance(event, on.ResumeRequested | on.TurnPassed):
            fixed = isinstance(before.inner, BackingOff) and before.inner.fixed
            assert now == then + (0.0 if fixed else max(0.0, event.at - before.since))
        return
    elif isinstance(after, Suspended):
        then, now, instant = deadline(before), deadline(after.inner), event.at
    else:
        then, now, instant = deadline(before), deadline(after), event.at
    if now is not None and now != then:
        assert now >= instant


# --- who pays, what is waited for, what stops it ----------------------------------------------


def _pays(before: State, event: on.Event, after: State, policy: Policy) -> None:
    """Only endings that are the agent's own cost a retry, and each of them does."""
    if not isinstance(before, Capturing) or not isinstance(event, on.SnapshotTaken):
        return
    ended = before.outcome.ended
    if ended is not Ending.BREAKPOINT:
        paid = TREATMENTS[ended].then is FollowUp.RETRY
        used_up = paid and before.tally.retry_count >= policy.max_retries
        assert after.tally.retry_count == before.tally.retry_count + (paid and not used_up)
        assert not used_up or isinstance(after, Rejected)
    keeps_its_number = ended is Ending.INTERRUPTED or isinstance(after, Verifying)
    assert after.tally.attempt == before.tally.attempt + (not keeps_its_number)


def _waits_its_time(before: State, event: on.Event, after: State) -> None:
    """No attempt starts before its instant, unless a person cut the wait short."""
    if not isinstance(before, BackingOff):
        return
    if isinstance(after, BackingOff) and after.until < before.until:
        assert isinstance(event, on.ResumeRequested)
    if type(after) in ACTIVE:
        assert isinstance(event, on.Admitted)
        assert event.at >= before.until
        assert not event.over or isinstance(after, Verifying)  # gates use up no budget


def _keeps_rests(before: State, event: on.Event, after: State) -> None:
    """No program works while it rests; a rest ends with its time or by a person's word only."""
    at = before.since if isinstance(before, Suspended) else event.at
    now = {each.program: each for each in after.tally.resting}
    if isinstance(after, Spawning):
        assert after.tally.program not in now
    if isinstance(event, on.ResumeRequested):
        return
    for each in before.tally.resting:
        if each.until is None:
            assert now[each.program].until is None
        elif each.until > at:
            assert (now[each.program].until or each.until) >= each.until


def _stops_for_a_reason(before: State, event: on.Event, after: State, policy: Policy) -> None:
    """A budget stops only what used it up; the breaker opens only where nothing moved."""
    if isinstance(after, (Stopping, Capturing)) and after.outcome.ended is Ending.BUDGET:
        known = _known_ending(before) is Ending.BUDGET
        said = event.ended if isinstance(event, on.AttemptDoomed) else None
        report = event.report if isinstance(event, on.AgentExited | on.AgentStopped) else None
        assert known or Ending.BUDGET in (said, report and report.ended)
    if isinstance(after, Rejected) and after.reason is Reason.BUDGET and before != after:
        by_attempt = isinstance(before, Capturing) and before.outcome.ended is Ending.BUDGET
        assert by_attempt or (isinstance(event, on.Admitted) and event.over)
    was, now = _inner(before), _inner(after)
    opened = isinstance(now, AwaitingHuman) and now.about is About.NO_PROGRESS
    if opened and not (isinstance(was, AwaitingHuman) and was.about is About.NO_PROGRESS):
        assert isinstance(event, ENDS_AN_ATTEMPT)
        alike = now.tally.same_gates >= policy.same_gate_limit > 0
        if not alike:
            assert now.tally.tree
            assert not now.tally.moved
            assert now.tally.stuck == was.tally.stuck + 1 >= policy.stuck_limit > 0
        assert now.tally.trips == was.tally.trips + 1


def _heeds_bots_so_often(before: State, event: on.Event, after: State, policy: Policy) -> None:
    """Each attempt that a bot wakes is counted, and at the limit none is."""
    was, now = _inner(before), _inner(after)
    if isinstance(event, on.Reviewed) and event.by_bots and type(was) is not type(now):
        woken = isinstance(now, BackingOff)
        assert (
            now.tally.ci_fixes
            == was.tally.ci_fixes + woken
            <= max(policy.ci_fix_limit, was.tally.ci_fixes)
        )
        assert now.tally.conflicts == was.tally.conflicts


def _known_ending(state: State) -> Ending | None:
    match state:
        case Stopping(outcome=outcome) | Capturing(outcome=outcome):
            return outcome.ended
        case Spawning(ending=ending) if ending is not None:
            return ending.ended
        case _:
            return None


def _inner(state: State) -> State:
    return state.inner if isinstance(state, Suspended) else state


ENDS_AN_ATTEMPT = (
    on.SnapshotTaken,
    on.GatesFinished,
    on.PullRequestMoved,
    on.PullRequestUnknown,
)
