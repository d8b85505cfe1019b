"""Which facts of a loop the audit holds, and in which words. Pure.

Called for every decision, so a fact that is not held costs one look into a table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lifecycle.audit import RUNNER, Act
from lifecycle.machine import events as on
from lifecycle.machine.states import Capturing, Rejected, Suspended
from lifecycle.store.codec import decode_event

if TYPE_CHECKING:
    from collections.abc import Callable

    from lifecycle.record import Commit, JournalEntry

_ASKED: dict[type[on.Event], tuple[str, str]] = {
    on.PauseRequested: ("suspend", ""),
    on.ResumeRequested: ("resume", ""),
    on.StopRequested: ("stop", ""),
    on.AcceptRequested: ("accept", ""),
    on.RejectRequested: ("reject", "why"),
    on.Unblocked: ("unblock", "note"),
    on.Answered: ("answer", "text"),
    on.Guided: ("guide", "text"),
    on.SummaryApproved: ("approve", ""),
}
"""What people ask for: the action, and the field that says why."""
_AT_ONCE = ("resume", "unblock", "answer", "guide", "approve")
"""Actions that are done with the decision itself."""


def audit_rows(commit: Commit) -> tuple[Act, ...]:
    """Return what the audit holds of one decision."""
    acts: list[Act] = []
    for entry in commit.journal:
        told = _TOLD.get(type(entry.event))
        if told is not None:
            acts.append(told(entry, commit))
        if entry.after != entry.before and entry.after in _REACHED:
            acts += _reached(entry, commit)
    return tuple(acts)


def refused_row(agent_id: str, body: str, at: float, problem: str) -> Act:
    """Return what the audit holds of a request that was refused; `body` is the stored request."""
    event = decode_event(body)
    by = event.by if isinstance(event, on.PersonEvent) else ""
    action, _ = _ASKED.get(type(event), (type(event).__name__, ""))
    return Act(
        at=at,
        actor=by or "somebody",
        action=action,
        subject=agent_id,
        outcome="refused",
        reason=problem,
    )


def _person(entry: JournalEntry, commit: Commit) -> Act:
    event: Any = entry.event
    action, why = _ASKED[type(event)]
    done = action in _AT_ONCE or entry.after in ("Suspended", "Rejected")
    return Act(
        at=entry.at,
        actor=event.by or "somebody",
        action=action,
        subject=commit.record.agent_id,
        outcome="late" if entry.late else "done" if done else "asked",
        reason=getattr(event, why) if why else "",
        details={"while": entry.before, **({"now": True} if getattr(event, "now", False) else {})},
    )


def _runner(
    entry: JournalEntry, commit: Commit, action: str, outcome: str, reason: str = ""
) -> Act:
    event = entry.event
    return Act(
        at=entry.at,
        actor=RUNNER,
        action=action,
        subject=commit.record.agent_id,
        outcome="late" if entry.late else outcome,
        reason=reason,
        details={name: getattr(event, name) for name in _DETAILS if hasattr(event, name)},
    )


_DETAILS = ("attempt", "forced", "swept", "commit")


def _spawned(entry: JournalEntry, commit: Commit) -> Act:
    event: Any = entry.event
    process = event.process
    return Act(
        at=entry.at,
        actor=RUNNER,
        action="spawn",
        subject=commit.record.agent_id,
        outcome="late" if entry.late else "done",
        reason="; ".join(
            (f"attempt {event.attempt} of task {commit.record.task_id}", *event.weaker)
        ),
        details={
            "attempt": event.attempt,
            "pid": process.pid,
            "spawn_id": process.spawn_id,
            "containment": event.containment,
            **({"weaker": event.weaker} if event.weaker else {}),
        },
    )


def _failed(action: str) -> Callable[[JournalEntry, Commit], Act]:
    def told(entry: JournalEntry, commit: Commit) -> Act:
        event: Any = entry.event
        return _runner(entry, commit, action, "failed", event.text)

    return told


def _limit(entry: JournalEntry, commit: Commit) -> Act:
    event: Any = entry.event
    return _runner(entry, commit, "stop", "asked", event.text)


def _stopped(entry: JournalEntry, commit: Commit) -> Act:
    work = commit.record.work
    reason = work.outcome.text if isinstance(work, Capturing) else ""
    return _runner(entry, commit, "stop", "done", reason)


def _restarted(entry: JournalEntry, commit: Commit) -> Act:
    return _runner(entry, commit, "stop", "done", "the runner that attended it is gone")


def _merged(entry: JournalEntry, commit: Commit) -> Act:
    return _runner(entry, commit, "accept", "done")


_TOLD: dict[type[on.Event], Callable[[JournalEntry, Commit], Act]] = {
    **dict.fromkeys(_ASKED, _person),
    on.AgentSpawned: _spawned,
    on.SpawnFailed: _failed("spawn"),
    on.FreezeFailed: _failed("suspend"),
    on.LimitReached: _limit,
    on.AgentStopped: _stopped,
    on.RunnerRestarted: _restarted,
    on.MergeSucceeded: _merged,
    on.MergeFailed: _failed("accept"),
}
_REACHED = ("Suspended", "Rejected")


def _reached(entry: JournalEntry, commit: Commit) -> list[Act]:
    """Hold that a lifecycle was held or ended later than somebody asked, or by the rules alone."""
    if isinstance(entry.event, on.PersonEvent):
        return []
    work = commit.record.work
    if isinstance(work, Rejected):
        reason = f"{work.reason}: {work.text}"
        return [_runner(entry, commit, "reject", "done", reason)]
    if isinstance(work, Suspended):
        return [_runner(entry, commit, "suspend", "done", "its attempt has ended")]
    return []
