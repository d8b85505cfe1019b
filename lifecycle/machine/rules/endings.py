"""Whether an ending costs a retry, how long to wait, and when the retry limit is reached. Pure.

One table, `TREATMENTS`, says it for every kind; the functions below carry it out.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from lifecycle.machine import programs
from lifecycle.machine.policy import after_reset, delay, growing
from lifecycle.machine.states import BackingOff, Reason, counted
from lifecycle.machine.step import Step, fail, land, reject
from lifecycle.machine.values import changed
from runtime.agents.outcome import Ending

if TYPE_CHECKING:
    from lifecycle.machine.policy import Policy
    from lifecycle.machine.states import AttemptOutcome, State, Tally


class FollowUp(StrEnum):
    """What follows from an ending without a breakpoint."""

    RETRY = "retry"
    """The agent pays with a retry; a fresh attempt starts after `retry_interval`."""
    LIMIT = "limit"
    """Nobody pays: it waits until the limit ends, or growing spans where no end was named."""
    TROUBLE = "trouble"
    """Nobody pays: it is tried again after growing spans, so many times in a row."""
    NEEDS_USER = "needs_user"
    """Only a person can fix it: it stops at once, unless another program can take over."""
    ENVIRONMENT = "environment"
    """Nobody pays: another program takes over, else the machine is waited for, so many times."""
    STOP = "stop"
    """A budget is used up: it stops at once."""
    REPEAT = "repeat"
    """Nobody pays, and the attempt keeps its number."""


@dataclass(frozen=True, slots=True)
class Treatment:
    """What follows from one kind of ending, and its meaning in words."""

    then: FollowUp
    meaning: str


TREATMENTS: dict[Ending, Treatment] = {
    Ending.NO_BREAKPOINT: Treatment(FollowUp.RETRY, "it ended well, but signalled nothing"),
    Ending.INVALID_BREAKPOINT: Treatment(FollowUp.RETRY, "its signal cannot be read"),
    Ending.WAITING: Treatment(
        FollowUp.RETRY, "it ended its turn to be woken by work in the background"
    ),
    Ending.CONTEXT_OVERFLOW: Treatment(FollowUp.RETRY, "its context was full"),
    Ending.REFUSED: Treatment(FollowUp.RETRY, "the model refused the work"),
    Ending.DENIED: Treatment(FollowUp.RETRY, "the last thing it tried was not permitted"),
    Ending.MAX_TURNS: Treatment(FollowUp.RETRY, "its limit on turns ended it"),
    Ending.LOOP: Treatment(FollowUp.RETRY, "it did the same again and again, or far too much"),
    Ending.HANG: Treatment(FollowUp.RETRY, "nothing moved any more, so it was ended"),
    Ending.TIMEOUT: Treatment(FollowUp.RETRY, "it took too long, so it was ended"),
    Ending.CRASH: Treatment(FollowUp.RETRY, "it died, or stopped in the middle of its turn"),
    Ending.KILLED: Treatment(FollowUp.RETRY, "somebody ended it from outside"),
    Ending.LIMIT: Treatment(FollowUp.RETRY, "it used more of the machine than it may"),
    Ending.ERROR: Treatment(FollowUp.RETRY, "it failed, and said nothing that tells why"),
    Ending.RATE_LIMIT: Treatment(FollowUp.LIMIT, "a usage limit that passes"),
    Ending.QUOTA: Treatment(FollowUp.LIMIT, "what the plan grants for now is used up"),
    Ending.OVERLOADED: Treatment(FollowUp.TROUBLE, "the provider is overloaded or in trouble"),
    Ending.NETWORK: Treatment(FollowUp.TROUBLE, "the provider cannot be reached"),
    Ending.AUTH: Treatment(FollowUp.NEEDS_USER, "not signed in, or the key is refused"),
    Ending.BILLING: Treatment(FollowUp.NEEDS_USER, "no credit, or the payment failed"),
    Ending.MODEL: Treatment(FollowUp.NEEDS_USER, "there is no such model, or not for this account"),
    Ending.ENVIRONMENT: Treatment(FollowUp.ENVIRONMENT, "program or machine are not fit to run it"),
    Ending.BUDGET: Treatment(FollowUp.STOP, "a budget is used up"),
    Ending.INTERRUPTED: Treatment(FollowUp.REPEAT, "the runner or a person ended it"),
}
"""Of every ending but the breakpoint, whose word decides."""


def settle(state: State, at: float, policy: Policy, outcome: AttemptOutcome) -> Step:
    """Do what follows from an attempt that ended without a breakpoint."""
    match TREATMENTS[outcome.ended].then:
        case FollowUp.LIMIT:
            return _limited(state, at, policy, outcome)
        case FollowUp.TROUBLE:
            return _troubled(state, at, policy, outcome)
        case FollowUp.NEEDS_USER:
            return broken(state, at, policy, _told(outcome, advice=True))
        case FollowUp.ENVIRONMENT:
            return _unfit(state, at, policy, _told(outcome))
        case FollowUp.STOP:
            return reject(state, Reason.BUDGET, outcome.text or _told(outcome))
        case _:
            return fail(state, at, policy, outcome.ended, outcome.text)


def without_streaks(tally: Tally, ended: Ending) -> Tally:
    """Return the counters with the streaks over that this ending does not continue."""
    then = TREATMENTS[ended].then if ended in TREATMENTS else None
    limited = then is FollowUp.LIMIT
    return changed(
        tally,
        limits=tally.limits if limited else 0,
        limited_since=tally.limited_since if limited else None,
        troubles=tally.troubles if then is FollowUp.TROUBLE else 0,
        unfit=tally.unfit if then is FollowUp.ENVIRONMENT else 0,
    )


def broken(state: State, at: float, policy: Policy, text: str, *, approved: bool = False) -> Step:
    """Let another program take over from one that only a person can fix; else stop."""
    moved = changed(state, tally=programs.rest(state.tally, at, text, None))
    return _when_one_can(moved, at, policy, text, approved=approved)


def _limited(state: State, at: float, policy: Policy, outcome: AttemptOutcome) -> Step:
    before, text = state.tally, _told(outcome)
    since = at if before.limited_since is None else before.limited_since
    tally = changed(before, limits=before.limits + 1, limited_since=since)
    until = end_of_limit(outcome.reset_at, at, policy, tally.limits)
    moved = changed(state, tally=programs.rest(tally, at, text, until))
    when = programs.next_at(moved.tally, at, policy)
    if when is not None and when > max(at, since + policy.limit_patience):
        days = policy.limit_patience / 86400
        text = f"{text}; that is longer than limit_patience ({days:g} days) allows"
        return reject(moved, Reason.USAGE_LIMIT, text)
    return _when_one_can(moved, at, policy, text)


def end_of_limit(reset_at: float | None, at: float, policy: Policy, nth: int) -> float:
    """Return when the nth limit in a row may be over.

    An end that is past, or named just ahead again and again, is believed once.
    """
    first, cap = policy.limit_interval, policy.limit_interval_cap
    if reset_at is None:
        return at + growing(first, cap, policy.seed, nth)
    named = after_reset(policy, at, reset_at)
    if nth == 1:
        return named
    return max(named, at + growing(first, cap, policy.seed, nth - (reset_at > at)))


def _troubled(state: State, at: float, policy: Policy, outcome: AttemptOutcome) -> Step:
    tally, text = changed(state.tally, troubles=state.tally.troubles + 1), _told(outcome)
    first, cap = policy.trouble_interval, policy.trouble_interval_cap
    until = at + growing(first, cap, policy.seed, tally.troubles)
    moved = changed(state, tally=programs.rest(tally, at, text, until))
    if tally.troubles > policy.max_troubles and programs.chosen(moved.tally, policy) is None:
        return reject(moved, Reason.ENVIRONMENT, f"{tally.troubles} times in a row: {text}")
    return _when_one_can(moved, at, policy, text)


def _unfit(state: State, at: float, policy: Policy, text: str) -> Step:
    # Not counted with the faults: each such attempt was started and saved, which ends theirs.
    moved = counted(state, unfit=state.tally.unfit + 1)
    tally, until = moved.tally, at + delay(policy, moved.tally.unfit)
    given_up = tally.unfit > policy.max_faults
    if programs.is_choice(policy):
        # Not for good at first: an upgrade or a full disk may be all there is to it.
        moved = changed(moved, tally=programs.rest(tally, at, text, None if given_up else until))
        if programs.next_at(moved.tally, at, policy) is not None:
            return _when_one_can(moved, at, policy, text)
        text = programs.reasons(moved.tally, policy)
    if given_up:
        text = f"{tally.unfit} times in a row the environment failed: {text}"
        return reject(moved, Reason.ENVIRONMENT, text)
    return land(BackingOff(tally=tally, until=until, why=text), at)


def _when_one_can(
    state: State, at: float, policy: Policy, text: str, *, approved: bool = False
) -> Step:
    """Continue with the first program that can work, now or later; stop if a person has to help."""
    tally = state.tally
    when = programs.next_at(tally, at, policy)
    if when is None:
        return reject(state, Reason.ERROR, programs.reasons(tally, policy))
    back = BackingOff(tally=tally, until=when, why=text, approved=approved, fixed=when > at)
    return land(back, at)


def _told(outcome: AttemptOutcome, *, advice: bool = False) -> str:
    text = f"{outcome.ended}: {outcome.text}" if outcome.text else str(outcome.ended)
    return f"{text.rstrip('. ')}. {outcome.advice}" if advice and outcome.advice else text
