"""Changes the state of instances: record, events, log, observers and metrics together.

The only place in which a state changes, and only along the table of transitions.
"""

from __future__ import annotations

import asyncio
import traceback
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from lifecycle.errors import StoreError
from lifecycle.fleet.api.events import (
    AgentErrorEvent,
    AgentEvent,
    AgentHealthChangedEvent,
    AgentSpawnedEvent,
    AgentStateChangedEvent,
    AgentTerminatedEvent,
)
from lifecycle.fleet.api.instances import (
    ENDED,
    AgentHealthStatus,
    HealthState,
    InstanceState,
    instant,
    is_valid_transition,
    path,
)
from lifecycle.fleet.errors import InvalidOperationError
from lifecycle.fleet.spawner import metrics as names
from lifecycle.fleet.spawner.stored_form import event_rows, row_of
from lifecycle.store.instances import TooManyInstancesError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lifecycle.clock import Clock
    from lifecycle.fleet.bodies.body import BodyFailure
    from lifecycle.fleet.spawner.event_hub import EventHub
    from lifecycle.fleet.spawner.live_instance import LiveInstance
    from lifecycle.fleet.spawner.metrics import Metrics
    from lifecycle.reporting import Report
    from lifecycle.store.instances import InstanceRow
    from lifecycle.store.sqlite.instances import SqliteInstances


