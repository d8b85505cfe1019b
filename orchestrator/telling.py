"""Tells facts in one line each, for people who watch loops run. Decides nothing.

Text of agents, tools and people is made safe for a terminal here. What an agent says is cut to a
line; what a person may have to do, is not.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from lifecycle.machine import events as on
from lifecycle.machine.states import (
    AwaitingHuman,
    BackingOff,
    Blocked,
    Completed,
    Preparing,
    PrPending,
    Reason,
    Rejected,
    State,
    Suspended,
    Verifying,
    Word,
    Working,
)
from lifecycle.state_words import word_for
from orchestrator.cli.text import instant, one_line, span
from orchestrator.waiting import waiting_for

if TYPE_CHECKING:
    from lifecycle.parts import News

PREPARING = "preparing its workspace"
NAMED = 3
"""Verify commands that one line names."""
WORDS = 160
"""Columns of an agent's words in one line."""
MOST = 2000
"""Columns of any other text: as much as is told of an error, with what to do about it."""
KEPT = (on.MailboxInvalid, on.RunnerRestarted, on.SnapshotFailed)
"""Facts of an attempt that are told although they move nothing."""
FAILED = (on.WorkspaceFailed, on.SpawnFailed)
"""Facts that are told with the wait for the next try, as it is not the agent's to mend."""


def facts(news: News) -> tuple[str, ...]:
    """Tell a fact, and before it what nobody should miss."""
    red = red_start(news.fact) if isinstance(news.fact, on.WorkspaceReady) else ""
    return tuple(filter(None, (red, fact(news))))


def red_start(event: on.WorkspaceReady) -> str:
    """Say which verify commands failed before any work."""
    return red_before(
        tuple(f"`{gate.command}` {gate.end}" for gate in event.baseline if not gate.ok)
    )


def red_before(red: tuple[str, ...]) -> str:
    """Say that these were red before any work; nothing of none."""
    if not red:
        return ""
    more = f" and {len(red) - NAMED} more" if len(red) > NAMED else ""
    return f"red before any work: {_cut(', '.join(red[:NAMED]))}{more}"


def fact(news: News) -> str:
    """Tell a fact and what came of it; nothing for facts that only machines care for."""
    moved = news.before != news.after
    if not moved and isinstance(news.fact, on.AttemptEvent) and not isinstance(news.fact, KEPT):
        return ""  # it came too late to matter
    # The record may be one state further than this piece of news.
    state = news.record.work
    now = state if type(state).__name__ == news.after else None
    person = isinstance(news.fact, on.PersonEvent)
    told = _person(news.fact, now) if isinstance(news.fact, on.PersonEvent) else _event(news.fact)
    then = _entered(now, news) if now is not None and moved else ""
    if isinstance(news.fact, on.WorkspaceReady) and isinstance(now, BackingOff):
        return "; ".join(filter(None, (told, _rests(now, news))))
    woken = person and isinstance(now, BackingOff | Suspended | Rejected)
    if isinstance(now, BackingOff) and isinstance(news.fact, FAILED):
        return f"{told}; tried again in {span(now.until - news.at)}"
    if isinstance(now, Rejected) and isinstance(news.fact, FAILED):
        return f"{told}; {word_for(now)}"
    both = isinstance(news.fact, on.GatesFinished | on.PersonEvent | on.SnapshotTaken)
    if both and told and then and not woken:
        return f"{told}; {then}"
    return told or then


