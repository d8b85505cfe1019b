"""Queries about existing instances, and their answers."""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar, Self
from uuid import UUID  # noqa: TC003  # pydantic reads it at run time

from pydantic import Field, field_validator

from lifecycle.fleet.api.instances import (
    AgentInstance,  # noqa: TC001  # pydantic reads it at run time
    HealthState,  # noqa: TC001  # pydantic reads it at run time
    InstanceState,  # noqa: TC001  # pydantic reads it at run time
)
from lifecycle.fleet.api.options import DefinitionId, Model, check_tag

_LEAST, _MOST = timedelta(seconds=1), timedelta(minutes=5)


class TerminationOptions(Model):
    """How an instance is terminated."""

    graceful_timeout: timedelta = timedelta(seconds=10)
    """For its work, its cleanup hooks and its end together. 1 second to 5 minutes; or 0: nothing is
    waited for, and the hooks run in the background."""
    force_if_timeout: bool = True
    """Kill what has not ended by then; else the termination has failed."""
    reason: str | None = None
    persist_final_state: bool = False
    """Keep its context and working folder, or its own account of its state."""

    DEFAULT: ClassVar[TerminationOptions]
    IMMEDIATE: ClassVar[TerminationOptions]

    @field_validator("graceful_timeout")
    @classmethod
    def _in_range(cls, value: timedelta) -> timedelta:
        if value and not _LEAST <= value <= _MOST:
            raise ValueError(f"graceful_timeout must be 0, or from 1 s to 5 min, not {value}")
        return value


TerminationOptions.DEFAULT = TerminationOptions()
TerminationOptions.IMMEDIATE = TerminationOptions(
    graceful_timeout=timedelta(), reason="Immediate termination requested"
)


class TerminationResult(Model):
    """The result of terminating an instance."""

    success: bool
    was_graceful: bool
    error_message: str | None = None
    final_instance: AgentInstance | None = None
    duration: timedelta = timedelta()
    problems: tuple[str, ...] = ()
    """Cleanup hooks that failed, took too long or still run, and what did not stop."""

    @classmethod
    def successful(
        cls,
        instance: AgentInstance,
        *,
        was_graceful: bool,
        duration: timedelta,
        problems: tuple[str, ...] = (),
    ) -> Self:
        """Return the result of a successful termination."""
        return cls(
            success=True,
            was_graceful=was_graceful,
            final_instance=instance,
            duration=duration,
            problems=problems,
        )

    @classmethod
    def failed(cls, error: str) -> Self:
        """Return the result of a failed termination."""
        return cls(success=False, was_graceful=False, error_message=error)


class GetInstancesFilter(Model):
    """Which instances a listing contains; all given conditions must match."""

    state: InstanceState | None = None
    """Terminated and failed are found even without `include_terminated`."""
    health_state: HealthState | None = None
    tag: str | None = None
    """Case-insensitive."""
    definition_id: DefinitionId | None = None
    """The definition itself will do."""
    owner_id: UUID | None = None
    """None: the actor's own. Those of others need an admin."""
    all_owners: bool = False
    """Needs an admin."""
    name_pattern: str | None = Field(default=None, min_length=1)
    """`*` matches any characters."""
    include_terminated: bool = False
    limit: int = Field(default=100, ge=1, le=1000)
    offset: int = Field(default=0, ge=0)

    ALL: ClassVar[GetInstancesFilter]

    @field_validator("tag")
    @classmethod
    def _usable_tag(cls, tag: str | None) -> str | None:
        if tag is not None:
            check_tag(tag)
        return tag


GetInstancesFilter.ALL = GetInstancesFilter()


class ObservationOptions(Model):
    """Which events an observer gets, and how many are buffered for a slow one."""

    include_state_changes: bool = True
    include_health_checks: bool = True
    include_metrics: bool = False
    include_errors: bool = True
    include_restarts: bool = True
    buffer_capacity: int = Field(default=100, ge=1, le=100_000)

    DEFAULT: ClassVar[ObservationOptions]


ObservationOptions.DEFAULT = ObservationOptions()

UNLIMITED = 2**31 - 1


class LifecycleStatistics(Model):
    """Counts of all instances of an owner."""

    active_instances: int
    by_state: dict[InstanceState, int]
    by_health: dict[HealthState, int]
    """Of the active ones."""
    max_concurrent: int
    """`UNLIMITED` if there is no limit."""
    total_spawned: int
    total_terminated: int
    average_uptime: timedelta
    """Of those that ended."""
    total_restarts: int
