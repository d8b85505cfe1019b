"""Rules of the second opinion on work whose gates passed: what a reviewer says, or fails to. Pure.

Only an answer that can be used counts, and only for the commit that was read. Whatever else a
reviewer comes to is no approval: it is asked again as the table of endings says, then a person is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.machine.events import Fault
from lifecycle.machine.policy import delay, growing
from lifecycle.machine.rules.capture_and_verify import attempt_over, deliver
from lifecycle.machine.rules.endings import TREATMENTS, FollowUp, end_of_limit
from lifecycle.machine.states import (
    About,
    AttemptOutcome,
    AwaitingHuman,
    BackingOff,
    Verifying,
    Wanted,
    counted,
)
from lifecycle.machine.step import Step, land, troubled, untroubled, wake
from lifecycle.machine.values import changed
from runtime.agents.outcome import Ending

if TYPE_CHECKING:
    from lifecycle.machine import events as on
    from lifecycle.machine.opinion import Opinion
    from lifecycle.machine.policy import Policy

MOST_FAILURES = 3
"""Reviews in a row without an answer that can be used, after which a person is asked."""
_SHOWN = 3
"""Findings that stand in the reason; all of them stand in the record."""


def reviewed(state: Verifying, event: on.ReviewFinished, policy: Policy) -> Step:
    """Complete what is approved; wake an attempt for findings, so often and then ask a person."""
    if state.green is None:
        return Step(state, late=True)
    if state.tally.wanted is Wanted.REJECT:
        return land(state, event.at)
    if not policy.reviews:
        return deliver(state, event.at, policy, "not reviewed: no reviewer is named any more")
    if event.problem:
        return _not_started(state, event, policy)
    return _answered(state, event, policy)


def _answered(state: Verifying, event: on.ReviewFinished, policy: Policy) -> Step:
    state = counted(state, reviews=state.tally.reviews + 1)
    opinion = _usable(state, event, policy)
    if isinstance(opinion, AttemptOutcome):
        return _without_answer(state, event.at, policy, opinion)
    tally = untroubled(changed(state.tally, limits=0, limited_since=None, troubles=0))
    state = changed(state, tally=changed(tally, review_failures=0))
    if opinion.counting(policy.review_severity):
        return _objected(state, event.at, policy, _objections(opinion, policy))
    return deliver(state, event.at, policy)


def _usable(state: Verifying, event: on.ReviewFinished, policy: Policy) -> Opinion | AttemptOutcome:
    """Return what a reviewer said, or why that is no answer."""
    opinion = event.opinion
    if opinion is None:
        return event.outcome or _nothing_usable("it gave no answer")
    if opinion.head != state.head:
        return _nothing_usable("it is about another commit")
    if opinion.is_unusable(policy.review_severity):
        return _nothing_usable("all its findings are about files or lines that do not exist")
    return opinion


def _objected(state: Verifying, at: float, policy: Policy, text: str) -> Step:
    """Send the work back to a fresh attempt, which costs no retry; in the end to a person."""
    rounds = state.tally.review_rounds
    if rounds >= policy.review_rounds:
        after = f" after {rounds} attempt{'s' * (rounds != 1)} to resolve that" if rounds else ""
        return _ask(state, at, policy, f"{text}{after} (review_rounds = {policy.review_rounds})")
    return wake(counted(attempt_over(state), review_rounds=rounds + 1), at, text)


def _without_answer(state: Verifying, at: float, policy: Policy, outcome: AttemptOutcome) -> Step:
    """Do what follows from how the reviewer's process ended, as for any program."""
    text = f"the second opinion failed ({outcome.ended})"
    text = f"{text}: {outcome.text}" if outcome.text else text
    match TREATMENTS[outcome.ended].then:
        case FollowUp.LIMIT:
            return _limited(state, at, policy, outcome, text)
        case FollowUp.TROUBLE:
            troubles = state.tally.troubles + 1
            pause = growing(
                policy.trouble_interval, policy.trouble_interval_cap, policy.seed, troubles
            )
            over = troubles > policy.max_troubles
            moved = counted(state, troubles=troubles)
            return _ask(moved, at, policy, text) if over else _again(moved, at, at + pause, text)
        case FollowUp.NEEDS_USER | FollowUp.STOP:
            advice = f"{text.rstrip('. ')}. {outcome.advice}" if outcome.advice else text
            return _ask(state, at, policy, advice)
        case FollowUp.REPEAT:
            return _again(state, at, at, text)
        case _:
            failures = state.tally.review_failures + 1
            moved = counted(state, review_failures=failures)
            if failures >= MOST_FAILURES:
                return _ask(moved, at, policy, f"{failures} times in a row {text}")
            return _again(moved, at, at + delay(policy, failures), text)


