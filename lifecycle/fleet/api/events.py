"""The events of an instance."""

from __future__ import annotations

from datetime import datetime, timedelta  # noqa: TC003  # pydantic reads it at run time
from uuid import UUID  # noqa: TC003  # pydantic reads it at run time

from lifecycle.fleet.api.instances import (
    AgentMetrics,  # noqa: TC001  # pydantic reads it at run time
    HealthState,  # noqa: TC001  # pydantic reads it at run time
    InstanceState,  # noqa: TC001  # pydantic reads it at run time
)
from lifecycle.fleet.api.options import AgentSpawnOptions, Model


class AgentEvent(Model):
    """Base of all events of instances."""

    instance_id: UUID
    occurred_at: datetime
    correlation_id: str | None = None


class AgentStateChangedEvent(AgentEvent):
    """The state changed."""

    previous_state: InstanceState
    new_state: InstanceState
    reason: str | None = None


class AgentHealthChangedEvent(AgentEvent):
    """The health changed."""

    previous_health: HealthState
    new_health: HealthState
    details: str | None = None


class AgentErrorEvent(AgentEvent):
    """Something went wrong."""

    error_message: str
    exception_type: str | None = None
    stack_trace: str | None = None
    is_recoverable: bool = False
    """Whether it is restarted."""


class AgentRestartingEvent(AgentEvent):
    """A restart is scheduled."""

    attempt_number: int
    """From 1."""
    max_attempts: int
    delay_before_retry: timedelta | None = None
    reason: str | None = None


class AgentMetricsUpdatedEvent(AgentEvent):
    """The instance was measured; never stored."""

    metrics: AgentMetrics


class AgentSpawnedEvent(AgentEvent):
    """The instance is ready."""

    definition_id: UUID
    user_id: UUID
    options: AgentSpawnOptions | None = None


class AgentTerminatedEvent(AgentEvent):
    """The instance has ended for good."""

    final_state: InstanceState
    was_graceful: bool
    reason: str | None = None
    uptime: timedelta


class AgentEventsDroppedEvent(AgentEvent):
    """An observer was too slow: `count` events before the next one were dropped for it."""

    count: int
