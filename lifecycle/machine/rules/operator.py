"""Rules of what people ask for: pause, resume, stop, unblock, answer, accept, reject. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.machine import circuit_breaker, programs
from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine.rules import second_opinion
from lifecycle.machine.rules.attempt import stop
from lifecycle.machine.rules.blocks import woken
from lifecycle.machine.states import (
    About,
    Accepted,
    AttemptOutcome,
    AwaitingHuman,
    BackingOff,
    Blocked,
    Completed,
    PrPending,
    Queued,
    Reason,
    Rejected,
    State,
    Suspended,
    Wanted,
    Working,
    counted,
    is_held,
)
from lifecycle.machine.step import (
    IllegalTransition,
    Step,
    is_before_work,
    land,
    may_resolve,
    prepare_again,
    reject,
    resolve,
    retries_used_up,
    suspend,
    try_once,
    untroubled,
    verify_now,
    wake,
)
from lifecycle.machine.values import changed
from runtime.agents.outcome import Ending

if TYPE_CHECKING:
    from lifecycle.machine.policy import Policy


ANSWERABLE = (
    *(About.QUESTION, About.BLOCKED_TIMEOUT, About.CI_LIMIT, About.NO_PROGRESS),
    About.CONFLICT,
)

_OF_TASK = "which its task names: in its plan, or `loopwright run --task-id TASK --max-retries N`"
_OF_SETTINGS = "which `loopwright settings` shows with the place where it is set"

Resumption = on.ResumeRequested | on.TurnPassed
"""What ends a pause: a person's word, or the last of its turns."""

# --- going on ---------------------------------------------------------------------------------


def unblock(  # noqa: PLR0911  # one per thing waited for
    state: Blocked | AwaitingHuman, event: on.Unblocked, policy: Policy
) -> Step:
    """Take a person's word that the blocker is gone."""
    if isinstance(state, AwaitingHuman) and state.about is About.REVIEW:
        return Step(state, late=True)
    if isinstance(state, AwaitingHuman) and state.about is About.DEPENDENCY:
        return Step(Queued(tally=state.tally))
    if isinstance(state, AwaitingHuman) and is_before_work(state):
        return prepare_again(state, event.at, _said("unblocked", event.by, event.note or event.why))
    said = _said("unblocked", event.by, event.note or event.why)
    if isinstance(state, AwaitingHuman) and state.verify is not None:
        if state.about is About.OPINION:
            return second_opinion.overruled(state, event.at, policy, said)
        return verify_now(state, event.at, said, approved=True)
    if _is_stuck(state):
        return try_once(state, event.at, policy, said)
    return _go_on(_trusted_again(state), event.at, said)


def _is_stuck(state: Blocked | AwaitingHuman) -> bool:
    return isinstance(state, AwaitingHuman) and state.about is About.NO_PROGRESS


def _trusted_again(state: Blocked | AwaitingHuman) -> Blocked | AwaitingHuman:
    """A person looked at it: earlier failures no longer count."""
    return counted(state, ci_fixes=0, conflicts=0)


def _go_on(state: Blocked | AwaitingHuman, at: float, why: str) -> Step:
    """Start the next attempt; who was blocked gets the work that is there of what it named."""
    if isinstance(state, Blocked) or state.about is About.BLOCKED_TIMEOUT:
        return woken(state, at, why)
    return wake(state, at, why)


def skip_dependencies(state: Queued, event: on.Unblocked, policy: Policy) -> Step:
    """Start without the tasks it waits for, because a person says so."""
    del event, policy
    return Step(changed(state, waiting_on=()))


def stop_waiting_for_merge(state: PrPending, event: on.Unblocked, policy: Policy) -> Step:
    """Continue without the merge, because a person says so."""
    del policy
    return wake(
        state, event.at, _said("continued without the merge", event.by, event.note or event.why)
    )


def answer(state: Blocked | AwaitingHuman, event: on.Answered, policy: Policy) -> Step:
    """Start the next attempt with the answer in its summary."""
    if isinstance(state, AwaitingHuman) and state.about not in ANSWERABLE:
        return Step(state, late=True)
    if _is_stuck(state):
        return try_once(state, event.at, policy, _said("answered", event.by, ""))
    if isinstance(state, AwaitingHuman) and is_before_work(state):
        return prepare_again(state, event.at, _said("answered", event.by, ""))
    return _go_on(_trusted_again(state), event.at, _said("answered", event.by, ""))


