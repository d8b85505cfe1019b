"""What may be asked for when an agent is spawned: defaults and ranges, checked when made.

Every duration is a `timedelta`; a number counts as seconds. Values are immutable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping  # noqa: TC003  # pydantic reads it at run time
from datetime import timedelta
from enum import IntEnum, StrEnum
from typing import Any, ClassVar, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

MAX_TAGS = 10
_TAG = re.compile(r"[A-Za-z0-9-]{1,50}")
_SECOND = timedelta(seconds=1)
NIL = UUID(int=0)


class Model(BaseModel):
    """Base of everything here: immutable, and an unknown name is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_timedelta="float")


class IsolationLevel(StrEnum):
    """How an instance is kept apart from others and from the runner."""

    NONE = "none"
    """In the caller's event loop. Contains nothing: for trusted agents only."""
    THREAD = "thread"
    """In a thread of its own. Keeps the runner responsive, but contains nothing."""
    PROCESS = "process"
    """In a process tree of its own, with limits."""
    CONTAINER = "container"
    """As `PROCESS`, and it sees only its workspace and a read-only system."""


class AgentPriority(IntEnum):
    """Who gets resources first."""

    LOW = 0
    NORMAL = 1
    HIGH = 2
    CRITICAL = 3


class ResourceLimits(Model):
    """What one instance may use."""

    max_memory_mb: int = Field(default=512, ge=64, le=8192)
    """Of the whole tree, at the levels process and container; in-process it is advice."""
    max_cpu_percent: int = Field(default=0, ge=0, le=100)
    """Of one core; 0 is no limit."""
    execution_timeout: timedelta = Field(
        default=timedelta(minutes=5), ge=_SECOND, le=timedelta(hours=1)
    )
    """Of one piece of work, or of a command's whole run; time it is suspended does not count."""
    max_worker_threads: int = Field(default=4, ge=1, le=32)
    max_concurrent_tasks: int = Field(default=10, ge=1, le=100)
    max_tokens_per_minute: int = Field(default=0, ge=0)
    """For agents that count tokens: handed to them; 0 is the account's default."""
    max_processes: int | None = Field(default=None, ge=1)
    max_open_files: int | None = Field(default=None, ge=16)


class RestartPolicyType(StrEnum):
    """How long to wait before a restart."""

    NONE = "none"
    IMMEDIATE = "immediate"
    LINEAR = "linear"
    EXPONENTIAL = "exponential"


class RestartPolicy(Model):
    """Whether and when a failed agent is started again."""

    type: RestartPolicyType = RestartPolicyType.EXPONENTIAL
    max_retries: int = Field(default=3, ge=0, le=10)
    initial_delay: timedelta = Field(default=_SECOND, ge=timedelta(), le=timedelta(minutes=5))
    max_delay: timedelta = Field(default=timedelta(minutes=1), le=timedelta(minutes=10))
    backoff_multiplier: float = Field(default=2.0, ge=1.1, le=5.0)
    use_jitter: bool = True
    """Lengthens or shortens each delay by up to a quarter."""
    circuit_breaker_timeout: timedelta = Field(default=timedelta(minutes=5), ge=timedelta())
    """Failing without a healthy moment for so long ends the restarts."""

    DEFAULT: ClassVar[RestartPolicy]
    NONE: ClassVar[RestartPolicy]
    IMMEDIATE: ClassVar[RestartPolicy]

    @model_validator(mode="after")
    def _delays_in_order(self) -> Self:
        if self.max_delay < self.initial_delay:
            raise ValueError(
                f"max_delay ({self.max_delay}) must not be less than initial_delay "
                f"({self.initial_delay})"
            )
        return self


RestartPolicy.DEFAULT = RestartPolicy()
RestartPolicy.NONE = RestartPolicy(type=RestartPolicyType.NONE, max_retries=0)
RestartPolicy.IMMEDIATE = RestartPolicy(type=RestartPolicyType.IMMEDIATE, initial_delay=timedelta())


class HealthCheckConfig(Model):
    """How health is found out. Without command and callable: the heartbeat."""

    command: tuple[str, ...] = ()
    """Healthy when it exits with 0; runs in the instance's folder with its environment."""
    check: str = ""
    """Name of a check of the agent's definition: an async callable that returns '' or a problem."""
    interval: timedelta = Field(default=timedelta(seconds=30), ge=_SECOND)
    timeout: timedelta = Field(default=timedelta(seconds=5), gt=timedelta())
    unhealthy_threshold: int = Field(default=3, ge=1, le=100)
    """Failed checks in a row that make it unhealthy; fewer make it degraded."""
    healthy_threshold: int = Field(default=1, ge=1, le=100)
    """Passed checks in a row that make it healthy."""
    stale_after: timedelta = Field(default=timedelta(minutes=5), ge=_SECOND)
    """Heartbeat: so long without output, processor use or mail makes it degraded."""
    restart_when_unhealthy: bool = False
    """Unhealthy counts as a failure, and the restart policy decides."""

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if self.command and self.check:
            raise ValueError("give a command or a check, not both")
        return self

    @property
    def custom(self) -> bool:
        """Whether it is more than the heartbeat."""
        return bool(self.command or self.check)


class AgentSpawnOptions(Model):
    """How an agent is spawned; all has a default."""

    initialization_timeout: timedelta = Field(default=timedelta(seconds=30), gt=timedelta())
    resource_limits: ResourceLimits | None = None
    """None: what the agent's definition asks for."""
    isolation_level: IsolationLevel = IsolationLevel.THREAD
    """If it is not given: what the agent's definition asks for."""
    restart_policy: RestartPolicy | None = None
    """None: no restarts."""
    health_check: HealthCheckConfig | None = None
    """None: the heartbeat."""
    name: str | None = Field(default=None, min_length=1, max_length=200)
    """None: the definition's name and a short id."""
    tags: tuple[str, ...] | None = None
    priority: AgentPriority = AgentPriority.NORMAL
    allow_weaker: bool = False
    """Take what the machine can give where it cannot give all; the audit tells."""

    @field_validator("tags")
    @classmethod
    def _usable_tags(cls, tags: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if tags is None:
            return None
        once: dict[str, str] = {}
        for tag in tags:
            check_tag(tag)
            once.setdefault(tag.lower(), tag)
        if len(once) > MAX_TAGS:
            raise ValueError(f"{len(once)} tags are too many; at most {MAX_TAGS} are kept")
        return tuple(once.values())


class SpawnRequest(Model):
    """Which agent to spawn, and how."""

    agent_definition_id: UUID
    options: AgentSpawnOptions | None = None
    context: Mapping[str, Any] | None = None
    """Handed to the agent when it is initialised. Keys differ not only in case; values are JSON."""

    @field_validator("context")
    @classmethod
    def _plain_context(cls, context: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        if context is None:
            return None
        seen: dict[str, str] = {}
        for key in context:
            twin = seen.setdefault(key.lower(), key)
            if twin != key:
                raise ValueError(f"the keys {twin!r} and {key!r} of context differ only in case")
        try:
            json.dumps(dict(context), allow_nan=False)
        except (TypeError, ValueError, RecursionError) as problem:
            raise ValueError(f"context is not JSON: {problem}") from problem
        return dict(context)

    def is_valid(self) -> bool:
        """Whether it names a definition at all."""
        return self.agent_definition_id != NIL


def check_tag(tag: str) -> None:
    """Refuse what cannot be a tag."""
    if not _TAG.fullmatch(tag):
        raise ValueError(f"{tag!r} is no tag: 1 to 50 letters, digits and hyphens")
