"""The facts of a journal in words: the one table, by the kind of the fact.

Each has a clause (says why a lifecycle is where it is, and what `events` prints) and a line for
people who watch, which is empty for facts that only machines care for. What the audit holds of a
fact is in `lifecycle.store.rows.audit`. Pure; must not judge what a fact means, and neither cuts
texts nor makes them safe for a terminal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lifecycle.machine import events as on

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lifecycle.machine.events import Event
    from lifecycle.machine.opinion import Opinion
    from lifecycle.machine.states import Gate, Signal
    from lifecycle.record import JournalEntry

SAYS, SIGNALLED = "says", "signalled"
_FEW = 3
"""Verify commands that one text names."""


def clause(event: Event) -> str:
    """Say what happened, as part of a sentence."""
    words = FACTS.get(type(event))
    return words.clause(event) if words is not None else type(event).__name__


def line(event: Event) -> str:
    """Return a line for people who watch; empty where they need not know."""
    words = FACTS.get(type(event))
    return words.line(event) if words is not None else ""


def words_of(event: Event) -> str:
    """Return what a person said with a fact, and why."""
    named = (getattr(event, name, "") for name in ("text", "note", "why"))
    return "; ".join(filter(None, named))


def open_remarks(journal: Iterable[JournalEntry]) -> tuple[str, ...]:
    """Return the remarks of reviewers that no attempt was told and signalled after, by id."""
    told: list[str] = []
    handed: tuple[str, ...] = ()
    for entry in journal:
        if isinstance(entry.event, on.Reviewed):
            told += [f"{each.id} {each.title}" for each in entry.event.details if each.id]
        elif isinstance(entry.event, on.AgentSpawned):
            handed = tuple(told)
        elif getattr(entry.event, "word", None) is not None and not entry.late:
            told = [each for each in told if each not in handed]
    return tuple(told)


def red_before(gates: Sequence[str]) -> str:
    """Say which verify commands were red before any work; nothing of none."""
    return f"red before any work: {_few(gates)}" if gates else ""


def failures(gates: Sequence[Gate]) -> tuple[str, ...]:
    """Return the verify commands that failed, each with how it ended."""
    return tuple(f"`{gate.command}` {gate.end}" for gate in gates if not gate.ok)


class FactWords(NamedTuple):
    """One row of the table."""

    clause: Callable[..., str]
    line: Callable[..., str] = lambda _: ""


def _same(tell: Callable[..., str]) -> FactWords:
    return FactWords(tell, tell)


def _attempt(what: str) -> FactWords:
    return _same(lambda event: f"attempt {event.attempt} {what}: {event.text}")


def _asked(did: str, is_asked: str) -> FactWords:
    """Return the words for a person's request: who did what, and what follows."""
    return FactWords(
        lambda event: f"{event.by or 'a person'} {did}{_with(words_of(event))}", lambda _: is_asked
    )


# --- an attempt -------------------------------------------------------------------------------


def _ready(event: on.WorkspaceReady) -> str:
    red = [f"`{gate.command}`" for gate in event.baseline if not gate.ok]
    failing = f"; {_few(red)} failed already before any work" if red else ""
    return f"its workspace on {event.branch} is ready{failing}"


def _works(event: on.WorkspaceReady) -> str:
    start = f"from {event.base_branch or event.base_commit[:12]}"
    if event.on_top_of:
        start = f"on top of the work of {', '.join(event.on_top_of)}"
    return _joined_up(f"works on branch {event.branch}, {start}", *event.notes)


def _joined(event: on.WorkJoined) -> str:
    held = f"its branch holds the work of {', '.join(event.tasks)}" if event.tasks else ""
    apart = f"that of {', '.join(event.apart)} is to be merged by the agent" if event.apart else ""
    return _joined_up(held, apart)


def _spoke(verb: str) -> Callable[..., str]:
    return lambda event: _word(event.attempt, event.word, verb)


def _word(attempt: int, word: Signal, verb: str) -> str:
    on_what = f" on {', '.join(word.blocked_on)}" if word.blocked_on else ""
    said = word.question or word.summary or word.reason
    kind = word.type if verb == SAYS else f"`{word.type}`"
    return f"attempt {attempt} {verb} {kind}{on_what}{_with(said)}"


def _exited(verb: str) -> Callable[..., str]:
    return lambda event: _exit(event, verb)


