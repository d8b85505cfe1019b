"""What a rule answers, and the moves that several rules share. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lifecycle.machine import circuit_breaker, programs
from lifecycle.machine import effects as do
from lifecycle.machine.effects import Effect  # noqa: TC001  # the JSON form reads annotations
from lifecycle.machine.events import Fault
from lifecycle.machine.policy import delay
from lifecycle.machine.states import (
    ITS_BASE,
    About,
    AwaitingHuman,
    BackingOff,
    Preparing,
    Reason,
    Rejected,
    Spawning,
    State,
    Suspended,
    Tally,
    Verifying,
    Wanted,
)
from lifecycle.machine.values import changed

if TYPE_CHECKING:
    from lifecycle.machine import events as on
    from lifecycle.machine.events import Event
    from lifecycle.machine.policy import Policy


class IllegalTransition(Exception):  # noqa: N818  # the word the design uses for it
    """Nobody expected this fact in this state, or it cannot be granted; nothing was changed."""

    def __init__(self, state: State, event: Event, why: str = "") -> None:
        self.state, self.event, self.why = state, event, why
        name = f"{type(event).__name__} is not possible while {type(state).__name__}"
        super().__init__(f"{name}: {why}" if why else name)


@dataclass(frozen=True)
class Step:
    """The state that follows and the orders that go with it."""

    state: State
    effects: tuple[Effect, ...] = ()
    late: bool = False
    """The event belonged to something already over; nothing changed."""


def land(state: State, at: float, *effects: Effect) -> Step:
    """Come to rest after an attempt, and carry out what was asked for meanwhile."""
    tally = state.tally
    if tally.wanted is Wanted.REJECT:
        return reject(state, Reason.PERSON, "")
    if tally.wanted is Wanted.NOTHING:
        return Step(state, effects)
    nothing = changed(tally, wanted=Wanted.NOTHING, wanted_stop=False, wanted_by="", wanted_why="")
    quiet = changed(state, tally=nothing)
    if tally.wanted in (Wanted.PAUSE, Wanted.HOLD):
        return Step(suspend(quiet, at, stopped=tally.wanted_stop), effects)
    return Step(quiet, effects)


def suspend(inner: State, at: float, *, stopped: bool) -> Suspended:
    """Hold a wait; its clocks stand still from now on."""
    return Suspended(tally=inner.tally, inner=inner, since=at, stopped=stopped)


def reject(state: State, reason: Reason, text: str, *effects: Effect) -> Step:
    """End without acceptance; a person who asked for it is the reason, not what came after."""
    if state.tally.wanted is Wanted.REJECT:
        reason, text, effects = Reason.PERSON, _by(state.tally), (do.RemoveWorkspace(),)
    tally = changed(state.tally, wanted=Wanted.NOTHING, wanted_by="", wanted_why="")
    return Step(Rejected(tally=tally, reason=reason, text=text), effects)


def wake(state: State, at: float, why: str) -> Step:
    """Let the next attempt start as soon as there is a slot; it costs no retry."""
    return land(BackingOff(tally=state.tally, until=at, why=why), at)


def verify_now(state: AwaitingHuman, at: float, why: str, *, approved: bool) -> Step:
    """Repeat the verdict that waited for a person as soon as there is a slot."""
    verify = changed(state.verify, setup_approved=approved) if state.verify is not None else None
    return land(BackingOff(tally=state.tally, until=at, why=why, verify=verify), at)


def judge(state: Verifying) -> do.RunGates | do.RunReview:
    """Order what is asked next about the commit: its gates, or once they passed, the reviewer."""
    order = do.RunGates if state.green is None else do.RunReview
    return order(attempt=state.tally.attempt, head=state.head)


def is_before_work(state: AwaitingHuman) -> bool:
    """Tell whether no workspace was made yet, because what it builds on does not go together."""
    return state.about is About.CONFLICT and not state.tally.spawn_count


def prepare_again(state: State, at: float, why: str) -> Step:
    """Try once more to make the workspace."""
    return land(BackingOff(tally=state.tally, until=at, why=why, prepare=True), at)


def may_resolve(tally: Tally, policy: Policy) -> bool:
    """Tell whether an agent gets one more attempt at what does not go together."""
    return policy.resolves and tally.conflicts < policy.conflict_limit


def resolve(state: State, at: float, why: str, head: str = "") -> Step:
    """Wake an attempt that finds the merge with its base begun; nobody pays, but it is counted."""
    tally = changed(
        state.tally,
        conflicts=state.tally.conflicts + 1,
        merge=(ITS_BASE,),
        merge_head=head or state.tally.merge_head,
    )
    return wake(changed(state, tally=tally), at, why)


def resolved(tally: Tally) -> Tally:
    """Return the counters of work that is handed over; whether it merges now will be seen."""
    return changed(tally, merge=(), merge_head="") if tally.merge or tally.merge_head else tally


def fail(  # noqa: PLR0913  # each names one fact of the failure
    state: State, at: float, policy: Policy, kind: str, text: str, *, lines: str = ""
) -> Step:
    """Charge a failed attempt; stop at the limit, and wait for a person when nothing moves.

    The lines show the failure where its text does not.
    """
    used_up = retries_used_up(state.tally, policy)
    signature = f"{kind}: {text}"[:300]
    alike = signature == state.tally.signature
    tally = changed(
        state.tally,
        retry_count=state.tally.retry_count + (not used_up),
        signature=signature,
        faults=0,
        shortages=0,
    )
    if tally.moved or (tally.said_new and not alike):
        tally = circuit_breaker.moved_on(tally, policy)
    else:
        tally = changed(tally, stuck=tally.stuck + 1)
    charged = changed(state, tally=tally)
    if tally.wanted is Wanted.REJECT:
        return land(charged, at)
    if used_up:
        return no_retry_left(charged, policy, f"the last: {signature}")
    if circuit_breaker.is_stuck(tally, policy):
        return open_breaker(charged, at, policy, signature, lines)
    until = at + delay(policy, tally.stuck)
    return land(BackingOff(tally=tally, until=until, why=signature), at)


def retries_used_up(tally: Tally, policy: Policy) -> bool:
    """Tell whether a failure now is the last one; the first attempt is not a retry."""
    return tally.retry_count >= policy.max_retries


def no_retry_left(state: State, policy: Policy, last: str) -> Step:
    """Give up."""
    used = f"{state.tally.retry_count} of {policy.max_retries} retries used"
    return reject(state, Reason.MAX_RETRIES, f"{used}; {last}")


def open_breaker(state: State, at: float, policy: Policy, last: str, lines: str = "") -> Step:
    """Wait for a person, with the evidence: more attempts like the latest would burn money."""
    tally = circuit_breaker.opened(state.tally, at)
    human = AwaitingHuman(
        tally=tally,
        about=About.NO_PROGRESS,
        text=circuit_breaker.evidence(tally, policy, last, lines),
        since=at,
        until=circuit_breaker.pause(tally, at, policy),
    )
    return land(human, at)


def try_once(state: State, at: float, policy: Policy, why: str, *, by_person: bool = True) -> Step:
    """Close the breaker for one attempt: without progress it opens again."""
    tally = circuit_breaker.tried_once(state.tally, policy, by_person=by_person)
    return wake(changed(state, tally=tally), at, why)


def environment(
    state: State,
    event: on.WorkspaceFailed | on.SpawnFailed,
    policy: Policy,
    back: BackingOff,
) -> Step:
    """Wait out a failure that is not the agent's; it costs no retry but has its own limit."""
    tally, pause = troubled(state.tally, event.fault, policy)
    if tally.faults > policy.max_faults:
        return reject(
            changed(state, tally=tally),
            Reason.ENVIRONMENT,
            f"{tally.faults} times in a row the environment failed: {event.text}",
        )
    return land(changed(back, tally=tally, until=event.at + pause, why=event.text), event.at)


