"""Rules of what an attempt left: its snapshot, then its verify commands. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.machine import circuit_breaker
from lifecycle.machine import effects as do
from lifecycle.machine.opinion import GreenGates
from lifecycle.machine.rules import blocks
from lifecycle.machine.rules.attempt import snapshot
from lifecycle.machine.rules.endings import settle, without_streaks
from lifecycle.machine.states import (
    About,
    AwaitingHuman,
    BackingOff,
    Blocked,
    Capturing,
    Completed,
    PrPending,
    Reason,
    S,
    Signal,
    Verifying,
    Wanted,
    counted,
)
from lifecycle.machine.step import (
    Step,
    fail,
    judge,
    land,
    no_retry_left,
    open_breaker,
    reject,
    resolved,
    retries_used_up,
    troubled,
    untroubled,
)
from lifecycle.machine.values import changed
from runtime.agents.outcome import Ending

if TYPE_CHECKING:
    from lifecycle.machine import events as on
    from lifecycle.machine.policy import Policy
    from lifecycle.machine.states import RemarkReply, Tally

DELIVERS = ("task_complete", "pr_created")
"""Breakpoints that hand over the agent's branch."""
MOST_REPLIES = 50
"""Replies to reviewers that are kept until they can be posted."""


def conclude(state: Capturing, event: on.SnapshotTaken, policy: Policy) -> Step:
    """Decide what the attempt's end means."""
    tally = _looked_at(state, event, policy)
    outcome = state.outcome
    if outcome.ended is Ending.INTERRUPTED:
        again = changed(tally, interruptions=tally.interruptions + 1)
        # Approved: a review was for this very attempt, which keeps its number.
        back = BackingOff(tally=again, until=event.at, why=f"interrupted: {outcome.text}",
                          approved=True)  # fmt: skip
        return land(back, event.at)
    word = outcome.word
    over = attempt_over(changed(state, tally=tally))
    if word is not None and word.type in DELIVERS and event.elsewhere:
        text = f"the work is on {event.elsewhere}; only what is committed there counts"
        return fail(over, event.at, policy, "off_branch", text)
    if word is not None and _may_judge(state, word, event, policy):
        gated = policy.has_gates and word.type == "task_complete"
        verifying = Verifying(
            tally=tally,
            word=word,
            head=event.head,
            changed_files=event.changed_files,
            green=None if gated else GreenGates(),
        )
        return Step(verifying, (judge(verifying),))
    if word is None:
        return settle(over, event.at, policy, outcome)
    return _follow(over, word, event, policy)


def _looked_at(state: Capturing, event: on.SnapshotTaken, policy: Policy) -> Tally:
    """Note what the attempt changed, whether it said anything new, and which streaks are over."""
    before, outcome = state.tally, state.outcome
    known = bool(before.tree)
    moved = bool(event.commits) or (event.tree != before.tree if known else bool(event.dirty))
    words = _words_of(outcome.word)
    tally = changed(
        before,
        tree=event.tree,
        moved=moved,
        said=words or before.said,
        said_new=bool(words) and words != before.said,
        replies=_replies_of(before, outcome.word),
        signature="" if moved else before.signature,
        faults=0,
        shortages=0,
    )
    if moved:
        tally = circuit_breaker.moved_on(tally, policy)
    return tally if outcome.ended is Ending.INTERRUPTED else without_streaks(tally, outcome.ended)


def _replies_of(tally: Tally, word: Signal | None) -> tuple[RemarkReply, ...]:
    """Return what reviewers are still to be told; of two answers to a remark, the newer one."""
    if word is None or not word.replies:
        return tally.replies
    newest = {each.remark: each for each in (*tally.replies, *word.replies)}
    return tuple(newest.values())[-MOST_REPLIES:]


def _words_of(word: Signal | None) -> str:
    if word is None:
        return ""
    said = word.summary or word.question or word.reason
    return f"{word.type} {' '.join(word.blocked_on)} {said}"[:300]


def attempt_over(state: S) -> S:
    """Count the attempt as over: whatever still speaks of it is late from now on."""
    return counted(state, attempt=state.tally.attempt + 1)