def _event(event: on.Event) -> str:  # noqa: C901, PLR0911, PLR0912  # one line per fact reads best
    match event:
        case on.WorkspaceReady(branch=branch, base_branch=base, base_commit=commit):
            text = f"works on branch {branch}, from {base or commit[:12]}"
            return "; ".join((text, *map(_whole, event.notes)))
        case on.WorkJoined(tasks=tasks, apart=apart):
            held = f"its branch holds the work of {', '.join(tasks)}" if tasks else ""
            left = f"the agent is to merge the work of {', '.join(apart)}" if apart else ""
            return "; ".join(filter(None, (held, left)))
        case on.WorkspaceFailed(text=text):
            return f"no workspace: {_whole(text)}"
        case on.AgentSpawned(attempt=attempt, process=process):
            return f"attempt {attempt} started (pid {process.pid})"
        case on.SpawnFailed(attempt=attempt, text=text):
            return f"attempt {attempt} could not start: {_whole(text)}"
        case on.BreakpointReached(attempt=attempt, word=word):
            return said(attempt, word)
        case on.MailboxInvalid(attempt=attempt, problem=problem):
            return f"attempt {attempt} wrote a communications.json that cannot be read: {problem}"
        case on.AgentExited():
            return _exited(event)
        case on.FreezeFailed(attempt=attempt, text=text):
            return f"attempt {attempt} could not be frozen and works on: {_whole(text)}"
        case on.AgentStopped(attempt=attempt, forced=True):
            return f"attempt {attempt} did not end when asked and was killed"
        case on.LimitReached(attempt=attempt, text=text):
            return f"attempt {attempt} is ended: {_whole(text)}"
        case on.AttemptDoomed(attempt=attempt, ended=ended, text=text):
            return f"attempt {attempt} is ended ({ended}): {_whole(text)}"
        case on.RunnerRestarted(attempt=attempt):
            return f"attempt {attempt} was cut short with its runner; its work is kept"
        case on.SnapshotTaken(attempt=attempt, saved_ref=ref, notes=notes) if ref or notes:
            text = f"attempt {attempt} left uncommitted work, saved under {ref}"
            return "; ".join((*((text,) if ref else ()), *map(_cut, notes)))
        case on.SnapshotFailed(text=text):
            return f"its work could not be captured yet: {_whole(text)}"
        case on.GatesFinished():
            return _gates(event)
        case on.CiReported(text=text, type=kind):
            return f"CI says {kind}: {_whole(text)}" if text else f"CI says {kind}"
        case on.DependencySettled(task_id=task_id, done=done):
            return f"task {task_id} {'is done' if done else 'did not complete'}"
        case on.PullRequestOpened(number=number, url=url):
            return f"pull request {number} is open ({url})"
        case on.PullRequestUnknown(text=text):
            return f"its pull request cannot be asked for: {_whole(text)}"
        case on.PullRequestMoved(number=number, fate=fate, text=text):
            return _whole(text) or f"pull request {number}: {fate}"
        case on.Reviewed(number=number, text=text):
            return _whole(text) or f"pull request {number} was reviewed"
        case on.MergeSucceeded(commit=commit):
            return f"accepted: merged as {commit[:7]}"
        case on.MergeFailed(text=text):
            return f"not merged: {_whole(text)}"
        case on.AlongAccepted(agent_id=agent_id):
            return f"{agent_id} is accepted: it can be merged now"
        case on.WorkspaceRemoved(problem=problem) if problem:
            return f"its workspace or branch is still there: {_whole(problem)}"
        case on.WorkspaceRemoved(saved_ref=ref):
            return "workspace and branch removed" + (f"; work saved under {ref}" if ref else "")
        case _:
            return ""


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
        return f"the verify commands could not be run: {_whole(event.problem)}"
    red = [gate for gate in event.gates if not gate.ok]
    if not red:
        count = len(event.gates)
        green = f"verified: {'the command is' if count == 1 else f'all {count} commands are'} green"
        changed = f" (it changed {', '.join(event.flagged)}: look at that)" if event.flagged else ""
        return _whole("; ".join((green + changed, *event.notes)))
    first = red[0]
    how = first.end
    more = f" (and {len(red) - 1} more)" if len(red) > 1 else ""
    return _whole(f"not verified: `{first.command}` {how}{more}")


def _person(event: on.PersonEvent, state: State | None) -> str:
    if event.by in ("run", "shutdown"):
        return ""
    what = _ASKED.get(type(event), "")
    if isinstance(state, Suspended) and isinstance(event, on.PauseRequested | on.StopRequested):
        what = word_for(state)
    elif isinstance(event, on.PauseRequested) and isinstance(state, Working) and state.frozen:
        what = "frozen"
    elif isinstance(event, on.RejectRequested) and isinstance(state, Rejected):
        what = word_for(state)
    elif isinstance(event, on.AcceptRequested) and not isinstance(state, Completed):
        return ""  # it is merged already
    words = getattr(event, "text", "") or getattr(event, "note", "") or getattr(event, "why", "")
    by = one_line(event.by, 40) or "a person"
    return _whole(f"{what} by {by}" + (f": {words}" if words else ""))


_ASKED: dict[type[on.PersonEvent], str] = {
    on.Unblocked: "unblocked",
    on.Answered: "answered",
    on.Guided: "guided",
    on.SummaryApproved: "summary approved",
    on.PauseRequested: "a pause after this attempt is asked for",
    on.ResumeRequested: "resumed",
    on.StopRequested: "a stop is asked for",
    on.AcceptRequested: "a merge is asked for",
    on.RejectRequested: "its end is asked for",
}


def _entered(state: State, news: News) -> str:  # noqa: PLR0911  # one line per state reads best
    word = word_for(state)
    match state:
        case Preparing(tally=tally):
            said = ", ".join(tally.depends_on)
            return f"merging the work of {said} into its branch" if said else PREPARING
        case Verifying():
            return "running the verify commands"
        case Blocked() | PrPending():
            what = waiting_for(type(state).__name__, asdict(state), news.at, span)
            return _whole(f"{word} for {what}")
        case BackingOff(until=until, why=why):
            left = until - news.at
            return _whole(why) + (f"; next attempt in {span(left)}" if left > 1 else "")
        case AwaitingHuman(text=text):
            return _whole(f"{word}: {text}")
        case Suspended():
            return f"{word} until it is resumed"
        case Completed(summary=summary):
            how = (
                word if news.before == "Verifying" else f"{word}, not verified (no verify command)"
            )
            return _cut(f"{how}: {summary}") if summary else how
        case Rejected(reason=reason, text=text):
            named = f"{word} ({reason})" if reason is not Reason.PERSON else word
            return _whole(f"{named}: {text}")
        case _:
            return ""


def _rests(state: BackingOff, news: News) -> str:
    """Tell what a first attempt waits for: others met a limit of its program before."""
    if state.until <= news.at or not state.tally.resting:
        return ""
    names = ", ".join(each.program or "its program" for each in state.tally.resting)
    until = instant(state.until, news.at)
    return (
        f"waits: {one_line(names, WORDS)} rests until {until} ({_whole(state.why)}); sooner with: "
        f"loopwright resume {news.agent_id}"
    )


def _cut(text: str) -> str:
    return one_line(text, WORDS)


def _whole(text: str) -> str:
    return one_line(text, MOST)
