"""Rules of one attempt: from the place it got to the rest it comes to. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.machine import blocks, breaker, chain
from lifecycle.machine import effects as do
from lifecycle.machine.endings import TREATMENTS, Then, broken, settle, without_streaks
from lifecycle.machine.events import Fault
from lifecycle.machine.states import (
    About,
    AwaitingHuman,
    BackingOff,
    Blocked,
    Capturing,
    Completed,
    Ended,
    Outcome,
    PrPending,
    Reason,
    S,
    Spawning,
    State,
    Stopping,
    Verifying,
    Wanted,
    Word,
    Working,
    counted,
)
from lifecycle.machine.step import (
    Step,
    environment,
    fail,
    land,
    launch,
    no_retry_left,
    open_breaker,
    prepare,
    reject,
    resolved,
    retries_used_up,
    troubled,
    untroubled,
)
from lifecycle.machine.values import changed

if TYPE_CHECKING:
    from lifecycle.machine import events as on
    from lifecycle.machine.policy import Policy
    from lifecycle.machine.states import Preparing, Queued, Tally

NOT_SIGNALLED = "ended without a breakpoint"
TIMES = (Ended.HANG, Ended.TIMEOUT)
"""Endings that say less than what the program told before."""
VAGUE = (*TIMES, Ended.KILLED, Ended.CRASH, Ended.ERROR)
"""What a program may say of its end that says no more than why we ended it."""
DELIVERS = ("task_complete", "pr_created")
"""Breakpoints that hand over the agent's branch."""

# --- before the agent lives -------------------------------------------------------------------


def begin(state: Queued, event: on.Admitted, policy: Policy) -> Step:
    """Start with the workspace; a place alone does not settle dependencies."""
    del policy
    if state.waiting_on:
        return Step(state, late=True)
    if event.over:
        return reject(state, Reason.BUDGET, event.over)
    return prepare(changed(state, tally=chain.up_to_date(state.tally, event.at, event.resting)))


def respawn(state: BackingOff, event: on.Admitted, policy: Policy) -> Step:
    """Start the next attempt once its instant has come and a budget is left for it.

    Where only the gates of the latest are still to be run, these.
    """
    if event.at < state.until:
        return Step(state, late=True)
    if state.verify is not None:
        order = do.RunGates(attempt=state.tally.attempt, head=state.verify.head)
        return Step(changed(state.verify, tally=state.tally), (order,))
    if event.over:
        return reject(state, Reason.BUDGET, event.over)
    state = changed(state, tally=chain.up_to_date(state.tally, event.at, event.resting))
    if state.prepare:
        return prepare(state)
    return launch(state, event.at, policy, approved=state.approved)


def first_spawn(state: Preparing, event: on.WorkspaceReady, policy: Policy) -> Step:
    """Start the first attempt in its new workspace."""
    state = counted(state, faults=0, shortages=0, merge=event.merge)
    if state.tally.wanted is not Wanted.NOTHING:
        return land(BackingOff(tally=state.tally, until=event.at, why="interrupted"), event.at)
    return launch(state, event.at, policy, approved=False)


def joined(state: Preparing, event: on.WorkJoined, policy: Policy) -> Step:
    """Start the next attempt on top of the work that it waited for; the agent did not make it."""
    tally = changed(_merging(state.tally, event.merge), faults=0, tree=event.tree)
    if tally.wanted is not Wanted.NOTHING:
        back = BackingOff(tally=tally, until=event.at, why="interrupted")
        return land(back, event.at)
    return launch(changed(state, tally=tally), event.at, policy, approved=False)


def _merging(tally: Tally, commits: tuple[str, ...]) -> Tally:
    return changed(tally, merge=tuple(dict.fromkeys((*tally.merge, *commits))))


def no_workspace(state: Preparing, event: on.WorkspaceFailed, policy: Policy) -> Step:
    """Wait out a failing disk; give up at once on what only the user can mend."""
    if event.conflicts:
        human = AwaitingHuman(
            tally=_merging(state.tally, event.merge),
            about=About.CONFLICT,
            text=event.text,
            since=event.at,
            blocked_on=state.tally.depends_on,
        )
        return land(human, event.at)
    if event.fault is Fault.USER:
        return reject(state, Reason.ERROR, event.text)
    back = BackingOff(until=event.at, why="", prepare=True)
    return environment(state, event, policy, back)


