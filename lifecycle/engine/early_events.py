"""CI events that the library's caller hands in before their lifecycle waits for anything.

Keeps them until it does. Must not know what an event means.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.engine.ci_ports import AGENTS
from lifecycle.machine.states import AwaitingHuman, Blocked, PrPending, State, Suspended

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Mapping

    from ci.events import CIEvent
    from lifecycle.owner.owner import Owner
    from lifecycle.reporting import Committed


class EarlyEvents:
    """The events that nobody has heard yet; of too many the oldest are forgotten."""

    def __init__(self, kept: deque[CIEvent], owners: Mapping[str, Owner]) -> None:
        self._kept, self._owners = kept, owners

    def hear(self, event: CIEvent) -> None:
        """Pass an event on to whom it is about, once that one had an attempt; else keep it."""
        for owner in self._owners.values():
            if _is_about(event, owner) and owner.state.tally.spawn_count:
                owner.hear(event, handed=True)
                return
        self._kept.append(event)

    def committed(self, news: Committed) -> None:
        """Pass on what was kept for a lifecycle that waits now; an observer of decisions."""
        if self._kept and (owner := self._owners.get(news.agent_id)) is not None:
            self.tell(owner)

    def tell(self, owner: Owner) -> None:
        """Pass on what was kept for a lifecycle, if it waits for something outside."""
        if not _waits(owner.state):
            return
        for event in [each for each in self._kept if _is_about(each, owner)]:
            self._kept.remove(event)
            owner.hear(event, handed=True)


def _is_about(event: CIEvent, owner: Owner) -> bool:
    agent_id = owner.local.agent_id
    if event.agent_id:
        return event.agent_id == agent_id
    return event.branch == (owner.local.record.facts.get("branch") or AGENTS + agent_id)


def _waits(state: State) -> bool:
    inner = state.inner if isinstance(state, Suspended) else state
    return isinstance(inner, (Blocked, PrPending, AwaitingHuman))
