"""One sentence on why a lifecycle is where it is: rule, evidence, and what moves it on.

Pure text, one function per work state. Reads no file and no clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.machine.blocks import names_ci, open_words, tasks_of
from lifecycle.machine.endings import TREATMENTS
from lifecycle.machine.states import (
    TERMINAL,
    About,
    Accepted,
    AwaitingHuman,
    BackingOff,
    Blocked,
    Capturing,
    Completed,
    Ended,
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
from orchestrator.scene import Scene, View, cut, either, listed, quoted, whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from lifecycle.machine.states import Outcome
    from lifecycle.record import AgentLifecycle

__all__ = ["View", "why"]


def why(record: AgentLifecycle, view: View) -> str:
    """Say why the lifecycle is in its state, and what moves it on."""
    state = record.work
    if state is None:
        return f"{record.agent_id} is {record.state}; no loop drives this record."
    text = _about(Scene(record, view), state)
    if not view.has_runner and not isinstance(state, (*TERMINAL, Completed)):
        alone = "no runner is alive, so nothing moves until `loopwright up`"
        was, now = word_for(state), word_for(state, runs=False)
        text = f"{text}; {alone}" if was == now else f"{now}: {alone}; {text}"
    return f"{text[:1].upper()}{text[1:]}."


def _about(scene: Scene, state: State) -> str:
    return SENTENCES[type(state)](scene, state)


# --- before and during an attempt -------------------------------------------------------------


def _queued(scene: Scene, state: Queued) -> str:
    since = scene.entered(state, scene.record.created_at)
    if state.waiting_on:
        verb = "is" if len(state.waiting_on) == 1 else "are"
        return (
            f"queued since {since} because it depends on {listed(state.waiting_on)}, which {verb} "
            f"not complete (rule: {scene.rule(state) or 'dependencies first'}); it starts when "
            f"that is done, or with {scene.do('unblock')}"
        )
    return (
        f"queued since {since} because at most {scene.view.settings.max_live_agents} agents run "
        "at once (rule: max_live_agents); all it depends on is done, and it starts as soon as "
        "there is a place"
    )


def _preparing(scene: Scene, state: Preparing) -> str:
    if said := state.tally.depends_on:
        return (
            f"merging what is complete of {listed(said)} into its branch for attempt "
            f"{state.tally.attempt}{scene.cause(state)}; then the agent starts"
            f"{scene.asked_for(state)}"
        )
    return (
        f"starting: preparing the workspace of attempt {state.tally.attempt}{scene.cause(state)}; "
        f"the agent starts when worktree, branch and baseline are there{scene.asked_for(state)}"
    )


def _spawning(scene: Scene, state: Spawning) -> str:
    return (
        f"starting the agent of attempt {state.tally.attempt}{scene.cause(state)}; it works as "
        f"soon as its process exists{scene.asked_for(state)}"
    )


def _working(scene: Scene, state: Working) -> str:
    who = f"process {state.process.pid}"
    if state.containment:
        who += f", {state.containment}"
    if state.frozen:
        return (
            f"paused: attempt {state.tally.attempt} is frozen ({who}): its processes and its "
            f"clocks stand still until `loopwright resume`{scene.asked_for(state)}"
        )
    return (
        f"working on attempt {state.tally.attempt} since {scene.view.when(state.since)} ({who})"
        f"{scene.cause(state)}; it ends with its signal, its exit or a limit"
        f"{scene.attempt_limits()}{scene.asked_for(state)}"
    )


def _stopping(scene: Scene, state: Stopping) -> str:
    return (
        f"stopping the agent of attempt {state.tally.attempt} because "
        f"{_outcome(state, state.outcome)}{scene.named_rule(state)}; after at most "
        f"{scene.view.settings.stop_grace:g} s its processes are killed{scene.asked_for(state)}"
    )


def _capturing(scene: Scene, state: Capturing) -> str:
    then = scene.again(state.again_at) or "what follows is decided when it is saved"
    return (
        f"stopping: saving the work of attempt {state.tally.attempt} because "
        f"{_outcome(state, state.outcome)}{scene.named_rule(state)}; {then}"
        f"{scene.asked_for(state)}"
    )


def _verifying(scene: Scene, state: Verifying) -> str:
    then = scene.again(state.again_at) or "it completes if all succeed"
    return (
        f"verifying: running the verify commands on {state.head[:12]} because attempt "
        f"{state.tally.attempt} signalled `task_complete`{scene.named_rule(state)}; {then}"
        f"{scene.asked_for(state)}"
    )


# --- waits ------------------------------------------------------------------------------------


def _blocked(scene: Scene, state: Blocked) -> str:
    word = state.word
    target = listed(word.blocked_on) or quoted(word.reason or word.summary)
    said = f": {quoted(word.reason)}" if word.blocked_on and word.reason else ""
    over = f"; {state.heard}" if state.heard else ""
    return (
        f"waiting since {scene.view.when(state.since)} because attempt {scene.spoken_in(state)} "
        f"signalled `blocked` on {target}{said}{scene.named_rule(state)}{over}; it is unblocked "
        f"when {either([*_ways(scene, state), 'someone runs ' + scene.do('unblock')])}; given up "
        f"at {scene.view.when(state.until)}{scene.outside()}"
    )


def _ways(scene: Scene, state: Blocked) -> list[str]:
    """Say what ends the block without a person: all of it has to happen."""
    tasks, words = tasks_of(state), open_words(state)
    branch = scene.record.facts.get("branch")
    ways = []
    if tasks:
        verb = "completes" if len(tasks) == 1 else "complete"
        ways.append(f"{listed(tasks)} {verb} (said by the agent)")
    if words and branch:
        which = branch if all(map(names_ci, words)) else f"a commit of {branch} made since"
        ways.append(f"CI reports on {which}")
    return [" and ".join(ways)] if ways else []


def _pull_request(scene: Scene, state: PrPending) -> str:
    number = f" (number {state.number})" if state.number is not None else ""
    return (
        f"waiting since {scene.view.when(state.since)} for the merge of "
        f"{state.url or 'its pull request'}{number} because attempt {scene.spoken_in(state)} "
        f"signalled `pr_created`{scene.named_rule(state)}; a fresh attempt starts when it is "
        f"merged, closed, red, reviewed or in conflict, or with {scene.do('unblock')}; given up at "
        f"{scene.view.when(state.until)}{scene.outside()}"
    )


def _backing_off(scene: Scene, state: BackingOff) -> str:
    because = f" because of {quoted(state.why)}" if state.why else ""
    because += scene.named_rule(state)
    if state.tally.resting:
        names = listed([each.program or "its program" for each in state.tally.resting])
        because += f"; {names} rests"
    if state.until <= scene.view.now:
        return (
            f"waiting for a place: attempt {state.tally.attempt} is due{because}; at most "
            f"{scene.view.settings.max_live_agents} agents run at once{scene.counters(state)}"
        )
    return (
        f"waiting until {scene.view.when(state.until)} for attempt {state.tally.attempt}{because}"
        f"{scene.counters(state)}; {scene.do('resume')} cuts the wait short"
    )


def _apart(scene: Scene, state: AwaitingHuman) -> str:
    since, rule = scene.view.when(state.since), scene.named_rule(state)
    settings = scene.view.settings
    where = f"; a merge of {state.url} still counts" if state.url else ""
    return (
        f"needs you since {since} because {quoted(state.text)} (on_conflict = "
        f"{settings.on_conflict}, conflict_limit = {settings.conflict_limit}){rule}{where}; "
        f"resolve it, then {scene.do('resume')}, or let an agent try with "
        f"{scene.do('unblock', 'TEXT')}"
    )


def _human(scene: Scene, state: AwaitingHuman) -> str:  # noqa: C901, PLR0911  # one per wait
    since, rule = scene.view.when(state.since), scene.named_rule(state)
    again = f"wait once more with {scene.do('resume')}"
    match state.about:
        case About.QUESTION:
            until = f"; given up at {scene.view.when(state.until)}" if state.until else ""
            return (
                f"needs you since {since} because attempt {scene.spoken_in(state)} "
                f"asked {quoted(state.text)}{rule}; go on with {scene.do('answer', 'TEXT')}{until}"
            )
        case About.REVIEW:
            agent = scene.record.agent_id
            return (
                f"needs you since {since} because review_summaries holds attempt "
                f"{state.tally.attempt}{rule}; read what it is told with `loopwright summary "
                f"{agent}` and let it start with `loopwright summary approve {agent}`"
            )
        case About.BLOCKED_TIMEOUT if state.circle:
            return (
                f"needs you since {since} because {state.text}{rule}; none of them "
                f"goes on by itself: end the wait of one with {scene.do('unblock')} or "
                f"{scene.do('answer', 'TEXT')}"
            )
        case About.BLOCKED_TIMEOUT if state.failed or state.joined:
            later = " a later completion counts;" if state.failed else ""
            return (
                f"needs you since {since} because {state.text}{rule};{later} go on with "
                f"{scene.do('unblock', 'TEXT')} or {scene.do('answer', 'TEXT')}"
            )
        case About.BLOCKED_TIMEOUT:
            what = listed(state.blocked_on) or quoted(state.text)
            return (
                f"needs you since {since} because {what} did not change within "
                f"blocked_timeout{rule}; go on with {scene.do('unblock')} or "
                f"{scene.do('answer', 'TEXT')}, or {again}"
            )
        case About.PR_TIMEOUT:
            return (
                f"needs you since {since} because {state.url or 'its pull request'} was "
                f"neither merged nor closed within pr_merge_timeout{rule}; a later merge counts "
                f"as soon as it waits again; {again}, or go on without it with "
                f"{scene.do('unblock')}"
            )
        case About.CI_LIMIT:
            limit = scene.view.settings.ci_fix_limit
            return (
                f"needs you since {since} because {quoted(state.text)} (ci_fix_limit = "
                f"{limit}){rule}; a merge or a review still counts; look at {state.url}, then "
                f"{scene.do('guide', 'TEXT')} and {scene.do('unblock')}, or {again}"
            )
        case About.CONFLICT:
            return _apart(scene, state)
        case About.NO_PROGRESS:
            until = f"; one more attempt at {scene.view.when(state.until)}" if state.until else ""
            settings = scene.view.settings
            alike = state.tally.same_gates >= settings.same_gate_limit > 0
            name = "same_gate_limit" if alike else "stuck_limit"
            return (
                f"needs you since {since} because {quoted(state.text)} ({name} = "
                f"{getattr(settings, name)}){rule}; look at the attempts in "
                f"{scene.do('logs')}, then {scene.do('guide', 'TEXT')}, or {scene.do('resume')} "
                f"for one more attempt{until}"
            )
        case About.SETUP:
            return (
                f"needs you since {since} because {state.text}{rule}; or let the agent "
                f"have the network (setting network) and {scene.do('resume')}"
            )
        case About.DEPENDENCY:
            return (
                f"needs you since {since} because {listed(state.failed)} ended without "
                f"completing{rule}; start without it with {scene.do('unblock')}, or end this too "
                f"with {scene.do('reject')}"
            )


def _suspended(scene: Scene, state: Suspended) -> str:
    return (
        f"{word_for(state)} since {scene.view.when(state.since)} by {scene.held_by()}"
        f"{scene.named_rule(state)}; {scene.do('resume')} lets it go on where it was: "
        f"{_about(scene, state.inner)}"
    )


# --- ends -------------------------------------------------------------------------------------


def _completed(scene: Scene, state: Completed) -> str:
    judged = scene.rule(state) == "judged"
    proof = "the verify commands passed" if judged else "there are no verify commands"
    others = f"{scene.do('guide', 'TEXT')} sends it back, {scene.do('reject')} drops it"
    then = f"{scene.do('accept')} merges it, {others}"
    facts = scene.record.facts
    if state.merging:
        then = "its merge is under way"
    elif merged := scene.view.standing.merged_as:
        into, known = facts.get("base_branch"), f"{scene.do('accept')} records that"
        then = (
            f"its work is in {into} already, as {merged[:12]}, where a merge of other work took "
            f"it: {known}; to reject it would not take it out"
        )
    elif along := scene.view.standing.along:
        names = listed([str(each) for each in along])
        then = (
            f"with it would come along the work of {names}: accept that first, or all of it with "
            f"{scene.do('accept', '--with-dependencies')}; {others}"
        )
    elif state.problem:
        again = f"when that is mended, {scene.do('accept')} tries again"
        then = f"its merge was refused: {quoted(state.problem)}; {again}, {others}"
    elif facts.get("branch") and not facts.get("base_branch"):
        by_hand = f"merge {facts['branch']} into the branch it shall go into, switch to that branch"
        then = f"it was started from no branch: {by_hand}, then {scene.do('accept')}; {others}"
    flagged = (
        f"; look at {listed(state.flagged)}: it changed tests or gates" if state.flagged else ""
    )
    flagged += "".join(f"; {note}" for note in state.notes)
    on_commit = f" on {state.head[:12]}" if state.head else ""
    return (
        f"done since {scene.entered(state, scene.record.updated_at)} because attempt "
        f"{scene.spoken_in(state)} signalled `task_complete` and {proof}{on_commit}"
        f"{scene.named_rule(state)}; {then}{flagged}"
    )


def _accepted(scene: Scene, state: Accepted) -> str:
    base = scene.record.facts.get("base_branch") or "its base"
    return (
        f"accepted at {scene.entered(state, scene.record.updated_at)} because its work was merged "
        f"into {base} as {state.commit[:12]}{scene.named_rule(state)}; nothing is left to do"
    )


def _rejected(scene: Scene, state: Rejected) -> str:
    text = whole(state.text) or "a person rejected it"
    if state.reason is Reason.ERROR:
        text = f"of what only you can mend: {text}"
    again = scene.do("resume")
    limit = f"raise that limit, and {again} takes it up again"
    if scene.names_retries and scene.rule(state) != "respawn":
        more = f"`loopwright run --task-id {scene.record.task_id} --max-retries N`"
        limit = f"its task names that limit: {more} raises it and takes it up again"
    then = {
        Reason.PERSON: "it stays so",
        Reason.MAX_RETRIES: limit,
        Reason.BUDGET: f"raise that budget, and {again} takes it up again",
        Reason.USAGE_LIMIT: f"when it is over, {again} takes it up again",
        Reason.ERROR: f"mend that, and {again} takes it up again",
    }.get(state.reason, f"{again} takes it up again")
    counted = state.reason is Reason.MAX_RETRIES
    return (
        f"{word_for(state)} at {scene.entered(state, scene.record.updated_at)} because {text} "
        f"(rule: {scene.rule(state) or 'unknown'}, reason: {state.reason})"
        f"{'' if counted else scene.counters(state)}{scene.kept()}; the attempts are in "
        f"{scene.do('logs')}; {then}"
    )


def _outcome(state: State, outcome: Outcome) -> str:
    attempt = state.tally.attempt
    if outcome.ended is Ended.BREAKPOINT and outcome.word is not None:
        return f"attempt {attempt} signalled `{outcome.word.type}`"
    how = {
        Ended.NO_BREAKPOINT: "ended without a signal",
        Ended.INVALID_BREAKPOINT: "left an unreadable signal",
        Ended.HANG: "showed no sign of life any more",
        Ended.TIMEOUT: "took too long",
        Ended.LIMIT: "used more than it may",
        Ended.INTERRUPTED: "was interrupted",
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