def guide_waiting(state: AwaitingHuman, event: on.Guided, policy: Policy) -> Step:
    """Try once more with a person's guidance where nothing moved; else keep it for later.

    Work whose set-up waits for a decision goes back to a fresh attempt, and so does work that a
    reviewer did not approve.
    """
    if state.about is About.OPINION:
        said = _said("sent back with guidance", event.by, "")
        return second_opinion.sent_back(state, event.at, said)
    if state.about is About.SETUP:
        over = counted(state, attempt=state.tally.attempt + 1)
        return wake(over, event.at, _said("sent back with guidance", event.by, ""))
    if not _is_stuck(state):
        return Step(state)
    return try_once(state, event.at, policy, _said("guided", event.by, ""))


def approve(state: AwaitingHuman, event: on.SummaryApproved, policy: Policy) -> Step:
    """Release the attempt whose summary was read."""
    del policy
    if state.about is not About.REVIEW:
        return Step(state, late=True)
    why = _said("summary approved", event.by, "")
    back = BackingOff(tally=state.tally, until=event.at, why=why, approved=True)
    return land(back, event.at)


def send_back(state: Completed, event: on.Guided, policy: Policy) -> Step:
    """Give completed work back to a fresh attempt with what is missing."""
    del policy
    if state.merging:
        return Step(state, late=True)
    looked_at = counted(state, conflicts=0, review_rounds=0)
    return wake(looked_at, event.at, _said("sent back with guidance", event.by, ""))


def hurry(state: BackingOff, event: on.ResumeRequested, policy: Policy) -> Step:
    """Cut the wait short; a limit that is said to be over is tried."""
    if state.until <= event.at:
        return try_programs_again(state, event, policy)
    return Step(changed(state, tally=programs.awake(state.tally), until=event.at, fixed=False))


def try_programs_again(state: State, event: Resumption, policy: Policy) -> Step:
    """Try unavailable programs again: a person says that they work, or their limit is over."""
    del event, policy
    if not state.tally.resting:
        return Step(state, late=True)
    return Step(changed(state, tally=programs.awake(state.tally)))


def reopen(state: Rejected, event: on.ResumeRequested, policy: Policy) -> Step:
    """Continue after its cause was fixed; counters are kept, so a limit must be raised first.

    Only what goes back into the queue has all its retries again.
    """
    tally = state.tally
    if state.reason is Reason.PERSON:
        raise IllegalTransition(state, event, "what a person rejected stays rejected")
    if event.anew and state.reason is Reason.BUDGET:
        raise IllegalTransition(state, event, "its budget is used up: raise it first")
    if event.anew:
        tally = changed(tally, retry_count=0, requeues=tally.requeues + 1)
    elif state.reason is Reason.MAX_RETRIES and retries_used_up(tally, policy):
        used = f"{tally.retry_count} of {policy.max_retries} retries used"
        where = _OF_TASK if policy.own_retries else _OF_SETTINGS
        raise IllegalTransition(state, event, f"{used}: raise max_retries first, {where}")
    if tally.attempt > policy.max_attempts:
        used = f"{tally.attempt - 1} of {policy.max_attempts} attempts used"
        raise IllegalTransition(state, event, f"{used}: raise max_attempts first, {_OF_SETTINGS}")
    fresh = untroubled(
        changed(circuit_breaker.forgotten(programs.awake(tally)), signature="", unfit=0)
    )
    back = BackingOff(
        tally=fresh,
        until=event.at,
        why=_said("taken up again", event.by, event.why),
        prepare=tally.spawn_count == 0,
    )
    return Step(back)


# --- holding and ending -----------------------------------------------------------------------


def pause_after_attempt(state: State, event: on.PauseRequested, policy: Policy) -> Step:
    """Let the attempt under way end; hold the next one."""
    del policy
    return _hold(state, event)