def _may_judge(state: Capturing, word: Signal, event: on.SnapshotTaken, policy: Policy) -> bool:
    """Tell whether gates or a reviewer are asked about what is handed over."""
    if state.tally.wanted is Wanted.REJECT:
        return False
    if word.type == "pr_created":  # its gates are the checks of the forge
        return policy.reviews
    return word.type == "task_complete" and not event.dirty and (policy.has_gates or policy.reviews)


def _follow(state: Capturing, word: Signal, event: on.SnapshotTaken, policy: Policy) -> Step:
    match word.type:
        case "task_complete":
            return _complete_ungated(state, word, event, policy)
        case "blocked":
            return _block(state, word, event, policy)
        case "pr_created":
            return _await_merge(state, word, event.head, event.at, policy)
        case _:
            tally = changed(_without_stuck(state.tally, policy), blocked_on="")
            human = AwaitingHuman(
                tally=tally,
                about=About.QUESTION,
                text=word.question or word.summary or word.reason,
                since=event.at,
                until=event.at + policy.blocked_timeout,
            )
            return land(human, event.at)


def _without_stuck(tally: Tally, policy: Policy) -> Tally:
    """Count what was said for the first time as progress; not of work that a verdict follows."""
    return circuit_breaker.moved_on(tally, policy) if tally.said_new else tally


def _complete_ungated(
    state: Capturing, word: Signal, event: on.SnapshotTaken, policy: Policy
) -> Step:
    if event.dirty:
        shown = ", ".join(event.dirty[:5]) + (" ..." if len(event.dirty) > 5 else "")  # noqa: PLR2004  # a line's worth
        text = f"the agent says it is done, but these files are not committed: {shown}"
        return fail(state, event.at, policy, "gate_failed", text)
    completed = Completed(
        tally=state.tally, summary=word.summary, head=event.head, changed_files=event.changed_files
    )
    return _complete(completed, event.at)


def _block(state: Capturing, word: Signal, event: on.SnapshotTaken, policy: Policy) -> Step:
    tally, word = blocks.understood(state.tally, word, event)
    human = blocks.on_done_work(tally, word, event)
    if human is not None:
        return land(human, event.at)
    state = changed(state, tally=tally)
    thing = ", ".join(sorted(word.blocked_on)) or word.reason or "something it did not name"
    again = thing == state.tally.blocked_on
    tally = changed(_without_stuck(state.tally, policy), blocked_on=thing)
    if again:
        if retries_used_up(tally, policy):
            last = f"the last attempt blocked once more on: {thing}"
            return no_retry_left(changed(state, tally=tally), policy, last)
        tally = changed(tally, retry_count=tally.retry_count + 1)
        if not (tally.moved or tally.said_new):
            tally = changed(tally, stuck=tally.stuck + 1)
        if circuit_breaker.is_stuck(tally, policy):
            return open_breaker(
                changed(state, tally=tally), event.at, policy, f"blocked once more on: {thing}"
            )
    blocked = Blocked(
        tally=tally,
        since=event.at,
        until=event.at + policy.blocked_timeout,
        word=word,
        head=event.head,
    )
    return land(
        blocked,
        event.at,
        do.PublishBranch(head=event.head),
        do.LookAtBlockers(blocked_on=word.blocked_on, head=event.head),
    )


def _await_merge(
    state: Capturing | Verifying, word: Signal, head: str, at: float, policy: Policy
) -> Step:
    pending = PrPending(
        tally=changed(resolved(state.tally), blocked_on="", replies=()),
        since=at,
        until=at + (policy.pr_reminder or policy.pr_merge_timeout),
        word=word,
        url=word.pr_url,
        head=head,
    )
    return land(
        pending,
        at,
        do.PublishBranch(head=head),
        do.OpenPullRequest(url=word.pr_url, summary=word.summary),
        *_post_replies(state.tally, head),
    )


def _post_replies(tally: Tally, head: str) -> tuple[do.PostReplies, ...]:
    return (do.PostReplies(head=head, replies=tally.replies),) if tally.replies else ()


def no_snapshot(state: Capturing, event: on.SnapshotFailed, policy: Policy) -> Step:
    """Try again later: what the agent said must not be lost with a failing disk."""
    tally, pause = troubled(state.tally, event.fault, policy)
    if tally.faults > policy.max_faults:
        text = f"{tally.faults} times in a row the work could not be captured: {event.text}"
        return reject(changed(state, tally=tally), Reason.ENVIRONMENT, text)
    return Step(changed(state, tally=tally, again_at=event.at + pause))


