"""What an instance is at one moment, and the transitions between its states.

`AgentInstance` is a snapshot: its fields never change, and `observed_at` says when it was taken.
"""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID  # noqa: TC003  # pydantic reads it at run time

from pydantic import Field

from lifecycle.clock import SystemClock
from lifecycle.fleet.api.options import AgentSpawnOptions, Model


class InstanceState(StrEnum):
    """The lifecycle state of an instance."""

    INITIALIZING = "initializing"
    READY = "ready"
    PROCESSING = "processing"
    WAITING = "waiting"
    SUSPENDED = "suspended"
    TERMINATING = "terminating"
    TERMINATED = "terminated"
    FAILED = "failed"


AgentState = InstanceState
"""Its earlier name."""
_CLOCK = SystemClock()
_S = InstanceState
ENDED = frozenset({_S.TERMINATED, _S.FAILED})
ACTIVE = tuple(state for state in InstanceState if state not in ENDED)
TRANSITIONS: dict[InstanceState, tuple[InstanceState, ...]] = {
    _S.INITIALIZING: (_S.READY, _S.FAILED),
    _S.READY: (_S.PROCESSING, _S.SUSPENDED, _S.TERMINATING),
    _S.PROCESSING: (_S.WAITING, _S.FAILED, _S.TERMINATING),
    _S.WAITING: (_S.PROCESSING, _S.SUSPENDED, _S.TERMINATING),
    _S.SUSPENDED: (_S.READY, _S.TERMINATING),
    _S.TERMINATING: (_S.TERMINATED,),
    _S.TERMINATED: (),
    _S.FAILED: (_S.INITIALIZING, _S.TERMINATED),
}


def is_valid_transition(before: InstanceState, after: InstanceState) -> bool:
    """Tell whether a state may directly follow another."""
    return after in TRANSITIONS[before]


_RUNNING = frozenset({_S.READY, _S.PROCESSING, _S.WAITING})
"""A running instance moves between these by itself."""


def path(before: InstanceState, after: InstanceState) -> tuple[InstanceState, ...]:
    """Return the shortest path between two states, without the first; empty if there is none.

    An instance that dies while waiting counts as processing in its last moment, so its path leads
    through there. One that is initializing or has failed takes one step only.
    """
    paths: deque[tuple[InstanceState, ...]] = deque([(before,)])
    seen = {before}
    while paths:
        steps = paths.popleft()
        for following in TRANSITIONS[steps[-1]]:
            if following is after:
                return (*steps[1:], following)
            if (
                following in _RUNNING - seen
                and before not in ENDED
                and before is not _S.INITIALIZING
            ):
                seen.add(following)
                paths.append((*steps, following))
    return ()


class HealthState(StrEnum):
    """The health of an instance."""

    UNKNOWN = "unknown"
    HEALTHY = "healthy"
    DEGRADED = "degraded"
    UNHEALTHY = "unhealthy"


class AgentHealthStatus(Model):
    """The current health and its reason."""

    state: HealthState = HealthState.UNKNOWN
    details: str = ""
    checked_at: datetime | None = None
    failures: int = 0
    """Consecutive failed checks."""
    successes: int = 0
    """Consecutive passed checks."""


class AgentMetrics(Model):
    """The resource usage and work of an instance, as of `sampled_at`."""

    sampled_at: datetime
    memory_bytes: int = 0
    """Of the process tree. Of a Python object: by how much its process grew since it started, which
    counts everything else in the process, too."""
    cpu_percent: float = 0.0
    """Of one core, since the sample before."""
    cpu_seconds: float = 0.0
    processes: int = 0
    output_bytes: int = 0
    tokens: int = 0
    """As its program reported them, if its definition names the adapter."""
    uptime: timedelta = timedelta()
    tasks_running: int = 0
    tasks_done: int = 0
    tasks_failed: int = 0


class AgentInstance(Model):
    """An instance as it was at `observed_at`."""

    instance_id: UUID
    definition_id: UUID
    state: InstanceState
    health: AgentHealthStatus = AgentHealthStatus()
    metrics: AgentMetrics | None = None
    created_at: datetime
    updated_at: datetime
    terminated_at: datetime | None = None
    restart_count: int = 0
    """Restarts since it was last healthy."""
    error_message: str | None = None
    spawn_options: AgentSpawnOptions | None = None
    tags: tuple[str, ...] = ()
    name: str | None = None
    owner_id: UUID | None = None
    workspace_id: UUID | None = None
    observed_at: datetime
    containment: str = ""
    """What isolates it, in words, and what does not."""
    details: dict[str, Any] = Field(default_factory=dict)
    """Its process, folder and log, where it has them."""

    @property
    def is_active(self) -> bool:
        """Whether it has not ended."""
        return self.state not in ENDED

    def can_transition_to(self, target: InstanceState) -> bool:
        """Tell whether it may change to that state next."""
        return is_valid_transition(self.state, target)

    @property
    def uptime(self) -> timedelta:
        """How long it has run, until its end or now."""
        now = max(self.observed_at, instant(_CLOCK.now()))
        return (self.terminated_at or now) - self.created_at


def instant(seconds: float) -> datetime:
    """Return seconds since the epoch as an instant in UTC."""
    return datetime.fromtimestamp(seconds, UTC)