def turn_passed(state: State, event: on.TurnPassed, policy: Policy) -> Step:
    """Count a pause down, and end it with its last turn."""
    left = state.tally.pause_turns - 1
    if left < 0 or not is_held(state):
        return Step(state, late=True)
    if isinstance(state, Suspended):
        inner = counted(state.inner, pause_turns=left)
        held = suspend(inner, state.since, stopped=state.stopped)
        return Step(held) if left else resume(held, event, policy)
    asked = counted(state, pause_turns=left)
    if left:
        return Step(asked)
    if isinstance(asked, Working):
        return resume_working(asked, event, policy)
    return unpause(asked, event, policy)


def unpause(state: State, event: Resumption, policy: Policy) -> Step:
    """Forget a pause that did not begin yet; a stop that came with it stands."""
    match state.tally.wanted:
        case Wanted.PAUSE:
            return Step(counted(state, wanted=Wanted.NOTHING, wanted_by="", pause_turns=0))
        case Wanted.HOLD:
            return Step(counted(state, wanted=Wanted.STOP, pause_turns=0))
        case _:
            return try_programs_again(state, event, policy)


def pause_working(state: Working, event: on.PauseRequested, policy: Policy) -> Step:
    """Hold the next attempt and, if that is asked for, freeze this one."""
    step = pause_after_attempt(state, event, policy)
    if not event.now or state.frozen:
        return step
    order = do.FreezeAgent(attempt=state.tally.attempt)
    return Step(changed(state, tally=step.state.tally, frozen=True), (order,))


def resume_working(state: Working, event: Resumption, policy: Policy) -> Step:
    """Let a frozen process continue, and the next attempt follow."""
    step = unpause(state, event, policy)
    if not state.frozen:
        return step
    order = do.ThawAgent(attempt=state.tally.attempt)
    return Step(changed(state, tally=step.state.tally, frozen=False), (order,))


def not_frozen(state: Working, event: on.FreezeFailed, policy: Policy) -> Step:
    """Record that the process keeps running; the next attempt is still held."""
    del event, policy
    return Step(changed(state, frozen=False))


def pause_wait(state: State, event: on.PersonEvent, policy: Policy) -> Step:
    """Hold a wait at once; its clocks stand still."""
    del policy
    held = counted(state, pause_turns=_turns(event))
    return Step(suspend(held, event.at, stopped=_is_stop(event)))


def resume(state: Suspended, event: Resumption, policy: Policy) -> Step:
    """Let the clocks continue where they stopped."""
    del policy
    return Step(resumed(state, event.at))


def resumed(state: Suspended, at: float) -> State:
    """Return what was held, with its deadlines moved by how long that lasted."""
    shift = max(0.0, at - state.since)
    inner = state.inner
    match inner:
        case BackingOff(fixed=True):
            pass
        case Blocked() | PrPending() | BackingOff():
            inner = changed(inner, until=inner.until + shift)
        case AwaitingHuman(until=until) if until is not None:
            inner = changed(inner, until=until + shift)
        case _:
            pass
    return changed(inner, tally=changed(state.tally, pause_turns=0))


def stop_working(state: Working, event: on.StopRequested, policy: Policy) -> Step:
    """End the agent now; the attempt is nobody's fault and keeps its number."""
    del policy
    if event.pause:
        state = counted(
            state, wanted=Wanted.HOLD, wanted_stop=True, wanted_by=event.by, pause_turns=0
        )
    text = _said("stopped", event.by or "the runner", event.why)
    return stop(state, AttemptOutcome(ended=Ending.INTERRUPTED, text=text))


def stop_soon(state: State, event: on.StopRequested, policy: Policy) -> Step:
    """End the attempt as soon as it can be ended."""
    del policy
    before = state.tally.wanted
    held = event.pause or before is Wanted.PAUSE
    if before in (Wanted.HOLD, Wanted.REJECT) or (before is Wanted.STOP and not held):
        return Step(state, late=True)
    wanted = Wanted.HOLD if held else Wanted.STOP
    turns = 0 if event.pause else state.tally.pause_turns
    return Step(
        counted(
            state, wanted=wanted, wanted_stop=event.pause, wanted_by=event.by, pause_turns=turns
        )
    )


def hold_next(state: State, event: on.StopRequested, policy: Policy) -> Step:
    """The process is gone already; only the next attempt can be held."""
    del policy
    return _hold(state, event) if event.pause else Step(state, late=True)


