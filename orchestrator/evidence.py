"""Each fact of a journal in words, for people. Pure; must not judge what a fact means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.machine import events as on

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lifecycle.machine.events import Event
    from lifecycle.machine.states import Gate, Word

_FEW = 3


def told(event: Event) -> str:
    """Say what happened."""
    teller = _TELLERS.get(type(event))
    return teller(event) if teller is not None else type(event).__name__


def _word(attempt: int, word: Word) -> str:
    words = word.question or word.summary or word.reason
    on_what = f" on {', '.join(word.blocked_on)}" if word.blocked_on else ""
    return f"attempt {attempt} signalled `{word.type}`{on_what}" + (f": {words}" if words else "")


def _settled(event: on.DependencySettled) -> str:
    how = "completed" if event.done else "ended without completing"
    return f"task {event.task_id} {how}"


def _ready(event: on.WorkspaceReady) -> str:
    red = [gate.command for gate in event.baseline if not gate.ok]
    failing = f"; {_commands(red)} failed already before any work" if red else ""
    return f"its workspace on {event.branch} is ready{failing}"


def _joined(event: on.WorkJoined) -> str:
    held = f"its branch holds the work of {', '.join(event.tasks)}" if event.tasks else ""
    apart = f"that of {', '.join(event.apart)} is to be merged by the agent" if event.apart else ""
    return "; ".join(filter(None, (held, apart))) or "there was nothing to merge into its branch"


def _exited(event: on.AgentExited) -> str:
    if event.word is not None:
        return _word(event.attempt, event.word)
    if event.problem:
        return f"attempt {event.attempt} left an unreadable communications.json: {event.problem}"
    return f"attempt {event.attempt} {_end(event)}"


def _end(event: on.AgentExited) -> str:
    if event.limit:
        return f"was ended by its {event.limit}"
    if event.report is not None:
        code = f" and exit code {event.exit_code}" if event.exit_code else ""
        told = f": {event.report.detail}" if event.report.detail else ""
        return f"ended with {event.report.ended}{code}{told}"
    if event.signal is not None:
        return f"was ended by signal {event.signal}"
    if event.exit_code:
        return f"ended with exit code {event.exit_code}"
    return "ended without a signal of its own"


def _stopped(event: on.AgentStopped) -> str:
    if event.word is not None:
        return _word(event.attempt, event.word)
    forced = ", by force" if event.forced else ""
    return f"all processes of attempt {event.attempt} are ended{forced}"


def _restarted(event: on.RunnerRestarted) -> str:
    if event.word is not None:
        return _word(event.attempt, event.word)
    return f"the runner started anew and had lost sight of attempt {event.attempt}"


def _captured(event: on.SnapshotTaken) -> str:
    saved = f", uncommitted work is under {event.saved_ref}" if event.saved_ref else ""
    saved += "".join(f"; {note}" for note in event.notes)
    return (
        f"the work of attempt {event.attempt} is saved at {event.head[:12] or 'no commit'}{saved}"
    )


def _judged(event: on.GatesFinished) -> str:
    if event.problem:
        return f"the verify commands could not be run: {event.problem}"
    red = [gate for gate in event.gates if not gate.ok]
    if red:
        return _red(red)
    count = len(event.gates)
    return "all verify commands passed" if count > 1 else "the verify command passed"


def _looked(event: on.BlockersLooked) -> str:
    parts = []
    if event.done:
        parts.append(f"{', '.join(event.done)} completed")
    if event.failed:
        why = f" ({event.why})" if event.why else ""
        parts.append(f"{', '.join(event.failed)} ended without completing{why}")
    if event.ci:
        parts.append(f"CI is {event.ci}")
    if event.circle:
        parts.append(f"they wait in a circle: {' -> '.join(event.circle)}")
    return "the blockers were looked at" + (f": {', '.join(parts)}" if parts else "")


def _ci(event: on.CiReported) -> str:
    about = f" on {event.sha[:12]}" if event.sha else ""
    return f"CI reported {event.type}{about}" + (f": {event.text}" if event.text else "")


def _moved(event: on.PullRequestMoved) -> str:
    name = f"pull request {event.number}"
    if name in event.text:
        return event.text
    fate = str(event.fate).replace("_", " ")
    return f"{name}: {fate}" + (f", {event.text}" if event.text else "")


def _reviewed(event: on.Reviewed) -> str:
    return event.text or f"pull request {event.number} was reviewed"


def _merge_failed(event: on.MergeFailed) -> str:
    return f"the merge was refused: {event.text}"


def _removed(event: on.WorkspaceRemoved) -> str:
    if event.problem:
        return f"its workspace or branch is still there: {event.problem}"
    kept = f", its work is kept under {event.saved_ref}" if event.saved_ref else ""
    return f"its workspace was removed{kept}"


def _by(what: str) -> Callable[[on.PersonEvent], str]:
    def say(event: on.PersonEvent) -> str:
        text = getattr(event, "text", "") or getattr(event, "note", "") or getattr(event, "why", "")
        return f"{event.by or 'a person'} {what}" + (f": {text}" if text else "")

    return say


def _red(gates: Sequence[Gate]) -> str:
    how = [f"`{gate.command}` {gate.end}" for gate in gates[:_FEW]]
    more = f" and {len(gates) - _FEW} more" if len(gates) > _FEW else ""
    return ", ".join(how) + more


def _commands(names: Sequence[str]) -> str:
    more = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
    return ", ".join(f"`{name}`" for name in names[:_FEW]) + more


_TELLERS: dict[type[Event], Callable[..., str]] = {
    on.Admitted: lambda _: "it got a place",
    on.DependencySettled: _settled,
    on.WorkspaceReady: _ready,
    on.WorkJoined: _joined,
    on.WorkspaceFailed: lambda event: f"the workspace could not be made: {event.text}",
    on.AgentSpawned: lambda event: (
        f"the agent of attempt {event.attempt} started (process {event.process.pid})"
    ),
    on.SpawnFailed: lambda event: f"the agent could not be started: {event.text}",
    on.BreakpointReached: lambda event: _word(event.attempt, event.word),
    on.MailboxInvalid: lambda event: f"communications.json cannot be read: {event.problem}",
    on.AgentExited: _exited,
    on.LimitReached: lambda event: f"attempt {event.attempt} reached a limit: {event.text}",
    on.AttemptDoomed: lambda event: (
        f"attempt {event.attempt} was to be ended for {event.ended}: {event.text}"
    ),
    on.AgentStopped: _stopped,
    on.RunnerRestarted: _restarted,
    on.SnapshotTaken: _captured,
    on.SnapshotFailed: lambda event: f"the work could not be saved: {event.text}",
    on.GatesFinished: _judged,
    on.BlockersLooked: _looked,
    on.CiReported: _ci,
    on.PullRequestOpened: lambda event: f"pull request {event.number} is known: {event.url}",
    on.PullRequestUnknown: lambda event: f"the pull request is not known: {event.text}",
    on.PullRequestMoved: _moved,
    on.Reviewed: _reviewed,
    on.DeadlinePassed: lambda _: "its time was up",
    on.Unblocked: _by("unblocked it"),
    on.Answered: _by("answered"),
    on.Guided: _by("gave guidance"),
    on.SummaryApproved: _by("approved the summary"),
    on.PauseRequested: _by("asked to pause"),
    on.FreezeFailed: lambda event: f"the agent could not be frozen: {event.text}",
    on.ResumeRequested: _by("asked to resume"),
    on.StopRequested: _by("asked to stop"),
    on.AcceptRequested: _by("asked to accept it"),
    on.RejectRequested: _by("rejected"),
    on.MergeSucceeded: lambda event: f"it was merged as {event.commit[:12]}",
    on.MergeFailed: _merge_failed,
    on.AlongAccepted: lambda event: f"{event.agent_id} was accepted",
    on.WorkspaceRemoved: _removed,
}