def work(state: Spawning, event: on.AgentSpawned, policy: Policy) -> Step:
    """Count the attempt; end it at once if that was asked for meanwhile."""
    del policy
    lived = max(state.tally.spawn_count, event.attempt)
    state = counted(state, spawn_count=lived, faults=0, shortages=0)
    working = Working(
        tally=state.tally,
        process=event.process,
        since=event.at,
        containment=event.containment,
        log_start=event.log_start,
    )
    if state.tally.wanted in (Wanted.STOP, Wanted.HOLD, Wanted.REJECT):
        return stop(working, Outcome(ended=Ended.INTERRUPTED, text="stopped by a person"))
    return Step(working)


def no_spawn(state: Spawning, event: on.SpawnFailed, policy: Policy) -> Step:
    """Wait out a full machine; do without a program that does not exist, or give up at once."""
    if event.fault is Fault.USER:
        return broken(state, event.at, policy, event.text, approved=True)
    back = BackingOff(until=event.at, why="", approved=True)
    return environment(state, event, policy, back)


def spawn_again(state: Spawning, event: on.RunnerRestarted, policy: Policy) -> Step:
    """Believe a breakpoint of the lost process; else let the same attempt start once more."""
    del policy
    if event.word is None:
        if state.tally.wanted in (Wanted.STOP, Wanted.HOLD, Wanted.REJECT):
            return capture(state, Outcome(ended=Ended.INTERRUPTED, text="stopped by a person"))
        why = "the runner ended while the agent was being started"
        if event.lived:
            lived = max(state.tally.spawn_count, event.attempt)
            cut_short = state.tally.interruptions + 1
            state = counted(state, spawn_count=lived, interruptions=cut_short)
        # By way of a new admission: places, budgets and limits may have changed hands since.
        back = BackingOff(tally=state.tally, until=event.at, why=why, approved=True)
        return land(back, event.at)
    state = counted(state, spawn_count=max(state.tally.spawn_count, event.attempt))
    return capture(state, Outcome(ended=Ended.BREAKPOINT, word=event.word))


# --- while and just after it lives ------------------------------------------------------------


def breakpoint_reached(state: Working, event: on.BreakpointReached, policy: Policy) -> Step:
    """End the process: what it had to say is said."""
    del policy
    return stop(state, Outcome(ended=Ended.BREAKPOINT, word=event.word))


def limit_reached(state: Working, event: on.LimitReached, policy: Policy) -> Step:
    """End a process that took too long or went silent."""
    del policy
    ended = Ended.HANG if event.idle else Ended.TIMEOUT
    return stop(state, Outcome(ended=ended, text=event.text))


def doomed(state: Working, event: on.AttemptDoomed, policy: Policy) -> Step:
    """End a process that waits for nothing, or uses more than it may."""
    del policy
    outcome = Outcome(
        ended=event.ended, text=event.text, reset_at=event.reset_at, advice=event.advice
    )
    return stop(state, outcome)


def note(state: State, event: on.Event, policy: Policy) -> Step:
    """Keep the fact in the journal; the next summary tells it."""
    del event, policy
    return Step(state)


def exited(state: Working, event: on.AgentExited, policy: Policy) -> Step:
    """Judge an agent that ended by itself: its word counts, its exit code proves nothing."""
    del policy
    outcome = Outcome(
        ended=Ended.BREAKPOINT,
        word=event.word,
        exit_code=event.exit_code,
        signal=event.signal,
    )
    if event.word is not None:
        return capture(state, outcome)
    report = event.report
    if event.limit:
        ended, text = Ended.LIMIT, event.limit
    elif report is not None and _is_not_its_fault(report):
        return capture(state, _as_reported(outcome, report))
    elif event.problem:
        ended, text = Ended.INVALID_BREAKPOINT, event.problem
    elif report is not None:
        return capture(state, _as_reported(outcome, report))
    elif event.signal is not None:
        ended, text = Ended.CRASH, f"ended by signal {event.signal}"
    elif event.exit_code:
        ended, text = Ended.ERROR, f"exit code {event.exit_code}"
    else:
        ended, text = Ended.NO_BREAKPOINT, NOT_SIGNALLED
    return capture(state, changed(outcome, ended=ended, text=text))