def _hold(state: State, event: on.PersonEvent) -> Step:
    after = {Wanted.NOTHING: Wanted.PAUSE, Wanted.STOP: Wanted.HOLD}.get(state.tally.wanted)
    if after is None:
        return Step(state, late=True)
    return Step(
        counted(
            state,
            wanted=after,
            wanted_stop=_is_stop(event),
            wanted_by=event.by,
            pause_turns=_turns(event),
        )
    )


def _is_stop(event: on.PersonEvent) -> bool:
    return isinstance(event, on.StopRequested)


def _turns(event: on.PersonEvent) -> int:
    """The person who stops an agent wants to resume it."""
    return event.turns if isinstance(event, on.PauseRequested) else 0


def reject_working(state: Working, event: on.RejectRequested, policy: Policy) -> Step:
    """End the agent, keep its work under a saved ref, end the lifecycle."""
    del policy
    state = counted(state, wanted=Wanted.REJECT, wanted_by=event.by, wanted_why=event.why)
    return stop(state, AttemptOutcome(ended=Ending.INTERRUPTED, text="rejected by a person"))


def reject_soon(state: State, event: on.RejectRequested, policy: Policy) -> Step:
    """End the lifecycle as soon as the attempt under way can be ended."""
    del policy
    return Step(counted(state, wanted=Wanted.REJECT, wanted_by=event.by, wanted_why=event.why))


def reject_now(state: State, event: on.RejectRequested, policy: Policy) -> Step:
    """End the lifecycle; unmerged work stays under a saved ref."""
    del policy
    text = _said("rejected", event.by, event.why)
    return reject(state, Reason.PERSON, text, do.RemoveWorkspace())


def reject_given_up(state: Rejected, event: on.RejectRequested, policy: Policy) -> Step:
    """Let a person have the last word on what ended by itself; it stays ended from then on."""
    del policy
    if state.reason is Reason.PERSON:
        return Step(state, late=True)
    text = f"{_said('rejected', event.by, event.why)}; it was given up before: {state.text}"
    return Step(changed(state, reason=Reason.PERSON, text=text))


def reject_completed(state: Completed, event: on.RejectRequested, policy: Policy) -> Step:
    """Wait for a merge under way: it cannot be called back, only fail."""
    return (reject_soon if state.merging else reject_now)(state, event, policy)


# --- the end ----------------------------------------------------------------------------------


def accept(state: Completed, event: on.AcceptRequested, policy: Policy) -> Step:
    """Order the merge; asking twice orders it once."""
    del policy
    if not state.head.startswith(event.head):
        seen = f"its work is at {state.head[:12]} now, and {event.head[:12]} was looked at"
        raise IllegalTransition(state, event, f"{seen}: look at it again")
    if state.merging:
        return Step(state, late=True)
    order = do.MergeBranch(head=state.head, along=event.along, verify=event.verify)
    return Step(changed(state, merging=True, problem="", along=()), (order,))


def merged(state: Completed, event: on.MergeSucceeded, policy: Policy) -> Step:
    """The work is part of its base; the workspace is not needed any more."""
    del policy
    accepted = Accepted(
        tally=changed(state.tally, wanted=Wanted.NOTHING, wanted_by="", wanted_why=""),
        commit=event.commit,
        summary=state.summary,
        changed_files=state.changed_files,
    )
    return Step(accepted, (do.RemoveWorkspace(),))


def not_merged(state: Completed, event: on.MergeFailed, policy: Policy) -> Step:
    """Give to an agent what does not go together; all else is for a person to decide."""
    text = event.text
    if event.apart and policy.resolves:
        if may_resolve(state.tally, policy):
            return resolve(changed(state, merging=False), event.at, text, state.head)
        text = f"{text}; {state.tally.conflicts} attempts to resolve that failed"
    refused = changed(state, merging=False, problem=text, along=event.along)
    return land(refused, event.at)


def along_accepted(state: Completed, event: on.AlongAccepted, policy: Policy) -> Step:
    """Forget a refusal whose reason is gone."""
    del policy
    if event.agent_id not in state.along:
        return Step(state, late=True)
    left = tuple(agent for agent in state.along if agent != event.agent_id)
    return Step(changed(state, along=left, problem=state.problem if left else ""))


def _said(what: str, by: str, why: str) -> str:
    text = f"{what} by {by or 'a person'}"
    return f"{text}: {why}" if why else text
