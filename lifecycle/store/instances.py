"""Instances of agents as stored: values, filters and ids.

Two kinds are listed together: those a spawner started, which have rows of their own, and attempts
of loops, which are read off the ledger. Times are seconds since the epoch. Must not know any
database, nor what the spawner's JSON means.
"""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass, field
from uuid import UUID

from lifecycle.errors import LifecycleError

NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "loopwright")
LOCAL_USER = uuid.uuid5(NAMESPACE, "local user")
"""The owner of instances without a named owner, and of all loops."""
LOOP_DEFINITION = uuid.uuid5(NAMESPACE, "attempt of a loop")
"""The definition of all instances that are attempts of a loop."""
ENDED = ("terminated", "failed")
MAX_LISTED = 1000

_FRACTION = 4096
"""The resolution of an id: parts of a millisecond."""
_MEANINGFUL = 8
"""The UUID version for ids with an application-defined meaning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceRow:
    """One instance."""

    id: UUID
    definition_id: UUID
    state: str
    health_state: str
    created_at: float
    updated_at: float
    name: str = ""
    owner_id: UUID | None = None
    workspace_id: UUID | None = None
    spawn_options_json: str | None = None
    error_message: str | None = None
    restart_count: int = 0
    """Since it was last healthy."""
    restarts_total: int = 0
    terminated_at: float | None = None
    """Set exactly while it is terminated or failed."""
    details_json: str = "{}"
    tags: tuple[str, ...] = ()
    """Written once, with the first version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    """A stored event of an instance."""

    id: UUID
    instance_id: UUID
    event_type: str
    event_data_json: str
    occurred_at: float
    correlation_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceFilter:
    """Which instances a listing contains; all given conditions must match."""

    states: tuple[str, ...] = ()
    """If none is given: those that have not ended, and with `ended` all."""
    ended: bool = False
    health_state: str | None = None
    tag: str | None = None
    """Case-insensitive."""
    definition_id: UUID | None = None
    owner_id: UUID | None = None
    name_pattern: str | None = None
    """`*` matches any characters."""
    limit: int = 100
    offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceCounts:
    """Counts of the instances of an owner."""

    by_state: dict[str, int] = field(default_factory=dict)
    """All of them."""
    by_health: dict[str, int] = field(default_factory=dict)
    """Those that have not ended."""
    ended: int = 0
    lived: float = 0.0
    """Total seconds that the ended ones ran."""
    restarts: int = 0


class TooManyInstancesError(LifecycleError):
    """The limit on active instances is reached."""

    def __init__(self, active: int, at_most: int) -> None:
        super().__init__(f"{active} instances are active, and at most {at_most} may be")
        self.active = active
        self.at_most = at_most


def check_listing(which: InstanceFilter) -> None:
    """Refuse an invalid page."""
    if not 1 <= which.limit <= MAX_LISTED or which.offset < 0:
        raise ValueError(
            f"limit must be between 1 and {MAX_LISTED} and offset at least 0, "
            f"not {which.limit} and {which.offset}"
        )


def new_instance_id(now: float, chance: int) -> UUID:
    """Return an id whose order is that of birth (version 7), from 62 random bits."""
    milliseconds, fraction = divmod(int(now * 1000 * _FRACTION), _FRACTION)
    high = (milliseconds & (1 << 48) - 1) << 16 | 7 << 12 | fraction
    return UUID(int=high << 64 | 2 << 62 | chance & (1 << 62) - 1)


def born_at(instance_id: UUID) -> float:
    """Return the instant in an id made by `new_instance_id`: as `created_at`, it keeps order."""
    high = instance_id.int >> 64
    return ((high >> 16) * _FRACTION + (high & _FRACTION - 1)) / (1000 * _FRACTION)


def attempt_instance_id(cursor: int, birth: str, attempt: int) -> UUID:
    """Return the id of a loop's attempt (version 8): always the same, and it leads back to it."""
    check = int.from_bytes(hashlib.sha256(birth.encode()).digest()[:4], "big")
    high = (cursor & (1 << 48) - 1) << 16 | _MEANINGFUL << 12
    return UUID(int=high << 64 | 2 << 62 | (attempt & (1 << 30) - 1) << 32 | check)


def attempt_of(instance_id: UUID) -> tuple[int, int] | None:
    """Return cursor and attempt of an id made by `attempt_instance_id`; None for others."""
    if instance_id.version != _MEANINGFUL:
        return None
    return instance_id.int >> 80, instance_id.int >> 32 & (1 << 30) - 1