def _exit(event: on.AgentExited, verb: str) -> str:
    if event.word is not None:
        return _word(event.attempt, event.word, verb)
    if event.problem:
        return f"attempt {event.attempt} left an unreadable communications.json: {event.problem}"
    return f"attempt {event.attempt} {_end(event, verb)}"


def _end(event: on.AgentExited, verb: str) -> str:
    if event.limit:
        return f"was ended by its {event.limit}"
    if event.report is not None:
        code = f" and exit code {event.exit_code}" if event.exit_code else ""
        # In a line, why it ended so comes with what follows.
        detail = _with(event.report.detail) if verb == SIGNALLED else ""
        return f"ended with {event.report.ended}{code}{detail}"
    if event.signal is not None:
        return f"was ended by signal {event.signal}"
    if event.exit_code:
        return f"ended with exit code {event.exit_code}"
    return "ended without a signal of its own"


def _stopped(event: on.AgentStopped) -> str:
    if event.word is not None:
        return _word(event.attempt, event.word, SIGNALLED)
    forced = ", by force" if event.forced else ""
    return f"all processes of attempt {event.attempt} are ended{forced}"


def _killed(event: on.AgentStopped) -> str:
    killed = f"attempt {event.attempt} did not end when asked and was killed"
    return killed if event.forced else ""


def _restarted(event: on.RunnerRestarted) -> str:
    if event.word is not None:
        return _word(event.attempt, event.word, SIGNALLED)
    return f"the runner restarted and had lost track of attempt {event.attempt}"


def _captured(event: on.SnapshotTaken) -> str:
    saved = f"uncommitted work is under {event.saved_ref}" if event.saved_ref else ""
    head = event.head[:12] or "no commit"
    text = f"the work of attempt {event.attempt} is saved at {head}{saved and f', {saved}'}"
    return _joined_up(text, *event.notes)


def _left(event: on.SnapshotTaken) -> str:
    saved = f"attempt {event.attempt} left uncommitted work, saved under {event.saved_ref}"
    return _joined_up(saved if event.saved_ref else "", *event.notes)


# --- verdicts and waits -----------------------------------------------------------------------


def _judged(event: on.GatesFinished) -> str:
    if event.problem:
        return _not_run(event)
    if red := failures(event.gates):
        return _few(red)
    one = len(event.gates) == 1
    return "the verify command passed" if one else "all verify commands passed"


def _verified(event: on.GatesFinished) -> str:
    if event.problem:
        return _not_run(event)
    first, *others = failures(event.gates) or ("",)
    if first:
        return f"not verified: {first}" + (f" (and {len(others)} more)" if others else "")
    count = len(event.gates)
    green = f"verified: {'the command is' if count == 1 else f'all {count} commands are'} green"
    changed = f" (it changed {', '.join(event.flagged)}: look at that)" if event.flagged else ""
    return _joined_up(green + changed, *event.notes)


def _not_run(event: on.GatesFinished) -> str:
    return f"the verify commands could not be run: {event.problem}"


def _reviewed(event: on.ReviewFinished) -> str:
    if event.problem:
        return f"the second opinion could not be asked for: {event.problem}"
    if event.opinion is not None:
        return said_by(event.opinion)
    outcome = event.outcome
    if outcome is None:
        return "the second opinion gave no answer"
    return f"the second opinion failed ({outcome.ended}){_with(outcome.text)}"


def said_by(opinion: Opinion) -> str:
    """Say what a reviewer came to."""
    told = [f"{each.where}: {each.text}" for each in opinion.findings]
    count = f"{len(told)} finding{'s' * (len(told) != 1)}"
    verdict = (
        "approves" + (f", with {count}" if told else "") if opinion.approves else f"has {count}"
    )
    return f"the reviewer {opinion.by} {verdict}{_with('; '.join(told[:_FEW]))}"


def _looked(event: on.BlockersLooked) -> str:
    failed = f"{', '.join(event.failed)} ended without completing" if event.failed else ""
    parts = (
        f"{', '.join(event.done)} completed" if event.done else "",
        f"{failed} ({event.why})" if failed and event.why else failed,
        f"CI is {event.ci}" if event.ci else "",
        f"they wait for each other in a circle: {' -> '.join(event.circle)}"
        if event.circle
        else "",
    )
    return f"the blockers were checked{_with(', '.join(filter(None, parts)))}"


def _ci(event: on.CiReported) -> str:
    about = f" on {event.sha[:12]}" if event.sha else ""
    return f"CI reported {event.type}{about}{_with(event.text)}"