class StateWriter:
    """Keeps records, observers and metrics consistent."""

    def __init__(
        self, store: SqliteInstances, clock: Clock, hub: EventHub, metrics: Metrics, report: Report
    ) -> None:
        self.store = store
        self.clock = clock
        self.hub = hub
        self.metrics = metrics
        self.report = report
        self._pending_writes: set[asyncio.Future[None]] = set()

    async def add(self, live: LiveInstance, at_most: int | None) -> None:
        """Record a new instance, if the limit allows it."""
        await self.store.save(row_of(live), at_most=at_most)
        self._count_state(None, live.instance.state)

    async def change(  # noqa: PLR0913  # all but the states by name
        self,
        live: LiveInstance,
        *states: InstanceState,
        reason: str | None = None,
        before: Sequence[AgentEvent] = (),
        after: Sequence[AgentEvent] = (),
        at_most: int | None = None,
        later: bool = False,
        **fields: Any,
    ) -> None:
        """Move through these states in order and emit the events; set `fields` with the last.

        It is recorded when this returns, or the failure is reported. With `later` it is queued,
        ahead of everything that is written after it.
        """
        now = instant(self.clock.now())
        was, events = live.instance, list(before)
        for state in states:
            if not is_valid_transition(live.instance.state, state):
                raise InvalidOperationError(
                    f"{live.instance.name} is {live.instance.state} and cannot become {state}"
                )
            events.append(
                AgentStateChangedEvent(
                    instance_id=was.instance_id,
                    occurred_at=now,
                    correlation_id=live.correlation_id,
                    previous_state=live.instance.state,
                    new_state=state,
                    reason=reason,
                )
            )
            ended = now if state in ENDED else None
            live.instance = live.instance.model_copy(
                update={"state": state, "updated_at": now, "terminated_at": ended}
            )
        live.instance = live.instance.model_copy(update={"updated_at": now, **fields})
        events += after
        row, rows = row_of(live), event_rows(events)
        try:
            if later:
                writing = self.store.begin(row, rows)
                self._pending_writes.add(writing)
                writing.add_done_callback(partial(self._on_written, live))
            else:
                await self.store.save(row, rows, at_most=at_most)
        except TooManyInstancesError:
            live.instance = was
            raise
        except StoreError as problem:
            self._on_write_failure(live, problem)
        self._count_state(was.state, live.instance.state)
        self.emit(*events)

    def _on_written(self, live: LiveInstance, writing: asyncio.Future[None]) -> None:
        self._pending_writes.discard(writing)
        problem = None if writing.cancelled() else writing.exception()
        if problem is not None:
            self._on_write_failure(live, problem)

    def _on_write_failure(self, live: LiveInstance, problem: BaseException) -> None:
        """Report a failed write and continue, so that a full disk keeps no agent from being ended.

        Each version is written whole, so the next one makes up for this.
        """
        live.write_problem = str(problem)
        self.report("instance_record_failed", instance_id=str(live.id), reason=str(problem))

    async def flushed(self) -> None:
        """Wait until all queued writes are done."""
        if self._pending_writes:
            await asyncio.wait(tuple(self._pending_writes))

    async def end_recorded(
        self, row: InstanceRow, final: InstanceState, *, graceful: bool, reason: str
    ) -> InstanceRow:
        """Record the end of an instance that no process runs any more; return its new version."""
        now = self.clock.now()
        before, events = InstanceState(row.state), list[AgentEvent]()
        for state in path(before, final):
            events.append(
                AgentStateChangedEvent(
                    instance_id=row.id,
                    occurred_at=instant(now),
                    previous_state=before,
                    new_state=state,
                    reason=reason,
                )
            )
            before = state
        ended_at = row.terminated_at or now
        events.append(
            AgentTerminatedEvent(
                instance_id=row.id,
                occurred_at=instant(now),
                final_state=final,
                was_graceful=graceful,
                reason=reason,
                uptime=instant(ended_at) - instant(row.created_at),
            )
        )
        failed = final is InstanceState.FAILED
        ended = replace(
            row,
            state=final.value,
            health_state=HealthState.UNKNOWN.value,
            error_message=reason if failed else row.error_message,
            updated_at=now,
            terminated_at=ended_at,
        )
        await self.store.save(ended, event_rows(events))
        self.emit(*events)
        return ended

    async def health(self, live: LiveInstance, health: AgentHealthStatus) -> None:
        """Record a new health and emit the event, if the instance is active."""
        old = live.instance.health
        if not live.instance.is_active or old.state is health.state:
            return
        event = AgentHealthChangedEvent(
            instance_id=live.id,
            occurred_at=instant(self.clock.now()),
            correlation_id=live.correlation_id,
            previous_health=old.state,
            new_health=health.state,
            details=health.details or None,
        )
        count = 0 if health.state is HealthState.HEALTHY else live.instance.restart_count
        await self.change(live, before=(event,), health=health, restart_count=count)

    def emit(self, *events: AgentEvent) -> None:
        """Deliver events to the observers and the log."""
        for event in events:
            self.hub.emit(event)
            self._log(event)

    def _log(self, event: AgentEvent) -> None:
        match event:
            case AgentSpawnedEvent():
                self.report(
                    "agent_spawned",
                    instance_id=str(event.instance_id),
                    definition_id=str(event.definition_id),
                    isolation=event.options.isolation_level if event.options else None,
                )
            case AgentStateChangedEvent():
                self.report(
                    "agent_state_changed",
                    instance_id=str(event.instance_id),
                    from_state=str(event.previous_state),
                    to_state=str(event.new_state),
                    reason=event.reason,
                )
            case AgentTerminatedEvent():
                self.report(
                    "agent_terminated",
                    instance_id=str(event.instance_id),
                    was_graceful=event.was_graceful,
                    uptime=event.uptime.total_seconds(),
                    final_state=str(event.final_state),
                    reason=event.reason,
                )
            case AgentHealthChangedEvent():
                self.report(
                    "agent_health_changed",
                    instance_id=str(event.instance_id),
                    from_health=str(event.previous_health),
                    to_health=str(event.new_health),
                    details=event.details,
                )

    def _count_state(self, before: InstanceState | None, after: InstanceState) -> None:
        if before is after:
            return
        if before is not None:
            self.metrics.move(names.BY_STATE, -1, before)
        self.metrics.move(names.BY_STATE, 1, after)
        was_active = before is not None and before not in ENDED
        self.metrics.move(names.ACTIVE, int(after not in ENDED) - int(was_active))

    def initialization_failed(self, live: LiveInstance, error: str) -> None:
        """Log that it did not become ready."""
        self.report("agent_initialization_failed", instance_id=str(live.id), error=error)

    def error(
        self, live: LiveInstance, failure: BodyFailure, *, is_recoverable: bool
    ) -> AgentErrorEvent:
        """Return the event of a failure."""
        problem = failure.exception
        return AgentErrorEvent(
            instance_id=live.id,
            occurred_at=instant(self.clock.now()),
            correlation_id=live.correlation_id,
            error_message=failure.text,
            exception_type=type(problem).__name__ if problem is not None else None,
            stack_trace=stack_of(failure),
            is_recoverable=is_recoverable,
        )

    def end(
        self, live: LiveInstance, state: InstanceState, *, graceful: bool, reason: str | None
    ) -> AgentEvent:
        """Return the event of a final end."""
        now = instant(self.clock.now())
        return AgentTerminatedEvent(
            instance_id=live.id,
            occurred_at=now,
            correlation_id=live.correlation_id,
            final_state=state,
            was_graceful=graceful,
            reason=reason,
            uptime=now - live.instance.created_at,
        )


def stack_of(failure: BodyFailure) -> str | None:
    """Return the stack trace of a failure that an exception caused."""
    problem = failure.exception
    return None if problem is None else "".join(traceback.format_exception(problem))