def capture_again(state: Capturing, event: on.DeadlinePassed, policy: Policy) -> Step:
    """Take the snapshot once more."""
    del policy
    if state.again_at is None or event.at < state.again_at:
        return Step(state, late=True)
    return Step(changed(state, again_at=None), (snapshot(state),))


def judged(state: Verifying, event: on.GatesFinished, policy: Policy) -> Step:
    """On green ask for the second opinion, or complete; on red wake an attempt with the output."""
    if event.asks:
        return _ask_about_setup(state, event, policy)
    if event.problem:
        if state.tally.wanted is Wanted.REJECT:
            return land(state, event.at)
        tally, pause = troubled(state.tally, event.fault, policy)
        if tally.faults > policy.max_faults:
            text = f"{tally.faults} times in a row the gates could not be run: {event.problem}"
            return reject(changed(state, tally=tally), Reason.ENVIRONMENT, text)
        return Step(changed(state, tally=tally, again_at=event.at + pause))
    red = [gate for gate in event.gates if not gate.ok]
    if not red:
        return _green(state, event, policy)
    state = attempt_over(state)
    text = "; ".join(f"`{gate.command}` {gate.end}" for gate in red)
    if event.as_before:
        text += ", as before any work"
    state = changed(state, tally=circuit_breaker.judged_red(state.tally, event.digest))
    return fail(state, event.at, policy, "gate_failed", text, lines=event.lines)


def _green(state: Verifying, event: on.GatesFinished, policy: Policy) -> Step:
    tally = untroubled(changed(state.tally, same_gate="", same_gates=0, open_since=None))
    passed = tuple(gate.command for gate in event.gates)
    green = GreenGates(passed=passed, flagged=event.flagged, notes=event.notes)
    verified = changed(state, tally=tally, again_at=None, green=green)
    if policy.reviews and state.tally.wanted is not Wanted.REJECT:
        return Step(verified, (judge(verified),))
    return deliver(verified, event.at, policy)


def deliver(state: Verifying, at: float, policy: Policy, *notes: str) -> Step:
    """Hand over work whose gates passed, and that nobody objects to; the notes go with it."""
    green = state.green or GreenGates()
    state = counted(attempt_over(state), review_rounds=0, review_failures=0)
    if state.word.type == "pr_created":
        return _await_merge(state, state.word, state.head, at, policy)
    completed = Completed(
        tally=state.tally,
        summary=state.word.summary,
        head=state.head,
        changed_files=state.changed_files,
        flagged=green.flagged,
        notes=(*green.notes, *notes),
        passed=green.passed,
    )
    return _complete(completed, at)


def _ask_about_setup(state: Verifying, event: on.GatesFinished, policy: Policy) -> Step:
    """Wait for a person: the set-up that the change wants needs more than the agent has."""
    human = AwaitingHuman(
        tally=untroubled(state.tally),
        about=About.SETUP,
        text=event.asks,
        since=event.at,
        until=event.at + policy.blocked_timeout,
        head=state.head,
        verify=changed(state, again_at=None),
    )
    return land(human, event.at)


def verify_again(state: Verifying, event: on.DeadlinePassed, policy: Policy) -> Step:
    """Ask for the verdict once more."""
    del policy
    if state.again_at is None or event.at < state.again_at:
        return Step(state, late=True)
    return Step(changed(state, again_at=None), (judge(state),))


def _complete(completed: Completed, at: float) -> Step:
    """Come to rest; there is nothing left that a pause could hold."""
    if completed.tally.wanted is Wanted.REJECT:
        return land(completed, at)
    before = completed.tally.merge_head
    tally = resolved(completed.tally)
    tally = changed(
        tally, wanted=Wanted.NOTHING, wanted_by="", wanted_why="", blocked_on="", replies=()
    )
    return Step(
        changed(completed, tally=tally, resolves=before if before != completed.head else ""),
        (do.PublishBranch(head=completed.head), *_post_replies(completed.tally, completed.head)),
    )
