"""Tells facts in one line each, for people who watch loops run. Decides nothing.

Text of agents, tools and people is made safe for a terminal here and cut to a line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.machine import events as on
from lifecycle.machine.states import (
    AwaitingHuman,
    BackingOff,
    Blocked,
    Completed,
    Preparing,
    PrPending,
    Rejected,
    State,
    Suspended,
    Verifying,
    Word,
)
from orchestrator.cli.text import instant, one_line, span

if TYPE_CHECKING:
    from lifecycle.parts import News

WORDS = 160
"""Columns of somebody's words in one line."""
KEPT = (on.MailboxInvalid, on.RunnerRestarted, on.SnapshotFailed)
"""Facts of an attempt that are told although they move nothing."""
FAILED = (on.WorkspaceFailed, on.SpawnFailed)
"""Facts that are told with the wait for the next try, as it is not the agent's to mend."""


def fact(news: News, state: State | None) -> str:
    """Tell a fact and what came of it; nothing for facts that only machines care for.

    `state` is the state the lifecycle has now, which may be one further than `news.after`.
    """
    moved = news.before != news.after
    if not moved and isinstance(news.fact, on.AttemptEvent) and not isinstance(news.fact, KEPT):
        return ""  # it came too late to matter
    told = _event(news.fact)
    now = state if state is not None and type(state).__name__ == news.after else None
    then = _entered(now, news) if now is not None and moved else ""
    if isinstance(news.fact, on.WorkspaceReady) and isinstance(now, BackingOff):
        return "; ".join(filter(None, (told, _rests(now, news))))
    woken = isinstance(now, BackingOff) and isinstance(news.fact, on.PersonEvent)
    if isinstance(now, BackingOff) and isinstance(news.fact, FAILED):
        return f"{told}; tried again in {span(now.until - news.at)}"
    both = isinstance(news.fact, on.GatesFinished | on.PersonEvent | on.SnapshotTaken)
    if both and told and then and not woken:
        return f"{told}; {then}"
    return told or then


def _event(event: on.Event) -> str:  # noqa: C901, PLR0911, PLR0912  # one line per fact reads best
    match event:
        case on.WorkspaceReady(branch=branch, base_branch=base, base_commit=commit):
            text = f"works on branch {branch}, from {base or commit[:12]}"
            return "; ".join((text, *_before(event), *map(_cut, event.notes)))
        case on.WorkspaceFailed(text=text):
            return f"no workspace: {_cut(text)}"
        case on.AgentSpawned(attempt=attempt, process=process):
            return f"attempt {attempt} started (pid {process.pid})"
        case on.SpawnFailed(attempt=attempt, text=text):
            return f"attempt {attempt} could not start: {_cut(text)}"
        case on.BreakpointReached(attempt=attempt, word=word):
            return said(attempt, word)
        case on.MailboxInvalid(attempt=attempt, problem=problem):
            return f"attempt {attempt} wrote a communications.json that cannot be read: {problem}"
        case on.AgentExited():
            return _exited(event)
        case on.FreezeFailed(attempt=attempt, text=text):
            return f"attempt {attempt} could not be frozen and works on: {_cut(text)}"
        case on.AgentStopped(attempt=attempt, forced=True):
            return f"attempt {attempt} did not end when asked and was killed"
        case on.LimitReached(attempt=attempt, text=text):
            return f"attempt {attempt} is ended: {_cut(text)}"
        case on.AttemptDoomed(attempt=attempt, ended=ended, text=text):
            return f"attempt {attempt} is ended ({ended}): {_cut(text)}"
        case on.RunnerRestarted(attempt=attempt):
            return f"attempt {attempt} was cut short with its runner; its work is kept"
        case on.SnapshotTaken(attempt=attempt, saved_ref=ref, notes=notes) if ref or notes:
            text = f"attempt {attempt} left uncommitted work, saved under {ref}"
            return "; ".join((*((text,) if ref else ()), *map(_cut, notes)))
        case on.SnapshotFailed(text=text):
            return f"its work could not be captured yet: {_cut(text)}"
        case on.GatesFinished():
            return _gates(event)
        case on.CiReported(text=text, type=kind):
            return f"CI says {kind}: {_cut(text)}" if text else f"CI says {kind}"
        case on.DependencySettled(task_id=task_id, done=done):
            return f"task {task_id} {'is done' if done else 'did not complete'}"
        case on.PullRequestOpened(number=number, url=url):
            return f"pull request {number} is open ({url})"
        case on.PullRequestUnknown(text=text):
            return f"its pull request cannot be asked for: {_cut(text)}"
        case on.PullRequestMoved(number=number, fate=fate, text=text):
            return _cut(text) or f"pull request {number}: {fate}"
        case on.Reviewed(number=number, text=text):
            return _cut(text) or f"pull request {number} was reviewed"
        case on.MergeSucceeded(commit=commit):
            return f"accepted: merged as {commit[:7]}"
        case on.MergeFailed(text=text):
            return f"not merged: {_cut(text)}"
        case on.AlongAccepted(agent_id=agent_id):
            return f"{agent_id} is accepted: it can be merged now"
        case on.WorkspaceRemoved(problem=problem) if problem:
            return f"its workspace or branch is still there: {_cut(problem)}"
        case on.WorkspaceRemoved(saved_ref=ref):
            return "workspace and branch removed" + (f"; work saved under {ref}" if ref else "")
        case on.PersonEvent(by=by):
            return "" if by in ("run", "shutdown") else _person(event)
        case _:
            return ""


