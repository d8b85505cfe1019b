"""What follows from each way an attempt can end: who pays, how long to wait, when to stop. Pure.

One table, `TREATMENTS`, says it for every kind; the functions below carry it out.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from lifecycle.machine import chain
from lifecycle.machine.policy import after_reset, delay, growing
from lifecycle.machine.states import BackingOff, Ended, Reason, counted
from lifecycle.machine.step import Step, fail, land, reject
from lifecycle.machine.values import changed

if TYPE_CHECKING:
    from lifecycle.machine.policy import Policy
    from lifecycle.machine.states import Outcome, State, Tally


class Then(StrEnum):
    """What follows from an ending without a breakpoint."""

    RETRY = "retry"
    """The agent pays with a retry; a fresh attempt starts after `retry_interval`."""
    LIMIT = "limit"
    """Nobody pays: it waits until the limit ends, or growing spans where no end was named."""
    TROUBLE = "trouble"
    """Nobody pays: it is tried again after growing spans, so many times in a row."""
    MEND = "mend"
    """Only a person can mend it: it stops at once, unless another program can take over."""
    SURROUNDINGS = "surroundings"
    """Nobody pays: another program takes over, else the machine is waited for, so many times."""
    STOP = "stop"
    """A budget is used up: it stops at once."""
    AGAIN = "again"
    """Nobody pays, and the attempt keeps its number."""


@dataclass(frozen=True, slots=True)
class Treatment:
    """What follows from one kind of ending, and its meaning in words."""

    then: Then
    meaning: str


TREATMENTS: dict[Ended, Treatment] = {
    Ended.NO_BREAKPOINT: Treatment(Then.RETRY, "it ended well, but signalled nothing"),
    Ended.INVALID_BREAKPOINT: Treatment(Then.RETRY, "its signal cannot be read"),
    Ended.WAITING: Treatment(Then.RETRY, "it ended its turn to be woken by work in the background"),
    Ended.CONTEXT_OVERFLOW: Treatment(Then.RETRY, "its context was full"),
    Ended.REFUSED: Treatment(Then.RETRY, "the model refused the work"),
    Ended.DENIED: Treatment(Then.RETRY, "the last thing it tried was not permitted"),
    Ended.MAX_TURNS: Treatment(Then.RETRY, "its limit on turns ended it"),
    Ended.LOOP: Treatment(Then.RETRY, "it did the same again and again, or far too much"),
    Ended.HANG: Treatment(Then.RETRY, "nothing moved any more, so it was ended"),
    Ended.TIMEOUT: Treatment(Then.RETRY, "it took too long, so it was ended"),
    Ended.CRASH: Treatment(Then.RETRY, "it died, or stopped in the middle of its turn"),
    Ended.KILLED: Treatment(Then.RETRY, "somebody ended it from outside"),
    Ended.LIMIT: Treatment(Then.RETRY, "it used more of the machine than it may"),
    Ended.ERROR: Treatment(Then.RETRY, "it failed, and said nothing that tells why"),
    Ended.RATE_LIMIT: Treatment(Then.LIMIT, "a usage limit that passes"),
    Ended.QUOTA: Treatment(Then.LIMIT, "what the plan grants for now is used up"),
    Ended.OVERLOADED: Treatment(Then.TROUBLE, "the provider is overloaded or in trouble"),
    Ended.NETWORK: Treatment(Then.TROUBLE, "the provider cannot be reached"),
    Ended.AUTH: Treatment(Then.MEND, "not signed in, or the key is refused"),
    Ended.BILLING: Treatment(Then.MEND, "no credit, or the payment failed"),
    Ended.MODEL: Treatment(Then.MEND, "there is no such model, or not for this account"),
    Ended.ENVIRONMENT: Treatment(Then.SURROUNDINGS, "program or machine are not fit to run it"),
    Ended.BUDGET: Treatment(Then.STOP, "a budget is used up"),
    Ended.INTERRUPTED: Treatment(Then.AGAIN, "the runner or a person ended it"),
}
"""Of every ending but the breakpoint, whose word decides."""


def settle(state: State, at: float, policy: Policy, outcome: Outcome) -> Step:
    """Do what follows from an attempt that ended without a breakpoint."""
    match TREATMENTS[outcome.ended].then:
        case Then.LIMIT:
            return _limited(state, at, policy, outcome)
        case Then.TROUBLE:
            return _troubled(state, at, policy, outcome)
        case Then.MEND:
            return broken(state, at, policy, _told(outcome, advice=True))
        case Then.SURROUNDINGS:
            return _unfit(state, at, policy, _told(outcome))
        case Then.STOP:
            return reject(state, Reason.BUDGET, outcome.text or _told(outcome))
        case _:
            return fail(state, at, policy, outcome.ended, outcome.text)


def without_streaks(tally: Tally, ended: Ended) -> Tally:
    """Return the counters with the streaks over that this ending does not continue."""
    then = TREATMENTS[ended].then if ended in TREATMENTS else None
    limited = then is Then.LIMIT
    return changed(
        tally,
        limits=tally.limits if limited else 0,
        limited_since=tally.limited_since if limited else None,
        troubles=tally.troubles if then is Then.TROUBLE else 0,
        unfit=tally.unfit if then is Then.SURROUNDINGS else 0,
    )


def broken(state: State, at: float, policy: Policy, text: str, *, approved: bool = False) -> Step:
    """Let another program take over from one that only a person can mend; else stop."""
    moved = changed(state, tally=chain.rest(state.tally, at, text, None))
    return _when_one_can(moved, at, policy, text, approved=approved)


def _limited(state: State, at: float, policy: Policy, outcome: Outcome) -> Step:
    before, text = state.tally, _told(outcome)
    since = at if before.limited_since is None else before.limited_since
    tally = changed(before, limits=before.limits + 1, limited_since=since)
    until = _end_of(outcome.reset_at, at, policy, tally.limits)
    moved = changed(state, tally=chain.rest(tally, at, text, until))
    when = chain.next_at(moved.tally, at, policy)
    if when is not None and when > max(at, since + policy.limit_patience):
        days = policy.limit_patience / 86400
        text = f"{text}; that is longer than limit_patience ({days:g} days) allows"
        return reject(moved, Reason.USAGE_LIMIT, text)
    return _when_one_can(moved, at, policy, text)


def _end_of(reset_at: float | None, at: float, policy: Policy, nth: int) -> float:
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


def _troubled(state: State, at: float, policy: Policy, outcome: Outcome) -> Step:
    tally, text = changed(state.tally, troubles=state.tally.troubles + 1), _told(outcome)
    first, cap = policy.trouble_interval, policy.trouble_interval_cap
    until = at + growing(first, cap, policy.seed, tally.troubles)
    moved = changed(state, tally=chain.rest(tally, at, text, until))
    if tally.troubles > policy.max_troubles and chain.chosen(moved.tally, policy) is None:
        return reject(moved, Reason.ENVIRONMENT, f"{tally.troubles} times in a row: {text}")
    return _when_one_can(moved, at, policy, text)


def _unfit(state: State, at: float, policy: Policy, text: str) -> Step:
    # Not counted with the faults: each such attempt was started and saved, which ends theirs.
    moved = counted(state, unfit=state.tally.unfit + 1)
    tally, until = moved.tally, at + delay(policy, moved.tally.unfit)
    given_up = tally.unfit > policy.max_faults
    if chain.is_choice(policy):
        # Not for good at first: an upgrade or a full disk may be all there is to it.
        moved = changed(moved, tally=chain.rest(tally, at, text, None if given_up else until))
        if chain.next_at(moved.tally, at, policy) is not None:
            return _when_one_can(moved, at, policy, text)
        text = chain.reasons(moved.tally, policy)
    if given_up:
        text = f"{tally.unfit} times in a row the surroundings failed: {text}"
        return reject(moved, Reason.ENVIRONMENT, text)
    return land(BackingOff(tally=tally, until=until, why=text), at)


def _when_one_can(
    state: State, at: float, policy: Policy, text: str, *, approved: bool = False
) -> Step:
    """Go on with the first program that can work, now or later; stop if a person has to help."""
    tally = state.tally
    when = chain.next_at(tally, at, policy)
    if when is None:
        return reject(state, Reason.ERROR, chain.reasons(tally, policy))
    back = BackingOff(tally=tally, until=when, why=text, approved=approved, fixed=when > at)
    return land(back, at)


def _told(outcome: Outcome, *, advice: bool = False) -> str:
    text = f"{outcome.ended}: {outcome.text}" if outcome.text else str(outcome.ended)
    return f"{text.rstrip('. ')}. {outcome.advice}" if advice and outcome.advice else text