def troubled(tally: Tally, fault: Fault, policy: Policy) -> tuple[Tally, float]:
    """Count a failure of the surroundings; returns how long to wait after it.

    A machine that is short of something is busy, not broken: that only lengthens the wait.
    """
    if fault is Fault.SHORTAGE:
        tally = changed(tally, shortages=tally.shortages + 1)
        return tally, delay(policy, tally.shortages)
    tally = changed(tally, faults=tally.faults + 1)
    return tally, delay(policy, tally.faults)


def untroubled(tally: Tally) -> Tally:
    """Count no failure of the surroundings any more: what failed works again."""
    return changed(tally, faults=0, shortages=0)


def launch(state: State, at: float, policy: Policy, *, approved: bool) -> Step:
    """Order the next attempt, unless a limit, a rest or a review stands before it."""
    tally = programs.up_to_date(state.tally, at)
    if tally.attempt > policy.max_attempts:
        return reject(
            state,
            Reason.MAX_RETRIES,
            f"{tally.attempts} attempts were started, as many as max_attempts allows",
        )
    program = programs.chosen(tally, policy)
    if program is None:
        return _rest_on(state, tally, at, policy, approved=approved)
    tally = changed(tally, program=program)
    if policy.review_summaries and not approved:
        text = f"the summary for attempt {tally.attempt} waits for approval"
        until = at + policy.blocked_timeout
        review = AwaitingHuman(tally=tally, about=About.REVIEW, text=text, since=at, until=until)
        return land(review, at)
    order = do.SpawnAgent(attempt=tally.attempt, merge=tally.merge)
    return Step(Spawning(tally=tally), (order,))


def _rest_on(state: State, tally: Tally, at: float, policy: Policy, *, approved: bool) -> Step:
    """Wait for the first program that can work again; stop when only a person can help."""
    first = programs.soonest(tally, policy)
    if first is None or first.until is None:
        return reject(changed(state, tally=tally), Reason.ERROR, programs.reasons(tally, policy))
    resting = BackingOff(
        tally=tally, until=first.until, why=first.why, approved=approved, fixed=True
    )
    return land(resting, at)


def prepare(state: State) -> Step:
    """Order the workspace, or what is to be merged into it before the next attempt."""
    tally = state.tally
    order = do.PrepareWorkspace(attempt=tally.attempt, join=tally.depends_on)
    return Step(Preparing(tally=tally), (order,))


def _by(tally: Tally) -> str:
    who = f"rejected by {tally.wanted_by or 'a person'}"
    return f"{who}: {tally.wanted_why}" if tally.wanted_why else who
