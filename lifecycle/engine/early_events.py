"""CI events that the library's caller hands in before their lifecycle waits for anything.

Keeps them until it does. Must not know what an event means.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.engine.ci_ports import AGENTS
from lifecycle.machine.states import AgentState, AwaitingHuman, Blocked, PrPending, State, Suspended

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Mapping

    from ci.events import CIEvent
    from lifecycle.owner.owner import Owner
    from lifecycle.record import AgentLifecycle
    from lifecycle.reporting import Committed


class EarlyEvents:
    """The events that nobody has heard yet; of too many the oldest are forgotten."""

    def __init__(self, kept: deque[CIEvent], owners: Mapping[str, Owner]) -> None:
        self._kept, self._owners = kept, owners

    def hear(self, event: CIEvent) -> None:
        """Pass an event on to whom it is about, if that one waits for something; else keep it."""
        for owner in self._owners.values():
            if _is_about(event, owner.local.record) and _waits(owner.state):
                owner.hear(event, handed=True)
                return
        self._kept.append(event)

    def committed(self, news: Committed) -> None:
        """Pass on what was kept for a lifecycle that waits now; an observer of decisions.

        What it was told in vain does not reach the next lifecycle of its agent.
        """
        if not self._kept:
            return
        if news.record.state not in (AgentState.QUEUED, AgentState.RUNNING):
            self.forget(news.record)
        elif (owner := self._owners.get(news.agent_id)) is not None:
            self.tell(owner)

    def forget(self, record: AgentLifecycle) -> None:
        """Drop what was kept for a lifecycle."""
        for event in [each for each in self._kept if _is_about(each, record)]:
            self._kept.remove(event)

    def tell(self, owner: Owner) -> None:
        """Pass on what was kept for a lifecycle, if it waits for something outside."""
        if not _waits(owner.state):
            return
        for event in [each for each in self._kept if _is_about(each, owner.local.record)]:
            self._kept.remove(event)
            owner.hear(event, handed=True)


def _is_about(event: CIEvent, record: AgentLifecycle) -> bool:
    if event.agent_id:
        return event.agent_id == record.agent_id
    return event.branch == (record.facts.get("branch") or AGENTS + record.agent_id)


def _waits(state: State) -> bool:
    inner = state.inner if isinstance(state, Suspended) else state
    return isinstance(inner, (Blocked, PrPending, AwaitingHuman))
