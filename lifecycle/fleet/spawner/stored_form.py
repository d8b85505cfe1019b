"""Converts instances and their events to the rows of the store, and back."""

from __future__ import annotations

import functools
import json
import secrets
from typing import TYPE_CHECKING

from lifecycle.fleet.api.events import AgentMetricsUpdatedEvent
from lifecycle.fleet.api.instances import (
    AgentHealthStatus,
    AgentInstance,
    HealthState,
    InstanceState,
    instant,
)
from lifecycle.fleet.api.options import AgentSpawnOptions
from lifecycle.fleet.spawner.runner_identity import RUNNER, this_runner
from lifecycle.store.instances import EventRow, InstanceRow, new_instance_id

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from lifecycle.fleet.api.events import AgentEvent
    from lifecycle.fleet.spawner.live_instance import LiveInstance


def row_of(live: LiveInstance) -> InstanceRow:
    """Return the row of an instance."""
    instance = live.instance
    options = instance.spawn_options
    return InstanceRow(
        id=instance.instance_id,
        definition_id=instance.definition_id,
        state=instance.state.value,
        health_state=instance.health.state.value,
        name=instance.name or "",
        owner_id=instance.owner_id,
        workspace_id=instance.workspace_id,
        spawn_options_json=None if options is None else live.options_json,
        error_message=instance.error_message,
        restart_count=instance.restart_count,
        restarts_total=live.restarts_total,
        created_at=live.born,
        updated_at=instance.updated_at.timestamp(),
        terminated_at=(
            None if instance.terminated_at is None else instance.terminated_at.timestamp()
        ),
        details_json=json.dumps(
            {
                **instance.details,
                "containment": instance.containment,
                "health": instance.health.details,
                RUNNER: this_runner(),
            }
        ),
        tags=instance.tags,
    )


def instance_of(row: InstanceRow, now: float) -> AgentInstance:
    """Return the instance of a row."""
    details = json.loads(row.details_json)
    options = row.spawn_options_json
    return AgentInstance(
        instance_id=row.id,
        definition_id=row.definition_id,
        state=InstanceState(row.state),
        health=_health(row.health_state, details.pop("health", "")),
        created_at=instant(row.created_at),
        updated_at=instant(row.updated_at),
        terminated_at=None if row.terminated_at is None else instant(row.terminated_at),
        restart_count=row.restart_count,
        error_message=row.error_message,
        spawn_options=None if options is None else _options(options),
        tags=row.tags,
        name=row.name or None,
        owner_id=row.owner_id,
        workspace_id=row.workspace_id,
        observed_at=instant(now),
        containment=details.pop("containment", ""),
        details=details,
    )


@functools.lru_cache(maxsize=1024)
def _options(text: str) -> AgentSpawnOptions:
    return AgentSpawnOptions.model_validate_json(text)


@functools.lru_cache(maxsize=1024)
def _health(state: str, details: str) -> AgentHealthStatus:
    return AgentHealthStatus(state=HealthState(state), details=details)


def event_rows(events: Sequence[AgentEvent]) -> list[EventRow]:
    """Return the rows of events; measurements are not stored."""
    return [
        EventRow(
            id=_event_id(event),
            instance_id=event.instance_id,
            event_type=type(event).__name__,
            event_data_json=event.model_dump_json(),
            occurred_at=event.occurred_at.timestamp(),
            correlation_id=event.correlation_id,
        )
        for event in events
        if not isinstance(event, AgentMetricsUpdatedEvent)
    ]


def _event_id(event: AgentEvent) -> UUID:
    return new_instance_id(event.occurred_at.timestamp(), secrets.randbits(62))