def _moved(event: on.PullRequestMoved) -> str:
    name = f"pull request {event.number}"
    if name in event.text:
        return event.text
    fate = str(event.fate).replace("_", " ")
    return f"{name}: {fate}" + (f", {event.text}" if event.text else "")


def _removed(event: on.WorkspaceRemoved) -> str:
    if event.problem:
        return f"its workspace or branch is still there: {event.problem}"
    kept = f", its work is kept under {event.saved_ref}" if event.saved_ref else ""
    return f"its workspace and branch were removed{kept}"


def _with(text: str) -> str:
    return f": {text}" if text else ""


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
    return ", ".join(names[:_FEW]) + more


def _joined_up(*parts: str) -> str:
    return "; ".join(filter(None, parts))


FACTS: dict[type[Event], FactWords] = {
    on.Admitted: FactWords(lambda _: "it got a slot"),
    on.DependencySettled: _same(
        lambda event: (
            f"task {event.task_id} {'completed' if event.done else 'ended without completing'}"
        )
    ),
    on.WorkspaceReady: FactWords(_ready, _works),
    on.WorkJoined: FactWords(
        lambda event: _joined(event) or "there was nothing to merge into its branch", _joined
    ),
    on.WorkspaceFailed: _same(lambda event: f"the workspace could not be made: {event.text}"),
    on.AgentSpawned: _same(
        lambda event: f"attempt {event.attempt} started (pid {event.process.pid})"
    ),
    on.SpawnFailed: _attempt("could not start"),
    on.BreakpointReached: FactWords(_spoke(SIGNALLED), _spoke(SAYS)),
    on.MailboxInvalid: _same(
        lambda event: (
            f"attempt {event.attempt} wrote a communications.json that cannot be read: "
            f"{event.problem}"
        )
    ),
    on.AgentExited: FactWords(_exited(SIGNALLED), _exited(SAYS)),
    on.LimitReached: _attempt("reached a limit and is ended"),
    on.AttemptDoomed: _same(
        lambda event: f"attempt {event.attempt} is ended ({event.ended}): {event.text}"
    ),
    on.AgentStopped: FactWords(_stopped, _killed),
    on.RunnerRestarted: FactWords(
        _restarted,
        lambda event: f"attempt {event.attempt} was interrupted with its runner; its work is kept",
    ),
    on.SnapshotTaken: FactWords(_captured, _left),
    on.SnapshotFailed: _same(lambda event: f"its work could not be saved yet: {event.text}"),
    on.GatesFinished: FactWords(_judged, _verified),
    on.ReviewFinished: _same(_reviewed),
    on.BlockersLooked: FactWords(_looked),
    on.CiReported: FactWords(_ci, lambda event: f"CI says {event.type}{_with(event.text)}"),
    on.PullRequestOpened: _same(lambda event: f"pull request {event.number} is open ({event.url})"),
    on.PullRequestUnknown: _same(lambda event: f"it has no pull request yet: {event.text}"),
    on.PullRequestMoved: _same(_moved),
    on.Reviewed: _same(lambda event: event.text or f"pull request {event.number} was reviewed"),
    on.DeadlinePassed: FactWords(lambda _: "its deadline passed"),
    on.TurnPassed: FactWords(lambda _: "a turn of the runner passed"),
    on.Unblocked: _asked("unblocked it", "unblocked"),
    on.Answered: _asked("answered", "answered"),
    on.Guided: _asked("gave guidance", "guided"),
    on.SummaryApproved: _asked("approved the summary", "summary approved"),
    on.PauseRequested: _asked("asked to pause", "a pause after this attempt is asked for"),
    on.FreezeFailed: _attempt("could not be frozen and keeps running"),
    on.ResumeRequested: _asked("asked to resume", "resumed"),
    on.StopRequested: _asked("asked to stop", "a stop is asked for"),
    on.AcceptRequested: _asked("asked to accept it", "a merge is asked for"),
    on.RejectRequested: _asked("rejected", "its end is asked for"),
    on.MergeSucceeded: FactWords(
        lambda event: f"it was merged as {event.commit[:12]}",
        lambda event: f"accepted: merged as {event.commit[:7]}",
    ),
    on.MergeFailed: _same(lambda event: f"not merged: {event.text}"),
    on.AlongAccepted: _same(lambda event: f"{event.agent_id} is accepted: it can be merged now"),
    on.WorkspaceRemoved: _same(_removed),
}
"""By the kind of the fact; a test holds it to the machine's own list. A person's line says what is
asked for; who tells it adds by whom, and with which words."""
