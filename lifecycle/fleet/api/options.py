"""The options of a spawn request: defaults and ranges, validated on construction.

Every duration is a `timedelta`; a number means seconds. Values are immutable.
"""

from __future__ import annotations

import re
from collections.abc import Mapping  # noqa: TC003  # pydantic reads it at run time
from datetime import timedelta
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeAlias
from uuid import UUID

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from lifecycle.fleet.api.context import ContextValues
from lifecycle.fleet.validation import ValidationResult, faults_of

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_TAGS = 10
_TAG = re.compile(r"[A-Za-z0-9-]{1,50}")
_SECOND = timedelta(seconds=1)
NIL = UUID(int=0)


class Model(BaseModel):
    """Base of all models here: immutable, and unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_timedelta="float")


def _definition_id(value: Any) -> Any:
    """Return the id of a definition that stands in place of its id."""
    return getattr(value, "definition_id", value)


DefinitionId: TypeAlias = Annotated[UUID, BeforeValidator(_definition_id)]
"""The id of a definition; the definition itself will do."""


class NumberedWord(StrEnum):
    """A word that may also be given, and read with `int`, as its number: they count from 0."""

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(cls):
            return list(cls)[value]
        return None

    def __int__(self) -> int:
        return list(type(self)).index(self)


class IsolationLevel(NumberedWord):
    """How an instance is isolated from others and from the runner."""

    NONE = "none"
    """In the caller's event loop. Isolates nothing: for trusted agents only."""
    THREAD = "thread"
    """In a thread of its own. Keeps the runner responsive, but isolates nothing."""
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


class _Validate:
    """`ResourceLimits.validate(max_memory_mb=1)`, or `limits.validate()`: whether it is allowed."""

    def __get__(
        self, limits: ResourceLimits | None, kind: type[ResourceLimits]
    ) -> Callable[..., ValidationResult]:
        def validate(**fields: Any) -> ValidationResult:
            """Return all that is wrong with these fields, and raise nothing."""
            try:
                kind.model_validate({**(limits.__dict__ if limits else {}), **fields})
            except ValidationError as problem:
                return ValidationResult.failure(faults_of(problem))
            return ValidationResult.success()

        return validate


class ResourceLimits(Model):
    """What one instance may use."""

    max_memory_mb: int = Field(default=512, ge=64, le=8192)
    """Enforced for the whole process tree, at the levels process and container. Advisory for Python
    objects: one whose process grew by more since it started is reported and degraded."""
    max_cpu_percent: int = Field(default=0, ge=0, le=100)
    """Of one core; 0 is no limit."""
    execution_timeout: timedelta = Field(
        default=timedelta(minutes=5), ge=_SECOND, le=timedelta(hours=1)
    )
    """Of one piece of work, or of a program's whole run; suspended time does not count."""
    max_worker_threads: int = Field(default=4, ge=1, le=32)
    max_concurrent_tasks: int = Field(default=10, ge=1, le=100)
    max_tokens_per_minute: int = Field(default=0, ge=0)
    """0 is the account's default. A program whose definition names its adapter is frozen while the
    last minute holds more, and reported; a Python object finds the number in its context."""
    max_processes: int | None = Field(default=None, ge=1)
    max_open_files: int | None = Field(default=None, ge=16)

    validate: ClassVar[_Validate] = _Validate()  # type: ignore[assignment]  # pydantic's, deprecated, made a value


class RestartPolicyType(NumberedWord):
    """How long to wait before a restart."""

    NONE = "none"
    IMMEDIATE = "immediate"
    LINEAR = "linear"
    EXPONENTIAL = "exponential"


class RestartPolicy(Model):
    """Whether and when a failed agent is restarted.

    The n-th restart waits `initial_delay * n` (linear) or
    `initial_delay * backoff_multiplier ** n` (exponential): with the defaults 2, 4, 8 seconds.
    """

    type: RestartPolicyType = RestartPolicyType.EXPONENTIAL
    max_retries: int = Field(default=3, ge=0, le=10)
    """Restarts in a row: being healthy in between begins a new count. An agent that keeps failing
    after it was healthy is thus restarted for ever, unless its spawner has a rule that bounds that:
    `AgentSpawner(crash_loop=CrashLoop())`."""
    initial_delay: timedelta = Field(default=_SECOND, ge=timedelta(), le=timedelta(minutes=5))
    max_delay: timedelta = Field(default=timedelta(minutes=1), le=timedelta(minutes=10))
    backoff_multiplier: float = Field(default=2.0, ge=1.1, le=5.0)
    use_jitter: bool = True
    """Lengthens or shortens each delay by up to a quarter."""
    circuit_breaker_timeout: timedelta = Field(default=timedelta(minutes=5), ge=timedelta())
    """Restarts end once it has failed for so long without being healthy in between."""

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
    """How health is checked. Without a command and a check: by heartbeat."""

    command: tuple[str, ...] = ()
    """Healthy when it exits with 0; runs in the instance's folder with its environment."""
    check: str = ""
    """Name of a check in the agent's definition."""
    interval: timedelta = Field(default=timedelta(seconds=30), ge=_SECOND)
    timeout: timedelta = Field(default=timedelta(seconds=5), gt=timedelta())
    unhealthy_threshold: int = Field(default=3, ge=1, le=100)
    """Consecutive failed checks that make it unhealthy; fewer make it degraded."""
    healthy_threshold: int = Field(default=1, ge=1, le=100)
    """Consecutive passed checks that make it healthy."""
    stale_after: timedelta = Field(default=timedelta(minutes=5), ge=_SECOND)
    """Heartbeat: time without output, processor use or mailbox changes that makes it degraded."""
    restart_when_unhealthy: bool = False
    """Treat unhealthy as a failure, so that the restart policy applies."""

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
    """How an agent is spawned; everything has a default."""

    initialization_timeout: timedelta = Field(default=timedelta(seconds=30), gt=timedelta())
    resource_limits: ResourceLimits | None = None
    """None: those of the agent's definition."""
    isolation_level: IsolationLevel = IsolationLevel.THREAD
    """If it is not given: that of the agent's definition."""
    restart_policy: RestartPolicy | None = None
    """None: no restarts."""
    health_check: HealthCheckConfig | None = None
    """None: the heartbeat."""
    name: str | None = Field(default=None, min_length=1, max_length=200)
    """None: the definition's name and a short id."""
    tags: tuple[str, ...] | None = None
    priority: AgentPriority = AgentPriority.NORMAL
    allow_weaker: bool = False
    """Accept weaker isolation or limits where the machine lacks them; the audit says so."""

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
            raise ValueError(f"{len(once)} tags are too many; at most {MAX_TAGS} are allowed")
        return tuple(once.values())


class SpawnRequest(Model):
    """Which agent to spawn, and how."""

    agent_definition_id: DefinitionId
    options: AgentSpawnOptions | None = None
    context: Mapping[str, Any] | None = None
    """Passed to the agent on initialisation: JSON that cannot be changed, keys without case."""

    @field_validator("context")
    @classmethod
    def _plain_context(cls, context: Mapping[str, Any] | None) -> ContextValues | None:
        return None if context is None else ContextValues(context)

    def is_valid(self) -> bool:
        """Tell whether it names a definition."""
        return self.agent_definition_id != NIL


def check_tag(tag: str) -> None:
    """Refuse an invalid tag."""
    if not _TAG.fullmatch(tag):
        raise ValueError(f"{tag!r} is not a valid tag: use 1 to 50 letters, digits and hyphens")