def _is_not_its_fault(report: on.Report) -> bool:
    return TREATMENTS[report.ended].then not in (Then.RETRY, Then.AGAIN)


def _as_reported(outcome: Outcome, report: on.Report) -> Outcome:
    quiet = NOT_SIGNALLED if report.ended is Ended.NO_BREAKPOINT else ""
    text = report.detail or quiet
    if report.ended is Ended.ERROR and outcome.exit_code and "exit code" not in text:
        text = f"exit code {outcome.exit_code}: {text}".rstrip(": ")
    return changed(
        outcome,
        ended=report.ended,
        text=text,
        reset_at=report.reset_at,
        advice=report.advice,
    )


def stopped(state: Stopping, event: on.AgentStopped, policy: Policy) -> Step:
    """Go on to the capture; a breakpoint that was written meanwhile counts."""
    del policy
    outcome = changed(state.outcome, exit_code=event.exit_code, signal=event.signal)
    report = event.report
    if report is not None and outcome.ended in TIMES and report.ended not in VAGUE:
        # It showed no life because, say, it asked a provider in vain that did not answer.
        outcome = changed(_as_reported(outcome, report), text=report.detail or outcome.text)
    return capture(state, _with_last_word(outcome, event.word))


def lost_while_working(state: Working, event: on.RunnerRestarted, policy: Policy) -> Step:
    """Believe a breakpoint of the lost process; else the attempt was only interrupted."""
    del policy
    outcome = Outcome(ended=Ended.INTERRUPTED, text="the runner ended while the agent worked")
    return capture(state, _with_last_word(outcome, event.word))


def lost_while_stopping(state: Stopping, event: on.RunnerRestarted, policy: Policy) -> Step:
    """Go on where the ordered end left off."""
    del policy
    return capture(state, _with_last_word(state.outcome, event.word))


def stop(state: Working, outcome: Outcome) -> Step:
    """Order the end of the agent's tree."""
    order = do.StopAgent(attempt=state.tally.attempt, process=state.process)
    stopping = Stopping(
        tally=state.tally,
        process=state.process,
        outcome=outcome,
        log_start=state.log_start,
    )
    return Step(stopping, (order,))


def capture(state: State, outcome: Outcome) -> Step:
    """Order the snapshot."""
    capturing = Capturing(tally=state.tally, outcome=outcome)
    return Step(capturing, (_snapshot(capturing),))


def _snapshot(state: Capturing) -> do.TakeSnapshot:
    word = state.outcome.word
    blocked_on = word.blocked_on if word is not None and word.type == "blocked" else ()
    return do.TakeSnapshot(attempt=state.tally.attempt, blocked_on=blocked_on)


def _with_last_word(outcome: Outcome, word: Word | None) -> Outcome:
    if word is None:
        return outcome
    return changed(outcome, ended=Ended.BREAKPOINT, word=word, text="")


# --- after it lived ---------------------------------------------------------------------------


def conclude(state: Capturing, event: on.SnapshotTaken, policy: Policy) -> Step:
    """Decide what the attempt's end means."""
    tally = _looked_at(state, event, policy)
    outcome = state.outcome
    if outcome.ended is Ended.INTERRUPTED:
        again = changed(tally, interruptions=tally.interruptions + 1)
        # Approved: a review was for this very attempt, which keeps its number.
        back = BackingOff(tally=again, until=event.at, why=f"interrupted: {outcome.text}",
                          approved=True)  # fmt: skip
        return land(back, event.at)
    word = outcome.word
    over = _over(changed(state, tally=tally))
    if word is not None and word.type in DELIVERS and event.elsewhere:
        text = f"the work is on {event.elsewhere}; only what is committed there counts"
        return fail(over, event.at, policy, "off_branch", text)
    if word is not None and word.type == "task_complete" and _may_verify(state, event, policy):
        verifying = Verifying(
            tally=tally, word=word, head=event.head, changed_files=event.changed_files
        )
        return Step(verifying, (do.RunGates(attempt=tally.attempt, head=event.head),))
    if word is None:
        return settle(over, event.at, policy, outcome)
    return _heed(over, word, event, policy)


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
        signature="" if moved else before.signature,
        faults=0,
        shortages=0,
    )
    if moved:
        tally = breaker.moved_on(tally, policy)
    return tally if outcome.ended is Ended.INTERRUPTED else without_streaks(tally, outcome.ended)


