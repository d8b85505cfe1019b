"""Instances and their events as rows of plain values, and back."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any
from uuid import UUID

from lifecycle.store.instances import EventRow, InstanceRow
from lifecycle.store.rows import from_json, storable

if TYPE_CHECKING:
    from collections.abc import Sequence

COLUMNS = (
    "id",
    "definition_id",
    "state",
    "health_state",
    "name",
    "owner_id",
    "workspace_id",
    "spawn_options_json",
    "error_message",
    "restart_count",
    "created_at",
    "updated_at",
    "terminated_at",
    "restarts_total",
    "details_json",
)
CHANGING = (
    "state",
    "health_state",
    "error_message",
    "restart_count",
    "updated_at",
    "terminated_at",
    "restarts_total",
    "details_json",
)
"""What a later version may have otherwise."""


def row_of_instance(row: InstanceRow) -> tuple[Any, ...]:
    """Return the values of an instance in the order of `COLUMNS`."""
    return (
        str(row.id),
        str(row.definition_id),
        row.state,
        row.health_state,
        storable(row.name),
        _maybe(row.owner_id),
        _maybe(row.workspace_id),
        row.spawn_options_json,
        None if row.error_message is None else storable(row.error_message),
        row.restart_count,
        row.created_at,
        row.updated_at,
        row.terminated_at,
        row.restarts_total,
        row.details_json,
    )


def instance_of_row(row: Sequence[Any]) -> InstanceRow:
    """Return the instance of its values, followed by its tags as JSON."""
    return InstanceRow(
        id=UUID(row[0]),
        definition_id=_known(row[1]),
        state=row[2],
        health_state=row[3],
        name=row[4] or "",
        owner_id=None if row[5] is None else _known(row[5]),
        workspace_id=None if row[6] is None else _known(row[6]),
        spawn_options_json=row[7],
        error_message=row[8],
        restart_count=row[9],
        created_at=row[10],
        updated_at=row[11],
        terminated_at=row[12],
        restarts_total=row[13],
        details_json=row[14],
        tags=() if row[15] == "[]" else tuple(from_json(row[15])),
    )


def row_of_event(event: EventRow) -> tuple[Any, ...]:
    """Return the values of an event."""
    return (
        str(event.id),
        str(event.instance_id),
        event.event_type,
        event.event_data_json,
        event.occurred_at,
        event.correlation_id,
    )


def event_of_row(row: Sequence[Any]) -> EventRow:
    """Return the event of its values."""
    return EventRow(
        id=UUID(row[0]),
        instance_id=UUID(row[1]),
        event_type=row[2],
        event_data_json=row[3],
        occurred_at=row[4],
        correlation_id=row[5],
    )


@functools.lru_cache(maxsize=1024)
def _known(text: str) -> UUID:
    """Return an id that many instances share."""
    return UUID(text)


def _maybe(value: UUID | None) -> str | None:
    return None if value is None else str(value)