def _limited(
    state: Verifying, at: float, policy: Policy, outcome: AttemptOutcome, text: str
) -> Step:
    before = state.tally
    since = at if before.limited_since is None else before.limited_since
    state = counted(state, limits=before.limits + 1, limited_since=since)
    until = end_of_limit(outcome.reset_at, at, policy, state.tally.limits)
    if until > max(at, since + policy.limit_patience):
        days = policy.limit_patience / 86400
        text = f"{text}; that is longer than limit_patience ({days:g} days) allows"
        return _ask(state, at, policy, text)
    return _again(state, at, until, text, fixed=True)


def _not_started(state: Verifying, event: on.ReviewFinished, policy: Policy) -> Step:
    """Wait out a machine that is not fit; what only a person can fix, a person is asked."""
    text = f"the second opinion could not be asked for: {event.problem}"
    if event.fault is Fault.USER:
        return _ask(state, event.at, policy, text)
    tally, pause = troubled(state.tally, event.fault, policy)
    if tally.faults > policy.max_faults:
        tries = changed(tally, faults=0)
        return _ask(changed(state, tally=tries), event.at, policy, f"{tally.faults} times {text}")
    return _again(changed(state, tally=tally), event.at, event.at + pause, text)


def _again(state: Verifying, at: float, until: float, why: str, *, fixed: bool = False) -> Step:
    """Ask once more later; no slot is held meanwhile."""
    back = BackingOff(tally=state.tally, until=until, why=why, fixed=fixed, verify=state)
    return land(back, at)


def _ask(state: Verifying, at: float, policy: Policy, text: str) -> Step:
    """Let a person decide between the two."""
    human = AwaitingHuman(
        tally=changed(untroubled(state.tally), review_failures=0, limits=0, limited_since=None),
        about=About.OPINION,
        text=text,
        since=at,
        until=at + policy.blocked_timeout,
        head=state.head,
        verify=state,
    )
    return land(human, at)


def overruled(state: AwaitingHuman, at: float, policy: Policy, said: str) -> Step:
    """Hand the work over because a person says that it is good as it is."""
    if state.verify is None:
        return Step(state, late=True)
    said = f"{said}, without the reviewer's approval"
    return deliver(changed(state.verify, tally=state.tally), at, policy, said)


def sent_back(state: AwaitingHuman, at: float, said: str) -> Step:
    """Give the work to a fresh attempt with a person's words; the rounds begin anew."""
    return wake(counted(attempt_over(state), review_rounds=0), at, said)


def _objections(opinion: Opinion, policy: Policy) -> str:
    found = opinion.counting(policy.review_severity)
    shown = "; ".join(f"{each.severity}: {each.text}"[:200] for each in found[:_SHOWN])
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    count = f"{len(found)} finding{'s' * (len(found) != 1)}"
    return f"the reviewer {opinion.by} has {count} ({shown}{more})"


def _nothing_usable(text: str) -> AttemptOutcome:
    return AttemptOutcome(ended=Ending.INVALID_BREAKPOINT, text=text)
