"""One visit of a lifecycle to a worker, as its workflow knows it.

Plain state; the workflow alone changes it, and must: it decides when a visit is over.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lifecycle.machine.states import ACTIVE

if TYPE_CHECKING:
    import asyncio

    from lifecycle.machine.states import State
    from lifecycle.record import AgentLifecycle, AttemptRow, JournalEntry, PendingEffect


@dataclass(eq=False)
class VisitState:
    """One visit of the lifecycle to a worker, as the workflow knows it."""

    assignment_id: str
    worker: str = ""
    """Which has it; empty until one says so."""
    open: dict[str, PendingEffect] = field(default_factory=dict)
    """Orders that are not answered."""
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    begun: bool = False
    ending: bool = False
    gone: bool = False
    held: asyncio.Task[Any] | None = None
    """The call that lasts as long as the worker has it."""
    journal: list[JournalEntry] = field(default_factory=list)
    """What was decided since the order before."""
    row: AttemptRow | None = None

    def may_end(self, state: State) -> bool:
        """Tell whether no worker is needed where the lifecycle is in this state."""
        return not self.open and not isinstance(state, ACTIVE)


def label_of(record: AgentLifecycle) -> str:
    """Return what a worker of this lifecycle must have."""
    return str(record.facts.get("task", {}).get("label", ""))
