"""Logs what is decided: who was asked what, and why not, who was started, whose state changed.

Owns the names and fields of these events, which people script against. Each is logged once,
whichever way it was asked for. Must not decide anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.audit import AUTO_RESUME
from lifecycle.machine import events as on
from lifecycle.machine.states import is_held

if TYPE_CHECKING:
    from collections.abc import Callable

    from lifecycle.machine.runner_orders import OperationNote
    from lifecycle.reporting import Committed, Report
    from lifecycle.services import SharedServices

ADD = "add_agent"
OPERATIONS: dict[type[on.PersonEvent], str] = {
    on.PauseRequested: "pause_agent",
    on.ResumeRequested: "resume_agent",
    on.StopRequested: "stop_agent",
    on.Unblocked: "unblock_agent",
    on.Answered: "answer_agent",
    on.Guided: "guide_agent",
    on.SummaryApproved: "approve_summary",
    on.AcceptRequested: "accept_agent",
    on.RejectRequested: "remove_agent",
}


class OperationLog:
    """Follows all decisions of a runner; `turn` returns the present turn."""

    def __init__(self, shared: SharedServices, turn: Callable[[], int]) -> None:
        self._shared = shared
        self._turn = turn
        shared.observers.append(self._committed)
        shared.refused = self.refused

    def done(self, agent_id: str, event: on.PersonEvent) -> None:
        """Log an operation that took effect."""
        fields: dict[str, object] = {"turn": self._turn(), "by": event.by}
        if isinstance(event, on.PauseRequested):
            fields = {"auto_resume_turns": event.turns or None, **fields}
        if event.why:
            fields["why"] = event.why
        self._shared.report(
            "lifecycle_operation",
            operation=OPERATIONS[type(event)],
            agent_name=agent_id,
            **fields,
        )

    def refused(self, agent_id: str, event: on.PersonEvent, reason: str) -> None:
        """Log an operation that is not done."""
        operation = OPERATIONS[type(event)]
        _refused(self._shared.report, operation, agent_id, reason, self._turn(), event.by)

    def note(self, note: OperationNote) -> None:
        """Log what a command did or refused by itself."""
        write_note(self._shared.report, note, turn=self._turn())

    def _committed(self, news: Committed) -> None:
        fact = news.fact
        if isinstance(fact, on.PersonEvent):
            self.done(news.agent_id, fact)
        elif isinstance(fact, on.TurnPassed) and not is_held(news.record.work):
            resumed = on.ResumeRequested(at=fact.at, by=AUTO_RESUME)
            self.done(news.agent_id, resumed)
        elif isinstance(fact, on.AgentSpawned):
            self._shared.report(
                "agent_spawned",
                agent_id=news.agent_id,
                attempt=fact.attempt,
                pid=fact.process.pid,
                spawn_id=fact.process.spawn_id,
            )
        if news.before != news.after:
            self._shared.report(
                "agent_state_changed",
                agent_id=news.agent_id,
                previous_state=news.before,
                new_state=news.after,
                reason=news.event,
            )


def write_note(report: Report, note: OperationNote, *, turn: int) -> None:
    """Log what a command did or refused by itself."""
    if note.refused:
        _refused(report, note.operation, note.agent_name, note.refused, turn, note.by)
        return
    report(
        "lifecycle_operation",
        operation=note.operation,
        agent_name=note.agent_name,
        resolved_name=note.resolved_name,
        turn=turn,
        by=note.by,
    )


def _refused(  # noqa: PLR0913, PLR0917  # the fields of the event, in their order
    report: Report, operation: str, agent_name: str, reason: str, turn: int, by: str
) -> None:
    report(
        "lifecycle_validation_failed",
        operation=operation,
        agent_name=agent_name,
        reason=reason,
        turn=turn,
        by=by,
    )
