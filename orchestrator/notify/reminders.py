"""Reminders: a pull request that nobody has merged or closed for long. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.machine import events as on
from lifecycle.machine.states import About, PrPending
from lifecycle.notify.message import NEEDS_YOU, Notification, id_of
from orchestrator.notify.findings import cut, name_of
from orchestrator.terminal.text import instant

if TYPE_CHECKING:
    from lifecycle.reporting import Committed


def reminder_of(news: Committed) -> Notification | None:
    """Return the reminder that a decision calls for; most call for none."""
    record, work = news.record, news.record.work
    if not (isinstance(news.fact, on.DeadlinePassed) and isinstance(work, PrPending)):
        return None
    if not work.reminded:
        return None
    about = About.PR_TIMEOUT.value
    since = instant(work.since, news.at)
    told = f"{work.url or 'its pull request'} waits for its merge since {since}"
    return Notification(
        id=id_of(NEEDS_YOU, record.agent_id, record.birth, about, work.since, work.reminded),
        at=news.at,
        type=NEEDS_YOU,
        reason=about,
        agent_id=record.agent_id,
        task_id=record.task_id,
        text=cut(f"{name_of(record)} needs you: {told}; it goes on waiting"),
        command=f"loopwright show {record.agent_id} --why",
    )