def _words_of(word: Word | None) -> str:
    if word is None:
        return ""
    said = word.summary or word.question or word.reason
    return f"{word.type} {' '.join(word.blocked_on)} {said}"[:300]


def _over(state: S) -> S:
    """Count the attempt as over: whatever still speaks of it is late from now on."""
    return counted(state, attempt=state.tally.attempt + 1)


def _may_verify(state: Capturing, event: on.SnapshotTaken, policy: Policy) -> bool:
    return policy.has_gates and not event.dirty and state.tally.wanted is not Wanted.REJECT


def _heed(state: Capturing, word: Word, event: on.SnapshotTaken, policy: Policy) -> Step:
    match word.type:
        case "task_complete":
            return _complete_ungated(state, word, event, policy)
        case "blocked":
            return _block(state, word, event, policy)
        case "pr_created":
            return _await_merge(state, word, event, policy)
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
    return breaker.moved_on(tally, policy) if tally.said_new else tally


def _complete_ungated(
    state: Capturing, word: Word, event: on.SnapshotTaken, policy: Policy
) -> Step:
    if event.dirty:
        shown = ", ".join(event.dirty[:5]) + (" ..." if len(event.dirty) > 5 else "")  # noqa: PLR2004  # a line's worth
        text = f"the agent says it is done, but these files are not committed: {shown}"
        return fail(state, event.at, policy, "gate_failed", text)
    completed = Completed(
        tally=state.tally, summary=word.summary, head=event.head, changed_files=event.changed_files
    )
    return _complete(completed, event.at)


def _block(state: Capturing, word: Word, event: on.SnapshotTaken, policy: Policy) -> Step:
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
        if breaker.is_stuck(tally, policy):
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


def _await_merge(state: Capturing, word: Word, event: on.SnapshotTaken, policy: Policy) -> Step:
    pending = PrPending(
        tally=changed(resolved(state.tally), blocked_on=""),
        since=event.at,
        until=event.at + policy.pr_merge_timeout,
        word=word,
        url=word.pr_url,
        head=event.head,
    )
    return land(
        pending,
        event.at,
        do.PublishBranch(head=event.head),
        do.OpenPullRequest(url=word.pr_url, summary=word.summary),
    )


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
    return Step(changed(state, again_at=None), (_snapshot(state),))


def judged(state: Verifying, event: on.GatesFinished, policy: Policy) -> Step:
    """Complete on green; wake a fresh attempt with the failing output on red."""
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
    state = _over(state)
    red = [gate for gate in event.gates if not gate.ok]
    if red:
        text = "; ".join(f"`{gate.command}` {gate.end}" for gate in red)
        if event.as_before:
            text += ", as before any work"
        state = changed(state, tally=breaker.judged_red(state.tally, event.digest))
        return fail(state, event.at, policy, "gate_failed", text, lines=event.lines)
    completed = Completed(
        tally=untroubled(changed(state.tally, same_gate="", same_gates=0, open_since=None)),
        summary=state.word.summary,
        head=state.head,
        changed_files=state.changed_files,
        flagged=event.flagged,
        notes=event.notes,
        passed=tuple(gate.command for gate in event.gates),
    )
    return _complete(completed, event.at)


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
    """Run the gates once more."""
    del policy
    if state.again_at is None or event.at < state.again_at:
        return Step(state, late=True)
    order = do.RunGates(attempt=state.tally.attempt, head=state.head)
    return Step(changed(state, again_at=None), (order,))


def _complete(completed: Completed, at: float) -> Step:
    """Come to rest; there is nothing left that a pause could hold."""
    if completed.tally.wanted is Wanted.REJECT:
        return land(completed, at)
    before = completed.tally.merge_head
    tally = resolved(completed.tally)
    tally = changed(tally, wanted=Wanted.NOTHING, wanted_by="", wanted_why="", blocked_on="")
    return Step(
        changed(completed, tally=tally, resolves=before if before != completed.head else ""),
        (do.PublishBranch(head=completed.head),),
    )
