"""Rules of one attempt, from the slot it got to the end of its process. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.machine import effects as do
from lifecycle.machine import programs
from lifecycle.machine.events import Fault
from lifecycle.machine.rules.endings import TREATMENTS, FollowUp, broken
from lifecycle.machine.states import (
    About,
    AttemptOutcome,
    AwaitingHuman,
    BackingOff,
    Capturing,
    Reason,
    Signal,
    Spawning,
    State,
    Stopping,
    Wanted,
    Working,
    counted,
    spawn_of,
)
from lifecycle.machine.step import (
    Step,
    environment,
    judge,
    land,
    launch,
    prepare,
    reject,
    untroubled,
)
from lifecycle.machine.values import changed
from runtime.agents.outcome import Ending

if TYPE_CHECKING:
    from lifecycle.machine import events as on
    from lifecycle.machine.policy import Policy
    from lifecycle.machine.states import Preparing, Queued, Tally

NOT_SIGNALLED = "ended without a breakpoint"
TIMES = (Ending.HANG, Ending.TIMEOUT)
"""Endings that say less than what the program told before."""
VAGUE = (*TIMES, Ending.KILLED, Ending.CRASH, Ending.ERROR)
"""What a program may say of its end that says no more than why we ended it."""

# --- before the agent lives -------------------------------------------------------------------


def begin(state: Queued, event: on.Admitted, policy: Policy) -> Step:
    """Start with the workspace; a slot alone does not settle dependencies."""
    del policy
    if state.waiting_on:
        return Step(state, late=True)
    if event.over:
        return reject(state, Reason.BUDGET, event.over)
    return prepare(changed(state, tally=programs.up_to_date(state.tally, event.at, event.resting)))


def respawn(state: BackingOff, event: on.Admitted, policy: Policy) -> Step:
    """Start the next attempt once its instant has come and a budget is left for it.

    Where only the verdict on the latest is still to come, that is asked for.
    """
    if event.at < state.until:
        return Step(state, late=True)
    if state.verify is not None:
        verifying = changed(state.verify, tally=state.tally)
        return Step(verifying, (judge(verifying),))
    if event.over:
        return reject(state, Reason.BUDGET, event.over)
    state = changed(state, tally=programs.up_to_date(state.tally, event.at, event.resting))
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
    """Wait out a failing disk; give up at once on what only the user can fix."""
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
    """Count the process; end it at once if that was asked for, or it spoke, meanwhile."""
    del policy
    state = _lived(state)
    working = Working(
        tally=state.tally,
        process=event.process,
        since=event.at,
        containment=event.containment,
        log_start=event.log_start,
    )
    if state.ending is not None:
        return stop(working, state.ending)
    if state.tally.wanted in (Wanted.STOP, Wanted.HOLD, Wanted.REJECT):
        who = state.tally.wanted_by or "a person"
        return stop(working, AttemptOutcome(ended=Ending.INTERRUPTED, text=f"stopped by {who}"))
    return Step(working)


def _lived(state: Spawning) -> Spawning:
    return changed(state, tally=untroubled(state.tally.spawned()))


def no_spawn(state: Spawning, event: on.SpawnFailed, policy: Policy) -> Step:
    """Wait out a full machine; do without a program that does not exist, or give up at once."""
    if event.fault is Fault.USER:
        return broken(state, event.at, policy, event.text, approved=True)
    back = BackingOff(until=event.at, why="", approved=True)
    return environment(state, event, policy, back)


def spawn_again(state: Spawning, event: on.RunnerRestarted, policy: Policy) -> Step:
    """Believe a breakpoint of the lost process; else let the same attempt start once more."""
    del policy
    if event.word is None and state.ending is not None:
        return capture(_lived(state), state.ending)
    if event.word is None:
        if state.tally.wanted in (Wanted.STOP, Wanted.HOLD, Wanted.REJECT):
            return capture(
                state, AttemptOutcome(ended=Ending.INTERRUPTED, text="stopped by a person")
            )
        why = "the runner ended while the agent was being started"
        if event.lived:
            lived = state.tally.spawned()
            state = changed(state, tally=changed(lived, interruptions=lived.interruptions + 1))
        # By way of a new admission: slots, budgets and limits may have changed hands since.
        back = BackingOff(tally=state.tally, until=event.at, why=why, approved=True)
        return land(back, event.at)
    state = changed(state, tally=state.tally.spawned())
    return capture(state, AttemptOutcome(ended=Ending.BREAKPOINT, word=event.word))


# --- while and just after it lives ------------------------------------------------------------


def breakpoint_reached(
    state: Working | Spawning, event: on.BreakpointReached, policy: Policy
) -> Step:
    """End the process: what it had to say is said."""
    del policy
    return stop(state, AttemptOutcome(ended=Ending.BREAKPOINT, word=event.word))


def limit_reached(state: Working | Spawning, event: on.LimitReached, policy: Policy) -> Step:
    """End a process that took too long or went silent."""
    del policy
    ended = Ending.HANG if event.idle else Ending.TIMEOUT
    return stop(state, AttemptOutcome(ended=ended, text=event.text))


def doomed(state: Working | Spawning, event: on.AttemptDoomed, policy: Policy) -> Step:
    """End a process that waits for nothing, or uses more than it may."""
    del policy
    outcome = AttemptOutcome(
        ended=event.ended, text=event.text, reset_at=event.reset_at, advice=event.advice
    )
    return stop(state, outcome)


def note(state: State, event: on.Event, policy: Policy) -> Step:
    """Keep the fact in the journal; the next summary tells it."""
    del event, policy
    return Step(state)


def exited(state: Working | Spawning, event: on.AgentExited, policy: Policy) -> Step:
    """Judge an agent that ended by itself: its word counts, its exit code proves nothing."""
    del policy
    how = AttemptOutcome(
        ended=Ending.BREAKPOINT,
        word=event.word,
        exit_code=event.exit_code,
        signal=event.signal,
    )
    outcome = how if event.word is not None else _without_word(how, event)
    if isinstance(state, Spawning):
        if state.ending is not None:
            known = changed(state.ending, exit_code=event.exit_code, signal=event.signal)
            outcome = _with_last_word(known, event.word)
        state = _lived(state)
    return capture(state, outcome)


def _without_word(how: AttemptOutcome, event: on.AgentExited) -> AttemptOutcome:
    report = event.report
    if event.interrupted:
        ended, text = Ending.INTERRUPTED, event.interrupted
    elif event.limit:
        ended, text = Ending.LIMIT, event.limit
    elif report is not None and _is_not_its_fault(report):
        return _as_reported(how, report)
    elif event.problem:
        ended, text = Ending.INVALID_BREAKPOINT, event.problem
    elif report is not None:
        return _as_reported(how, report)
    elif event.signal is not None:
        ended, text = Ending.CRASH, f"ended by signal {event.signal}"
    elif event.exit_code:
        ended, text = Ending.ERROR, f"exit code {event.exit_code}"
    else:
        ended, text = Ending.NO_BREAKPOINT, NOT_SIGNALLED
    return changed(how, ended=ended, text=text)


def _is_not_its_fault(report: on.AgentReport) -> bool:
    return TREATMENTS[report.ended].then not in (FollowUp.RETRY, FollowUp.REPEAT)


def _as_reported(outcome: AttemptOutcome, report: on.AgentReport) -> AttemptOutcome:
    quiet = NOT_SIGNALLED if report.ended is Ending.NO_BREAKPOINT else ""
    text = report.detail or quiet
    if report.ended is Ending.ERROR and outcome.exit_code and "exit code" not in text:
        text = f"exit code {outcome.exit_code}: {text}".rstrip(": ")
    return changed(
        outcome,
        ended=report.ended,
        text=text,
        reset_at=report.reset_at,
        advice=report.advice,
    )


def stopped(state: Stopping, event: on.AgentStopped, policy: Policy) -> Step:
    """Continue to the capture; a breakpoint that was written meanwhile counts."""
    del policy
    outcome = changed(state.outcome, exit_code=event.exit_code, signal=event.signal)
    report = event.report
    if report is not None and outcome.ended in TIMES and report.ended not in VAGUE:
        # It showed no life because, for example, its provider did not answer.
        outcome = changed(_as_reported(outcome, report), text=report.detail or outcome.text)
    return capture(state, _with_last_word(outcome, event.word))


def lost_while_working(state: Working, event: on.RunnerRestarted, policy: Policy) -> Step:
    """Believe a breakpoint of the lost process; else the attempt was only interrupted."""
    del policy
    outcome = AttemptOutcome(
        ended=Ending.INTERRUPTED, text="the runner ended while the agent worked"
    )
    return capture(state, _with_last_word(outcome, event.word))


def lost_while_stopping(state: Stopping, event: on.RunnerRestarted, policy: Policy) -> Step:
    """Continue where the ordered end stopped."""
    del policy
    return capture(state, _with_last_word(state.outcome, event.word))


def stop(state: Working | Spawning, outcome: AttemptOutcome) -> Step:
    """Order the end of the agent's tree, as soon as it is known which that is."""
    if isinstance(state, Spawning):
        return Step(state if state.ending is not None else changed(state, ending=outcome))
    order = do.StopAgent(attempt=state.tally.attempt, process=state.process)
    stopping = Stopping(
        tally=state.tally,
        process=state.process,
        outcome=outcome,
        log_start=state.log_start,
    )
    return Step(stopping, (order,))


def capture(state: State, outcome: AttemptOutcome) -> Step:
    """Order the snapshot."""
    capturing = Capturing(tally=state.tally, outcome=outcome, spawn_id=spawn_of(state) or "")
    return Step(capturing, (snapshot(capturing),))


def snapshot(state: Capturing) -> do.TakeSnapshot:
    """Order to find out what the attempt left."""
    word = state.outcome.word
    blocked_on = word.blocked_on if word is not None and word.type == "blocked" else ()
    return do.TakeSnapshot(
        attempt=state.tally.attempt, blocked_on=blocked_on, spawn_id=state.spawn_id
    )


def _with_last_word(outcome: AttemptOutcome, word: Signal | None) -> AttemptOutcome:
    if word is None:
        return outcome
    return changed(outcome, ended=Ending.BREAKPOINT, word=word, text="")
