"""Writes down and tells what becomes of instances: record, events, log, listeners, metrics.

The one place in which a state changes: nothing else may, and no way that is not in the table.
"""

from __future__ import annotations

import asyncio
import traceback
from functools import partial
from typing import TYPE_CHECKING, Any

from lifecycle.errors import StoreError
from lifecycle.fleet import metrics as names
from lifecycle.fleet.agentevents import (
    AgentErrorEvent,
    AgentHealthChangedEvent,
    AgentSpawnedEvent,
    AgentStateChangedEvent,
    AgentTerminatedEvent,
)
from lifecycle.fleet.errors import InvalidOperationError
from lifecycle.fleet.instances import (
    ENDED,
    AgentHealthStatus,
    AgentState,
    HealthState,
    instant,
    is_valid_transition,
)
from lifecycle.fleet.records import event_rows, row_of
from lifecycle.store.instances import (
    TooManyInstancesError,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lifecycle.clock import Clock
    from lifecycle.fleet.agentevents import AgentEvent
    from lifecycle.fleet.body import Failure
    from lifecycle.fleet.live import Live
    from lifecycle.fleet.metrics import Metrics
    from lifecycle.fleet.observe import Hub
    from lifecycle.parts import Report
    from lifecycle.store.instances import InstanceStore


class Scribe:
    """Keeps records, listeners and metrics in step."""

    def __init__(
        self, store: InstanceStore, clock: Clock, hub: Hub, metrics: Metrics, report: Report
    ) -> None:
        self.store = store
        self.clock = clock
        self.hub = hub
        self.metrics = metrics
        self.report = report
        self._on_the_way: set[asyncio.Future[None]] = set()

    async def add(self, live: Live, at_most: int | None) -> None:
        """Write a new instance down, if there is room for it."""
        await self.store.save(row_of(live), at_most=at_most)
        self._moved(None, live.instance.state)

    async def change(  # noqa: PLR0913  # all but the states by name
        self,
        live: Live,
        *states: AgentState,
        reason: str | None = None,
        before: Sequence[AgentEvent] = (),
        after: Sequence[AgentEvent] = (),
        at_most: int | None = None,
        later: bool = False,
        **fields: Any,
    ) -> None:
        """Go on to these states, one after the other, and tell; `fields` change with the last.

        It is written down when this returns, or it is told why not; with `later` it is on its way
        to the store, before anything that is written after it.
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
                self._on_the_way.add(writing)
                writing.add_done_callback(partial(self._written, live))
            else:
                await self.store.save(row, rows, at_most=at_most)
        except TooManyInstancesError:
            live.instance = was
            raise
        except StoreError as problem:
            self._unwritten(live, problem)
        self._moved(was.state, live.instance.state)
        self.tell(*events)

    def _written(self, live: Live, writing: asyncio.Future[None]) -> None:
        self._on_the_way.discard(writing)
        problem = None if writing.cancelled() else writing.exception()
        if problem is not None:
            self._unwritten(live, problem)

    def _unwritten(self, live: Live, problem: BaseException) -> None:
        """A full disk must keep nobody from ending an agent: it is told, and life goes on.

        Each later version is written whole, so that the next one makes up for this.
        """
        live.unwritten = str(problem)
        self.report("instance_record_failed", instance_id=str(live.id), reason=str(problem))

    async def settled(self) -> None:
        """Wait until all that was to be written later is."""
        if self._on_the_way:
            await asyncio.wait(tuple(self._on_the_way))

    async def health(self, live: Live, health: AgentHealthStatus) -> None:
        """Write a new health down and tell, if it still lives."""
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

    def tell(self, *events: AgentEvent) -> None:
        """Tell listeners and the log."""
        for event in events:
            self.hub.tell(event)
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
            case AgentErrorEvent(is_recoverable=False):
                self.report(
                    "agent_crashed",
                    instance_id=str(event.instance_id),
                    error=event.error_message,
                    stack_trace=event.stack_trace,
                )
            case AgentHealthChangedEvent():
                self.report(
                    "agent_health_changed",
                    instance_id=str(event.instance_id),
                    from_health=str(event.previous_health),
                    to_health=str(event.new_health),
                    details=event.details,
                )

    def _moved(self, before: AgentState | None, after: AgentState) -> None:
        if before is after:
            return
        if before is not None:
            self.metrics.move(names.BY_STATE, -1, before)
        self.metrics.move(names.BY_STATE, 1, after)
        was_active = before is not None and before not in ENDED
        self.metrics.move(names.ACTIVE, int(after not in ENDED) - int(was_active))

    def error(self, live: Live, failure: Failure) -> AgentErrorEvent:
        """Return the event of a failure."""
        problem = failure.exception
        trace = "".join(traceback.format_exception(problem)) if problem is not None else None
        return AgentErrorEvent(
            instance_id=live.id,
            occurred_at=instant(self.clock.now()),
            correlation_id=live.correlation_id,
            error_message=failure.text,
            exception_type=type(problem).__name__ if problem is not None else None,
            stack_trace=trace,
        )

    def end(
        self, live: Live, state: AgentState, *, graceful: bool, reason: str | None
    ) -> AgentEvent:
        """Return the event of an end."""
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