def _before(event: on.WorkspaceReady) -> tuple[str, ...]:
    red, count = sum(not gate.ok for gate in event.baseline), len(event.baseline)
    if not red:
        return ()
    which = "the verify command fails" if count == 1 else f"{red} of {count} verify commands fail"
    return (f"{which} before any work",)


def said(attempt: int, word: Word) -> str:
    """Tell what an agent signalled."""
    text = word.question or word.summary or word.reason
    waits = f" on {', '.join(word.blocked_on)}" if word.blocked_on else ""
    return _cut(f"attempt {attempt} says {word.type}{waits}" + (f": {text}" if text else ""))


def _exited(event: on.AgentExited) -> str:
    if event.word is not None:
        return said(event.attempt, event.word)
    if event.limit:
        return _cut(f"attempt {event.attempt} was ended by its {event.limit}")
    if event.report is not None and not event.problem:
        return _cut(f"attempt {event.attempt} ended with {_judged(event, event.report)}")
    how = f"by signal {event.signal}" if event.signal else f"with exit code {event.exit_code or 0}"
    why = f", its signal cannot be read: {_cut(event.problem)}" if event.problem else ""
    return f"attempt {event.attempt} ended {how}{why or ', without a signal'}"


def _judged(event: on.AgentExited, report: on.Report) -> str:
    """Name how it ended; the words for it come with what follows."""
    return f"{report.ended}" + (f" and exit code {event.exit_code}" if event.exit_code else "")


def _gates(event: on.GatesFinished) -> str:
    if event.problem:
        return f"the verify commands could not be run: {_cut(event.problem)}"
    red = [gate for gate in event.gates if not gate.ok]
    if not red:
        count = len(event.gates)
        green = f"verified: {'the command is' if count == 1 else f'all {count} commands are'} green"
        changed = f" (it changed {', '.join(event.flagged)}: look at that)" if event.flagged else ""
        return _cut("; ".join((green + changed, *event.notes)))
    first = red[0]
    how = first.end
    more = f" (and {len(red) - 1} more)" if len(red) > 1 else ""
    return _cut(f"not verified: `{first.command}` {how}{more}")


def _person(event: on.PersonEvent) -> str:
    by = one_line(event.by, 40) or "a person"
    verbs = {
        on.Unblocked: "unblocked", on.Answered: "answered", on.Guided: "guided",
        on.SummaryApproved: "summary approved", on.PauseRequested: "paused",
        on.ResumeRequested: "resumed", on.StopRequested: "stopped",
        on.AcceptRequested: "accepted", on.RejectRequested: "rejected",
    }  # fmt: skip
    verb = verbs.get(type(event), type(event).__name__)
    if isinstance(event, on.PauseRequested) and event.now:
        verb = "frozen"
    words = getattr(event, "text", "") or getattr(event, "note", "") or getattr(event, "why", "")
    return _cut(f"{verb} by {by}" + (f": {words}" if words else ""))


def _entered(state: State, news: News) -> str:  # noqa: PLR0911  # one line per state reads best
    match state:
        case Preparing():
            return "preparing its workspace"
        case Verifying():
            return "running the verify commands"
        case Blocked(word=word):
            thing = ", ".join(word.blocked_on) or word.reason or "something it did not name"
            return _cut(f"waits, without a process: {thing}")
        case PrPending():
            return "waits for the merge of its pull request"
        case BackingOff(until=until, why=why):
            left = until - news.at
            return _cut(why) + (f"; next attempt in {span(left)}" if left > 1 else "")
        case AwaitingHuman(text=text):
            return _cut(f"waits for you: {text}")
        case Suspended():
            return "holds until it is resumed"
        case Completed(summary=summary):
            verified = news.before == "Verifying"
            how = "complete" if verified else "complete, but not verified: no verify command"
            return _cut(f"{how}: {summary}") if summary else how
        case Rejected(reason=reason, text=text):
            return _cut(f"given up ({reason}): {text}")
        case _:
            return ""


def _rests(state: BackingOff, news: News) -> str:
    """Tell what a first attempt waits for: others met a limit of its program before."""
    if state.until <= news.at or not state.tally.resting:
        return ""
    names = ", ".join(each.program or "its program" for each in state.tally.resting)
    until = instant(state.until, news.at)
    return (
        f"waits: {one_line(names, WORDS)} rests until {until} ({_cut(state.why)}); sooner with: "
        f"loopwright resume {news.agent_id}"
    )


def _cut(text: str) -> str:
    return one_line(text, WORDS)
