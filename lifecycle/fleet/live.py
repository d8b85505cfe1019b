"""An instance that this process runs: its present snapshot, its body, and what is under way."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lifecycle.fleet.instances import instant
from lifecycle.fleet.restart import History

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from lifecycle.clock import Timer
    from lifecycle.fleet.authorize import Actor
    from lifecycle.fleet.body import Body
    from lifecycle.fleet.instances import AgentInstance, AgentMetrics
    from lifecycle.fleet.options import AgentSpawnOptions, IsolationLevel, ResourceLimits
    from lifecycle.fleet.queries import TerminationResult
    from lifecycle.fleet.registry import AgentDefinition, CleanupHook


@dataclass(slots=True, eq=False, kw_only=True)
class Live:
    """One instance in the hands of its spawner."""

    instance: AgentInstance
    definition: AgentDefinition
    options: AgentSpawnOptions
    options_json: str
    level: IsolationLevel
    limits: ResourceLimits | None
    values: Mapping[str, Any]
    born: float
    actor: Actor
    correlation_id: str
    body: Body | None = None
    life: int = 0
    """Counts starts."""
    history: History = field(default_factory=History)
    restarts_total: int = 0
    metrics: AgentMetrics | None = None
    hooks: list[CleanupHook] = field(default_factory=list)
    moved_at: float = 0.0
    """When it last gave a sign of life."""
    check_at: float = 0.0
    """When its health is looked at next."""
    checking: asyncio.Task[None] | None = None
    cpu: tuple[float, float] | None = None
    """Instant and processor seconds of the measurement before."""
    restart: Timer | None = None
    """A restart that is due."""
    unwritten: str = ""
    """Why its latest version could not be written down, if it could not."""
    adding: asyncio.Task[None] | None = None
    """Its first version on its way to the store."""
    starting: asyncio.Task[None] | None = None
    ending: asyncio.Task[TerminationResult] | None = None
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while it is suspended, resumed, or its failure is dealt with."""

    @property
    def id(self) -> UUID:
        """The id of the instance."""
        return self.instance.instance_id

    @property
    def is_ending(self) -> bool:
        """Whether somebody ends it."""
        return self.ending is not None

    def shot(self, now: float) -> AgentInstance:
        """Return it as it is now."""
        return self.instance.model_copy(
            update={"observed_at": instant(now), "metrics": self.metrics}
        )
