"""Which facts of a loop the audit records, and in which words. Pure.

Called for every decision, so a fact that is not recorded costs one table lookup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from lifecycle.audit import AUTO_RESUME, RUNNER, Act
from lifecycle.json_form import decode
from lifecycle.machine import events as on
from lifecycle.machine.runner_orders import RunnerOrder
from lifecycle.machine.states import Capturing, Rejected, Suspended, is_held

if TYPE_CHECKING:
    from collections.abc import Callable

    from lifecycle.machine.states import State
    from lifecycle.record import JournalEntry, Transaction

_ASKED: dict[type[on.Event], str] = {
    on.PauseRequested: "suspend",
    on.ResumeRequested: "resume",
    on.StopRequested: "stop",
    on.AcceptRequested: "accept",
    on.RejectRequested: "reject",
    on.Unblocked: "unblock",
    on.Answered: "answer",
    on.Guided: "guide",
    on.SummaryApproved: "approve",
}
"""What people ask for, as an action."""


class _Whose(NamedTuple):
    """The lifecycle that a fact is about, and the work state it led to."""

    agent_id: str
    task_id: str
    work: State | None


_AT_ONCE = ("resume", "unblock", "answer", "guide", "approve")
"""Actions that are done with the decision itself."""


def audit_rows(commit: Transaction) -> tuple[Act, ...]:
    """Return the audit entries of one decision."""
    acts: list[Act] = []
    record = commit.record
    # Facts that are committed together: each is told with the state that it led to.
    states = commit.passed or (record.work,) * len(commit.journal)
    for entry, work in zip(commit.journal, states, strict=True):
        told = HELD.get(type(entry.event))
        reached = entry.after != entry.before and entry.after in _REACHED
        turned = isinstance(entry.event, on.TurnPassed) and not (entry.late or is_held(work))
        if told is None and not reached and not turned:
            continue
        whose = _Whose(record.agent_id, record.task_id, work)
        if told is not None:
            acts.append(told(entry, whose))
        if turned:
            acts.append(_resumed(entry, whose))
        if reached:
            acts += _reached(entry, whose)
    return tuple(acts)


def action_of(event: on.Event) -> str:
    """Return what a request is called in the audit."""
    return _ASKED.get(type(event), type(event).__name__)


def refused_row(agent_id: str | None, body: str, at: float, problem: str) -> Act:
    """Return the audit entry of a refused request; `body` is the stored request."""
    event = decode(on.Event, body)
    if isinstance(event, RunnerOrder):
        action, subject = event.verb, event.subject
    else:
        action, subject = action_of(event), agent_id or ""
    by = event.by if isinstance(event, on.PersonEvent) else ""
    return Act(
        at=at,
        actor=by or "somebody",
        action=action,
        subject=subject,
        outcome="refused",
        reason=problem,
    )


def _person(entry: JournalEntry, whose: _Whose) -> Act:
    event: Any = entry.event
    action = _ASKED[type(event)]
    done = action in _AT_ONCE or entry.after in ("Suspended", "Rejected")
    return Act(
        at=entry.at,
        actor=event.by or "somebody",
        action=action,
        subject=whose.agent_id,
        outcome="late" if entry.late else "done" if done else "asked",
        reason="; ".join(filter(None, (getattr(event, name, "") for name in _WHY))),
        details={
            "while": entry.before,
            **({"now": True} if getattr(event, "now", False) else {}),
            **({"seen": event.head} if getattr(event, "head", "") else {}),
        },
    )


def _resumed(entry: JournalEntry, whose: _Whose) -> Act:
    return Act(
        at=entry.at,
        actor=AUTO_RESUME,
        action="resume",
        subject=whose.agent_id,
        outcome="done",
        reason="the turns of its pause have passed",
        details={"while": entry.before},
    )


def _runner(entry: JournalEntry, whose: _Whose, action: str, outcome: str, reason: str = "") -> Act:
    event = entry.event
    return Act(
        at=entry.at,
        actor=RUNNER,
        action=action,
        subject=whose.agent_id,
        outcome="late" if entry.late else outcome,
        reason=reason,
        details={name: getattr(event, name) for name in _DETAILS if hasattr(event, name)},
    )


_DETAILS = ("attempt", "forced", "swept", "commit")
_WHY = ("note", "text", "why")
"""The fields that say why a person asks for something."""


def _spawned(entry: JournalEntry, whose: _Whose) -> Act:
    event: Any = entry.event
    process = event.process
    return Act(
        at=entry.at,
        actor=RUNNER,
        action="spawn",
        subject=whose.agent_id,
        outcome="late" if entry.late else "done",
        reason="; ".join((f"attempt {event.attempt} of task {whose.task_id}", *event.weaker)),
        details={
            "attempt": event.attempt,
            "pid": process.pid,
            "spawn_id": process.spawn_id,
            "containment": event.containment,
            **({"weaker": event.weaker} if event.weaker else {}),
        },
    )


def _failed(action: str) -> Callable[[JournalEntry, _Whose], Act]:
    def told(entry: JournalEntry, whose: _Whose) -> Act:
        event: Any = entry.event
        return _runner(entry, whose, action, "failed", event.text)

    return told


def _limit(entry: JournalEntry, whose: _Whose) -> Act:
    event: Any = entry.event
    return _runner(entry, whose, "stop", "asked", event.text)


def _stopped(entry: JournalEntry, whose: _Whose) -> Act:
    work = whose.work
    reason = work.outcome.text if isinstance(work, Capturing) else ""
    return _runner(entry, whose, "stop", "done", reason)


def _restarted(entry: JournalEntry, whose: _Whose) -> Act:
    return _runner(entry, whose, "stop", "done", "the runner that attended it is gone")


def _merged(entry: JournalEntry, whose: _Whose) -> Act:
    return _runner(entry, whose, "accept", "done")


HELD: dict[type[on.Event], Callable[[JournalEntry, _Whose], Act]] = {
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
"""Acts of people, and each start and end of an agent; a test names all other facts."""
_REACHED = ("Suspended", "Rejected")


def _reached(entry: JournalEntry, whose: _Whose) -> list[Act]:
    """Record a suspension or rejection that came after the request, or by the rules alone."""
    if isinstance(entry.event, on.PersonEvent):
        return []
    work = whose.work
    if isinstance(work, Rejected):
        reason = f"{work.reason}: {work.text}"
        return [_runner(entry, whose, "reject", "done", reason)]
    if isinstance(work, Suspended):
        return [_runner(entry, whose, "suspend", "done", "its attempt has ended")]
    return []
