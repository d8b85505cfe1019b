"""Instances and their events as rows of plain values, and back."""

from __future__ import annotations

import functools
from dataclasses import fields
from typing import TYPE_CHECKING, Any
from uuid import UUID

from lifecycle.store.instances import EventRow, InstanceRow
from lifecycle.store.rows.records import from_json, storable

if TYPE_CHECKING:
    from collections.abc import Sequence

COLUMNS = tuple(field.name for field in fields(InstanceRow) if field.name != "tags")
EVENT_COLUMNS = tuple(field.name for field in fields(EventRow))
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
"""Columns that a later version may change."""
_SHARED_IDS = ("definition_id", "owner_id", "workspace_id")


def row_of_instance(row: InstanceRow) -> tuple[Any, ...]:
    """Return the values of an instance in the order of `COLUMNS`."""
    return tuple(_stored(getattr(row, name)) for name in COLUMNS)


def instance_of_row(row: Sequence[Any]) -> InstanceRow:
    """Return the instance of its values, followed by its tags as JSON."""
    *columns, tags = row
    values = dict(zip(COLUMNS, columns, strict=True))
    for name in _SHARED_IDS:
        if values[name] is not None:
            values[name] = _known(values[name])
    values["id"], values["name"] = UUID(values["id"]), values["name"] or ""
    return InstanceRow(**values, tags=() if tags == "[]" else tuple(from_json(tags)))


def row_of_event(event: EventRow) -> tuple[Any, ...]:
    """Return the values of an event in the order of `EVENT_COLUMNS`."""
    return tuple(_stored(getattr(event, name)) for name in EVENT_COLUMNS)


def event_of_row(row: Sequence[Any]) -> EventRow:
    """Return the event of its values."""
    values = dict(zip(EVENT_COLUMNS, row, strict=True))
    values["id"], values["instance_id"] = UUID(values["id"]), UUID(values["instance_id"])
    return EventRow(**values)


def _stored(value: Any) -> Any:
    if isinstance(value, str):
        return storable(value)
    return str(value) if isinstance(value, UUID) else value


@functools.lru_cache(maxsize=1024)
def _known(text: str) -> UUID:
    """Return an id that many instances share."""
    return UUID(text)
