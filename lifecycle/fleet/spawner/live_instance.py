"""An instance that this process runs: its current snapshot, its body and its running tasks."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lifecycle.fleet.api.instances import instant
from lifecycle.fleet.spawner.restart_policy import FailureHistory

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from lifecycle.clock import Timer
    from lifecycle.fleet.api.authorization import Actor
    from lifecycle.fleet.api.instances import AgentInstance, AgentMetrics
    from lifecycle.fleet.api.options import AgentSpawnOptions
    from lifecycle.fleet.api.queries import TerminationResult
    from lifecycle.fleet.api.registry import AgentDefinition, CleanupHook
    from lifecycle.fleet.bodies.body import Body


@dataclass(slots=True, eq=False, kw_only=True)
class LiveInstance:
    """One instance that its spawner runs."""

    instance: AgentInstance
    definition: AgentDefinition
    options: AgentSpawnOptions
    """As requested, completed by the definition."""
    options_json: str
    values: Mapping[str, Any]
    born: float
    actor: Actor
    correlation_id: str
    body: Body | None = None
    life: int = 0
    """The number of its current start, from 1."""
    history: FailureHistory = field(default_factory=FailureHistory)
    restarts_total: int = 0
    metrics: AgentMetrics | None = None
    hooks: list[CleanupHook] = field(default_factory=list)
    active_at: float = 0.0
    """When it was last active."""
    check_at: float = 0.0
    """When its health is checked next."""
    checking: asyncio.Task[None] | None = None
    cpu: tuple[float, float] | None = None
    """Time and processor seconds of the sample before."""
    restart: Timer | None = None
    """A scheduled restart."""
    write_problem: str = ""
    """Why its latest version could not be written; empty if it was."""
    adding: asyncio.Task[None] | None = None
    """The write of its first version."""
    starting: asyncio.Task[None] | None = None
    ending: asyncio.Task[TerminationResult] | None = None
    hurry: asyncio.Future[None] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    """Done once its termination waits for its cleanup hooks no longer."""
    over_limit: str = ""
    """The limit that it was beyond in the sample before."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while it is started, suspended or resumed, or its failure is handled."""

    @property
    def id(self) -> UUID:
        """The id of the instance."""
        return self.instance.instance_id

    def snapshot(self, now: float) -> AgentInstance:
        """Return the instance as it is now."""
        return self.instance.model_copy(
            update={"observed_at": instant(now), "metrics": self.metrics}
        )
