"""One sentence on why a lifecycle is where it is: rule, evidence, and what moves it on.

Pure text, one function per work state. Reads no file and no clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from lifecycle.machine.rules.blocks import names_ci, open_words, tasks_of
from lifecycle.machine.rules.endings import TREATMENTS
from lifecycle.machine.states import (
    TERMINAL,
    About,
    Accepted,
    AwaitingHuman,
    BackingOff,
    Blocked,
    Capturing,
    Completed,
    Preparing,
    PrPending,
    Queued,
    Reason,
    Rejected,
    Spawning,
    State,
    Stopping,
    Suspended,
    Verifying,
    Working,
)
from lifecycle.state_words import word_for
from orchestrator.terminal.text import span
from orchestrator.wording.possible_actions import why_not
from orchestrator.wording.why_facts import (
    RecordHistory,
    WhyContext,
    cut,
    either,
    listed,
    quoted,
    whole,
)
from orchestrator.wording.workers import where, worker_in
from runtime.agents.outcome import Ending

if TYPE_CHECKING:
    from collections.abc import Callable

    from lifecycle.machine.states import AttemptOutcome
    from lifecycle.record import AgentLifecycle


def why(record: AgentLifecycle, context: WhyContext) -> str:
    """Say why the lifecycle is in its state, and what moves it on."""
    state = record.work
    if state is None:
        return f"{record.agent_id} is {record.state}; no loop drives this record."
    text = _about(RecordHistory(record, context), state)
    kind, ago = type(state).__name__, lambda at: span(context.now - at)
    if place := where(worker_in(record.facts), kind, context.silent, ago):
        text = f"{text}; it is {place}"
    if context.unplaced and context.has_runner:
        text = f"{text}; {context.unplaced}"
    if not context.has_runner and not isinstance(state, (*TERMINAL, Completed)):
        alone = "no runner is alive, so nothing moves until `loopwright up`"
        was, now = word_for(state), word_for(state, runs=False)
        text = f"{text}; {alone}" if was == now else f"{now}: {alone}; {text}"
    return f"{text[:1].upper()}{text[1:]}."


def _about(past: RecordHistory, state: State) -> str:
    return SENTENCES[type(state)](past, state)


# --- before and during an attempt -------------------------------------------------------------


def _queued(past: RecordHistory, state: Queued) -> str:
    since = past.entered(state, past.record.created_at)
    if state.waiting_on:
        verb = "is" if len(state.waiting_on) == 1 else "are"
        return (
            f"queued since {since} because it depends on {listed(state.waiting_on)}, which {verb} "
            f"not complete; it starts when "
            f"that is done, or with {past.do('unblock')}"
        )
    return (
        f"queued since {since} because at most {past.context.settings.max_live_agents} agents run "
        "at once (max_live_agents); all it depends on is done, and it starts as soon as "
        "a slot is free"
    )


def _preparing(past: RecordHistory, state: Preparing) -> str:
    if said := state.tally.depends_on:
        return (
            f"merging what is complete of {listed(said)} into its branch for attempt "
            f"{state.tally.attempt}{past.cause(state)}; then the agent starts"
            f"{past.asked_for(state)}"
        )
    return (
        f"starting: preparing the workspace of attempt {state.tally.attempt}{past.cause(state)}; "
        f"the agent starts when worktree, branch and baseline are there{past.asked_for(state)}"
    )


def _spawning(past: RecordHistory, state: Spawning) -> str:
    return (
        f"starting the agent of attempt {state.tally.attempt}{past.cause(state)}; it works as "
        f"soon as its process exists{past.asked_for(state)}"
    )


def _working(past: RecordHistory, state: Working) -> str:
    who = f"process {state.process.pid}"
    if state.containment:
        who += f", {state.containment}"
    if state.frozen:
        return (
            f"paused: attempt {state.tally.attempt} is frozen ({who}): its processes and its "
            f"clocks stand still until `loopwright resume`{past.asked_for(state)}"
        )
    return (
        f"working on attempt {state.tally.attempt} since {past.context.when(state.since)} ({who})"
        f"{past.cause(state)}; it ends with its signal, its exit or a limit"
        f"{past.attempt_limits()}{past.asked_for(state)}"
    )


def _stopping(past: RecordHistory, state: Stopping) -> str:
    return (
        f"stopping the agent of attempt {state.tally.attempt} because "
        f"{_outcome(state, state.outcome)}; after at most "
        f"{past.context.settings.stop_grace:g} s its processes are killed{past.asked_for(state)}"
    )


def _capturing(past: RecordHistory, state: Capturing) -> str:
    then = past.again(state.again_at) or "what follows is decided when it is saved"
    return (
        f"stopping: saving the work of attempt {state.tally.attempt} because "
        f"{_outcome(state, state.outcome)}; {then}"
        f"{past.asked_for(state)}"
    )


def _verifying(past: RecordHistory, state: Verifying) -> str:
    if state.green is not None:
        return (
            f"verifying: a reviewer (review_by) reads {state.head[:12]} because attempt "
            f"{state.tally.attempt} signalled `{state.word.type}` and no verify command failed; "
            f"{past.again(state.again_at) or 'it goes on if that is approved'}"
            f"{past.asked_for(state)}"
        )
    then = past.again(state.again_at) or "it completes if all succeed"
    return (
        f"verifying: running the verify commands on {state.head[:12]} because attempt "
        f"{state.tally.attempt} signalled `task_complete`; {then}"
        f"{past.asked_for(state)}"
    )


# --- waits ------------------------------------------------------------------------------------


def _blocked(past: RecordHistory, state: Blocked) -> str:
    word = state.word
    target = listed(word.blocked_on) or quoted(word.reason or word.summary)
    said = f": {quoted(word.reason)}" if word.blocked_on and word.reason else ""
    over = f"; {state.heard}" if state.heard else ""
    return (
        f"waiting since {past.context.when(state.since)} because attempt {past.spoken_in(state)} "
        f"signalled `blocked` on {target}{said}{over}; it is unblocked "
        f"when {either([*_ways(past, state), 'someone runs ' + past.do('unblock')])}; given up "
        f"at {past.context.when(state.until)}{past.outside()}"
    )


def _ways(past: RecordHistory, state: Blocked) -> list[str]:
    """Say what ends the block without a person: all of it has to happen."""
    tasks, words = tasks_of(state), open_words(state)
    branch = past.record.facts.get("branch")
    ways = []
    if tasks:
        verb = "completes" if len(tasks) == 1 else "complete"
        ways.append(f"{listed(tasks)} {verb} (said by the agent)")
    if words and branch:
        which = branch if all(map(names_ci, words)) else f"a commit of {branch} made since"
        ways.append(f"CI reports on {which}")
    return [" and ".join(ways)] if ways else []


def _no_pull_request(past: RecordHistory, state: PrPending) -> str:
    often = past.context.settings.retry_interval
    return (
        f"waiting since {past.context.when(state.since)} for its pull request because attempt "
        f"{past.spoken_in(state)} signalled `pr_created`; there is none "
        f"yet: {whole(state.problem)}; tried again every {often:g} s; "
        f"{past.do('unblock')} starts a fresh attempt; {_then(past, state)}"
    )


def _then(past: RecordHistory, state: PrPending) -> str:
    limits, when = past.context.settings, past.context.when(state.until)
    reminds = limits.pr_reminder and "pr_merge_timeout" not in limits.model_fields_set
    return f"you are reminded of it at {when}" if reminds else f"given up at {when}"


def _pull_request(past: RecordHistory, state: PrPending) -> str:
    if state.number is None and state.problem:
        return _no_pull_request(past, state)
    number = f" (number {state.number})" if state.number is not None else ""
    return (
        f"waiting since {past.context.when(state.since)} for the merge of "
        f"{state.url or 'its pull request'}{number} because attempt {past.spoken_in(state)} "
        f"signalled `pr_created`; a fresh attempt starts when it is "
        f"merged, closed, red, reviewed or in conflict, or with {past.do('unblock')}; "
        f"{_then(past, state)}{past.outside()}"
    )


def _backing_off(past: RecordHistory, state: BackingOff) -> str:
    because = f" because of {quoted(state.why)}" if state.why else ""
    if state.tally.resting:
        names = listed([each.program or "its program" for each in state.tally.resting])
        because += f"; {names} is unavailable"
    if state.until <= past.context.now:
        return (
            f"waiting for a free slot: attempt {state.tally.attempt} is due{because}; at most "
            f"{past.context.settings.max_live_agents} agents run at once{past.counters(state)}"
        )
    return (
        f"waiting until {past.context.when(state.until)} for attempt {state.tally.attempt}{because}"
        f"{past.counters(state)}; {past.do('resume')} cuts the wait short"
    )


def _human(  # noqa: C901  # one per thing waited for
    past: RecordHistory, state: AwaitingHuman
) -> str:
    do, settings, url = past.do, past.context.settings, state.url
    until = past.context.when(state.until) if state.until else ""
    again = f"wait once more with {do('resume')}"
    match state.about:
        case About.QUESTION:
            because = f"attempt {past.spoken_in(state)} asked {quoted(state.text)}"
            then = f"continue with {do('answer', 'TEXT')}{until and f'; given up at {until}'}"
        case About.REVIEW:
            because = f"review_summaries holds attempt {state.tally.attempt}"
            read, start = do("summary"), do("summary approve")
            then = f"read what it is told with {read} and let it start with {start}"
        case About.BLOCKED_TIMEOUT:
            because, then = _blocked_for_good(past, state)
        case About.PR_TIMEOUT:
            name = url or "its pull request"
            because = f"{name} was neither merged nor closed within pr_merge_timeout"
            without = f"continue without it with {do('unblock')}"
            then = f"a later merge counts as soon as it waits again; {again}, or {without}"
        case About.CI_LIMIT:
            because = f"{quoted(state.text)} (ci_fix_limit = {settings.ci_fix_limit})"
            guided = f"{do('guide', 'TEXT')} and {do('unblock')}"
            then = f"a merge or a person's review still counts; look at {url}, then {guided}, "
            then += f"or {again}"
        case About.CONFLICT:
            limits = f"on_conflict = {settings.on_conflict}, conflict_limit = "
            because = f"{quoted(state.text)} ({limits}{settings.conflict_limit})"
            then = f"resolve it, then {do('resume')}, or let an agent try with "
            then += do("unblock", "TEXT")
            then = f"a merge of {url} still counts; {then}" if url else then
        case About.NO_PROGRESS:
            alike = state.tally.same_gates >= settings.same_gate_limit > 0
            name = "same_gate_limit" if alike else "stuck_limit"
            because = f"{quoted(state.text)} ({name} = {getattr(settings, name)})"
            then = f"look at the attempts in {do('logs')}, then {do('guide', 'TEXT')}, or "
            then += f"{do('resume')} for one more attempt"
            then += until and f"; one more attempt at {until}"
        case About.SETUP:
            because = state.text
            then = f"or let the agent have the network (setting network) and {do('resume')}"
        case About.OPINION:
            because = state.text
            then = f"read both sides, then let it count as it is with {do('unblock')}, send it "
            then += (
                f"back with {do('guide', 'TEXT')}, or ask the reviewer again with {do('resume')}"
            )
        case About.DEPENDENCY:
            because = f"{listed(state.failed)} ended without completing"
            then = f"start without it with {do('unblock')}, or end this too with {do('reject')}"
        case _:
            assert_never(state.about)
    return f"needs you since {past.context.when(state.since)} because {because}; {then}"


def _blocked_for_good(past: RecordHistory, state: AwaitingHuman) -> tuple[str, str]:
    """Say why the wait of a blocked lifecycle was given up, and how it continues."""
    do = past.do
    if state.circle:
        ways = f"{do('unblock')} or {do('answer', 'TEXT')}"
        return state.text, f"none of them continues by itself: end the wait of one with {ways}"
    if state.failed or state.joined:
        later = "a later completion counts; " if state.failed else ""
        return state.text, f"{later}continue with {do('unblock', 'TEXT')} or {do('answer', 'TEXT')}"
    what = listed(state.blocked_on) or quoted(state.text)
    ways = f"{do('unblock')} or {do('answer', 'TEXT')}, or wait once more with {do('resume')}"
    return f"{what} did not change within blocked_timeout", f"continue with {ways}"


def _suspended(past: RecordHistory, state: Suspended) -> str:
    return (
        f"{word_for(state)} since {past.context.when(state.since)} by {past.held_by()}"
        f"; {past.do('resume')} continues it where it was: "
        f"{_about(past, state.inner)}"
    )


# --- ends -------------------------------------------------------------------------------------


def _completed(past: RecordHistory, state: Completed) -> str:
    judged = past.rule(state) == "judged"
    proof = "the verify commands passed" if judged else "there are no verify commands"
    others = f"{past.do('guide', 'TEXT')} sends it back, {past.do('reject')} drops it"
    then = f"{past.do('accept')} merges it, {others}"
    facts = past.record.facts
    if state.merging:
        then = "its merge is under way"
    elif merged := past.context.standing.merged_as:
        into, known = facts.get("base_branch"), f"{past.do('accept')} records that"
        then = (
            f"its work is in {into} already, as {merged[:12]}, where a merge of other work took "
            f"it: {known}; to reject it would not take it out"
        )
    elif along := past.context.standing.along:
        names = listed([str(each) for each in along])
        then = (
            f"with it would come along the work of {names}: accept that first, or all of it with "
            f"{past.do('accept', '--with-dependencies')}; {others}"
        )
    elif state.problem:
        again = f"when that is fixed, {past.do('accept')} tries again"
        then = f"its merge was refused: {quoted(state.problem)}; {again}, {others}"
    elif facts.get("branch") and not facts.get("base_branch"):
        by_hand = f"merge {facts['branch']} into the branch it shall go into, switch to that branch"
        then = f"it was started from no branch: {by_hand}, then {past.do('accept')}; {others}"
    flagged = (
        f"; look at {listed(state.flagged)}: it changed tests or gates" if state.flagged else ""
    )
    flagged += "".join(f"; {note}" for note in state.notes)
    on_commit = f" on {state.head[:12]}" if state.head else ""
    return (
        f"done since {past.entered(state, past.record.updated_at)} because attempt "
        f"{past.spoken_in(state)} signalled `task_complete` and {proof}{on_commit}"
        f"; {then}{flagged}"
    )


def _accepted(past: RecordHistory, state: Accepted) -> str:
    base = past.record.facts.get("base_branch") or "its base"
    return (
        f"accepted at {past.entered(state, past.record.updated_at)} because its work was merged "
        f"into {base} as {state.commit[:12]}; nothing is left to do"
    )


def _rejected(past: RecordHistory, state: Rejected) -> str:
    text = whole(state.text) or "a person rejected it"
    if state.reason is Reason.ERROR:
        text = f"of something that only you can fix: {text}"
    again = past.do("resume")
    limit = f"raise that limit, and {again} continues it"
    if past.names_retries and past.rule(state) != "respawn":
        more = f"`loopwright run --task-id {past.record.task_id} --max-retries N`"
        limit = f"its task names that limit: {more} raises it and continues it"
    if not why_not(past.record, "resume", past.context.settings):
        limit = f"{again} continues it"
    then = {
        Reason.PERSON: "it stays so",
        Reason.MAX_RETRIES: limit,
        Reason.BUDGET: f"raise that budget, and {again} continues it",
        Reason.USAGE_LIMIT: f"when it is over, {again} continues it",
        Reason.ERROR: f"fix that, and {again} continues it",
    }.get(state.reason, f"{again} continues it")
    counted = state.reason is Reason.MAX_RETRIES
    return (
        f"{word_for(state)} at {past.entered(state, past.record.updated_at)} because {text}"
        f"{'' if counted else past.counters(state)}{past.kept()}; the attempts are in "
        f"{past.do('logs')}; {then}"
    )


def _outcome(state: State, outcome: AttemptOutcome) -> str:
    attempt = state.tally.attempt
    if outcome.ended is Ending.BREAKPOINT and outcome.word is not None:
        return f"attempt {attempt} signalled `{outcome.word.type}`"
    how = {
        Ending.NO_BREAKPOINT: "ended without a signal",
        Ending.INVALID_BREAKPOINT: "left an unreadable signal",
        Ending.HANG: "showed no sign of life any more",
        Ending.TIMEOUT: "took too long",
        Ending.LIMIT: "used more than it may",
        Ending.INTERRUPTED: "was interrupted",
    }.get(outcome.ended) or f"ended with {outcome.ended} ({TREATMENTS[outcome.ended].meaning})"
    return f"attempt {attempt} {how}" + (f": {cut(outcome.text)}" if outcome.text else "")


SENTENCES: dict[type[State], Callable[..., str]] = {
    Queued: _queued,
    Preparing: _preparing,
    Spawning: _spawning,
    Working: _working,
    Stopping: _stopping,
    Capturing: _capturing,
    Verifying: _verifying,
    Blocked: _blocked,
    PrPending: _pull_request,
    BackingOff: _backing_off,
    AwaitingHuman: _human,
    Suspended: _suspended,
    Completed: _completed,
    Accepted: _accepted,
    Rejected: _rejected,
}
