"""Rules of the waits: dependencies, pull requests, people. No process, no slot. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lifecycle.machine import circuit_breaker, programs
from lifecycle.machine import effects as do
from lifecycle.machine.events import Fault, PrFate
from lifecycle.machine.rules.blocks import ci_came_late, depending, wait_again
from lifecycle.machine.states import (
    About,
    AwaitingHuman,
    PrPending,
    Queued,
    Signal,
    State,
    counted,
)
from lifecycle.machine.step import (
    Step,
    fail,
    is_before_work,
    may_resolve,
    prepare_again,
    resolve,
    try_once,
    verify_now,
    wake,
)
from lifecycle.machine.values import changed

if TYPE_CHECKING:
    from lifecycle.machine import events as on
    from lifecycle.machine.policy import Policy

_NUMBERS = re.compile(r"\d+")
OF_A_HEAD = (PrFate.CHECKS_FAILED, PrFate.CONFLICT)
"""Fates that are about one commit."""
OVER_A_PULL_REQUEST = (About.PR_TIMEOUT, About.CI_LIMIT, About.CONFLICT)


# --- dependencies -----------------------------------------------------------------------------


def dependency_settled(state: Queued, event: on.DependencySettled, policy: Policy) -> Step:
    """Wait for one task less; a dependency that failed needs a person."""
    del policy
    if event.task_id not in state.waiting_on:
        return Step(state, late=True)
    if not event.done:
        human = AwaitingHuman(
            tally=state.tally,
            about=About.DEPENDENCY,
            text=f"dependency {event.task_id} did not complete: {event.text}",
            since=event.at,
            blocked_on=state.waiting_on,
            failed=(event.task_id,),
        )
        return Step(human)
    left = tuple(task for task in state.waiting_on if task != event.task_id)
    return Step(changed(state, waiting_on=left))


# --- pull requests ----------------------------------------------------------------------------


def opened(state: PrPending, event: on.PullRequestOpened, policy: Policy) -> Step:
    """Know its number; ask at once what became of it, it may be merged already."""
    del policy
    if (state.number, state.url) == (event.number, event.url):
        # Two looks may find the same one.
        return Step(state, late=True)
    known = changed(state, number=event.number, url=event.url, problem="")
    return Step(known, (do.LookAtPullRequest(number=event.number),))


def unknown(state: PrPending, event: on.PullRequestUnknown, policy: Policy) -> Step:
    """Charge a pull request that does not exist; wait out a provider that does not answer."""
    if event.fault is Fault.USER:
        return fail(state, event.at, policy, "pr_unknown", event.text)
    # One that only counts the seconds down is no news.
    same = _NUMBERS.sub("", state.problem) == _NUMBERS.sub("", event.text)
    return Step(state if same else changed(state, problem=event.text))


def moved(state: PrPending, event: on.PullRequestMoved, policy: Policy) -> Step:
    """Wake the agent with the fate of its pull request."""
    known = state.number is not None
    if event.number != state.number if known else _is_another(event, state.url):
        return Step(state, late=True)
    about_head = not state.head or not event.sha or event.sha == state.head
    if event.fate in OF_A_HEAD and not about_head and not event.asked:
        # Of an earlier head, or of one that somebody else pushed; the provider knows.
        return Step(state, (do.LookAtPullRequest(number=event.number),) if known else ())
    if event.fate is PrFate.CHECKS_FAILED:
        return _fix_checks(state, event, policy)
    if event.fate is PrFate.CONFLICT:
        return _conflict(state, event, policy)
    return _meet(state, event, policy)


def _conflict(state: PrPending, event: on.PullRequestMoved, policy: Policy) -> Step:
    """Wake an agent for what does not merge, so often and then never without a person."""
    text = event.text or f"pull request {event.number} conflicts with its base"
    if may_resolve(state.tally, policy):
        return resolve(state, event.at, text)
    if tried := state.tally.conflicts:
        text = f"{text}; {tried} attempts to resolve that failed"
    until = event.at + policy.blocked_timeout
    return _for_a_person(state, event.at, About.CONFLICT, text, until)


def _fix_checks(state: PrPending, event: on.PullRequestMoved, policy: Policy) -> Step:
    """Wake an agent for red checks, so often and then never without a person."""
    if state.tally.ci_fixes >= policy.ci_fix_limit:
        why = event.text or "no reason given"
        text = f"the checks are red after {_attempts_for(state)}: {why}"
        until = event.at + policy.blocked_timeout
        return _for_a_person(state, event.at, About.CI_LIMIT, text, until)
    return _meet(counted(state, ci_fixes=state.tally.ci_fixes + 1), event, policy)


def _attempts_for(state: PrPending) -> str:
    tried = state.tally.ci_fixes
    return f"{tried} attempt{'s' * (tried != 1)} to fix what checks or bots found"


def reviewed(state: PrPending, event: on.Reviewed, policy: Policy) -> Step:
    """Wake the agent with what reviewers want; bots get that so often and then never."""
    if state.number is not None and event.number != state.number:
        return Step(state, late=True)
    text = event.text or f"pull request {event.number} was reviewed"
    if not event.by_bots or state.tally.ci_fixes < policy.ci_fix_limit:
        return _heed(state, event, text)
    until = event.at + policy.blocked_timeout
    text = f"after {_attempts_for(state)}, {text}"
    return _for_a_person(state, event.at, About.CI_LIMIT, text, until)


def reviewed_late(state: AwaitingHuman, event: on.Reviewed, policy: Policy) -> Step:
    """A person's review moves on what waits for one because of its pull request.

    A bot's does so only where nobody looked at the pull request in time, and counts.
    """
    if state.about not in OVER_A_PULL_REQUEST:
        return Step(state)
    may_wake = state.about is About.PR_TIMEOUT and state.tally.ci_fixes < policy.ci_fix_limit
    if event.by_bots and not may_wake:
        return Step(state)
    return _heed(state, event, event.text or "the pull request was reviewed")


def _heed(state: State, event: on.Reviewed, text: str) -> Step:
    """Wake an attempt for a review, which is not charged; only those that bots woke are counted."""
    if event.by_bots:
        return wake(counted(state, ci_fixes=state.tally.ci_fixes + 1), event.at, text)
    return wake(counted(state, ci_fixes=0, conflicts=0), event.at, text)


def moved_after_timeout(state: AwaitingHuman, event: on.PullRequestMoved, policy: Policy) -> Step:
    """A merge that comes after the time-out still counts; to who was blocked it is a report."""
    if state.about not in OVER_A_PULL_REQUEST:
        return ci_came_late(state, event, policy)
    if _is_another(event, state.url):
        return Step(state, late=True)
    known = {About.CI_LIMIT: PrFate.CHECKS_FAILED, About.CONFLICT: PrFate.CONFLICT}
    if known.get(state.about) is event.fate:
        return Step(state, late=True)
    if event.fate is PrFate.CONFLICT and may_resolve(state.tally, policy):
        return resolve(state, event.at, event.text or "the pull request conflicts with its base")
    return _meet(state, event, policy)


def _is_another(event: on.PullRequestMoved, url: str) -> bool:
    return bool(event.url and url and event.url != url)


def _meet(state: State, event: on.PullRequestMoved, policy: Policy) -> Step:
    if event.fate in (PrFate.MERGED, PrFate.CLOSED):
        state = counted(state, ci_fixes=0, conflicts=0)
    if event.fate is PrFate.MERGED:
        return wake(state, event.at, event.text or f"pull request {event.number} was merged")
    text = event.text or f"pull request {event.number}: {event.fate}"
    return fail(state, event.at, policy, f"pr_{event.fate}", text)


def pr_deadline(state: PrPending, event: on.DeadlinePassed, policy: Policy) -> Step:
    """Give the wait up to a person, or only remind one; a later merge still counts."""
    if event.at < state.until:
        return Step(state, late=True)
    if policy.pr_reminder:
        until = event.at + policy.pr_reminder
        return Step(changed(state, until=until, reminded=state.reminded + 1))
    text = "the pull request was neither merged nor closed in time"
    return _for_a_person(state, event.at, About.PR_TIMEOUT, text)


def _for_a_person(
    state: PrPending, at: float, about: About, text: str, until: float | None = None
) -> Step:
    human = AwaitingHuman(
        tally=state.tally,
        about=about,
        text=text,
        since=at,
        until=until,
        head=state.head,
        url=state.url,
        number=state.number,
        signalled_url=state.word.pr_url,
    )
    return Step(human)


# --- waits for a person that something else ends ----------------------------------------------


_STAYS = {
    About.CI_LIMIT: About.PR_TIMEOUT,
    About.CONFLICT: About.PR_TIMEOUT,
    About.SETUP: About.SETUP,
    About.OPINION: About.OPINION,
    About.QUESTION: About.QUESTION,
    About.REVIEW: About.REVIEW,
    About.NO_PROGRESS: About.NO_PROGRESS,
}


def human_deadline(state: AwaitingHuman, event: on.DeadlinePassed, policy: Policy) -> Step:
    """Stop keeping a runner alive for a question nobody answers; the answer still counts."""
    if state.until is None or event.at < state.until:
        return Step(state, late=True)
    last = circuit_breaker.last_instant(state.tally, state.since, policy)
    if state.about is About.NO_PROGRESS and policy.breaker_cooldown and event.at < last:
        why = f"one more attempt after a pause, because {state.text}"
        return try_once(state, event.at, policy, why, by_person=False)
    # What is about more than a block stays so: a later merge, or a person's word, still counts.
    about = _STAYS.get(state.about, About.BLOCKED_TIMEOUT)
    return Step(changed(state, about=about, until=None))


def rearm(  # noqa: PLR0911  # one per thing waited for
    state: AwaitingHuman, event: on.ResumeRequested, policy: Policy
) -> Step:
    """Wait once more for what was given up."""
    rests = bool(state.tally.resting)
    if rests:
        state = changed(state, tally=programs.awake(state.tally))
    again = f"tried again by {event.by or 'a person'}"
    match state.about:
        case About.BLOCKED_TIMEOUT if circuit_breaker.is_stuck(state.tally, policy):
            return try_once(state, event.at, policy, again)
        case About.BLOCKED_TIMEOUT:
            return wait_again(state, event.at, policy)
        case About.CONFLICT if is_before_work(state) or state.blocked_on:
            return prepare_again(state, event.at, again)
        case About.PR_TIMEOUT | About.CI_LIMIT | About.CONFLICT:
            pending = PrPending(
                tally=changed(state.tally, ci_fixes=0, conflicts=0),
                since=event.at,
                until=event.at + (policy.pr_reminder or policy.pr_merge_timeout),
                word=Signal(type="pr_created", pr_url=state.signalled_url),
                url=state.url,
                head=state.head,
            )
            return Step(pending, (do.OpenPullRequest(url=state.url, summary=""),))
        case About.NO_PROGRESS:
            return try_once(state, event.at, policy, again)
        case About.DEPENDENCY:
            return Step(Queued(tally=state.tally, waiting_on=state.blocked_on))
        case About.SETUP | About.OPINION:
            return verify_now(state, event.at, again, approved=False)
        case About.QUESTION | About.REVIEW if state.until is None:
            return Step(changed(state, until=event.at + policy.blocked_timeout))
        case _:
            return Step(state, late=not rests)


def dependency_came_late(state: AwaitingHuman, event: on.DependencySettled, policy: Policy) -> Step:
    """Queue again when no dependency stands failed; a blocker settled after all is looked at.

    What was complete before the block is not news, however often it is reported.
    """
    if event.task_id not in state.blocked_on:
        return Step(state, late=True)
    if state.about is About.DEPENDENCY:
        return _dependency_moved(state, event)
    if state.about is About.BLOCKED_TIMEOUT and event.done and not state.joined:
        known = changed(state, tally=depending(state.tally, (event.task_id,)))
        return wait_again(known, event.at, policy)
    return Step(state, late=True)


def _dependency_moved(state: AwaitingHuman, event: on.DependencySettled) -> Step:
    task_id = event.task_id
    if not event.done:
        known = task_id in state.failed
        return Step(state if known else changed(state, failed=(*state.failed, task_id)), late=known)
    failed = tuple(task for task in state.failed if task != task_id)
    left = tuple(task for task in state.blocked_on if task != task_id)
    if failed:
        return Step(changed(state, blocked_on=left, failed=failed))
    return Step(Queued(tally=state.tally, waiting_on=left))
