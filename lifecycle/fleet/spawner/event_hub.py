"""Delivers the events of instances to observers, to each at its own pace.

An observer that is too slow loses the oldest events, and is told how many. Must not know how events
arise, nor keep them for later observers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Self

from lifecycle.fleet.api import events as on

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from uuid import UUID

    from lifecycle.fleet.api.events import AgentEvent
    from lifecycle.fleet.api.queries import ObservationOptions


class Observation:
    """The events of one instance from now on, in order; ends with the instance.

    It receives events from its creation on, not from the first one that is read.
    """

    def __init__(
        self,
        hub: EventHub,
        instance_id: UUID,
        options: ObservationOptions,
        authorize: Callable[[], Awaitable[bool]],
    ) -> None:
        self.instance_id = instance_id
        self._hub = hub
        self._wanted = _wanted(options)
        self._buffer: deque[AgentEvent] = deque()
        self._capacity = options.buffer_capacity
        self._dropped = 0
        self._arrived = asyncio.Event()
        self._ended = False
        self._authorize: Callable[[], Awaitable[bool]] | None = authorize
        hub.add(self)

    def receive(self, event: AgentEvent) -> None:
        """Buffer an event if it is of a wanted kind."""
        if isinstance(event, self._wanted):
            if len(self._buffer) >= self._capacity:
                self._buffer.popleft()
                self._dropped += 1
            self._buffer.append(event)
            self._arrived.set()
        if isinstance(event, on.AgentTerminatedEvent):
            self.end()

    def end(self) -> None:
        """End it after the buffered events."""
        self._ended = True
        self._arrived.set()
        self._hub.remove(self)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AgentEvent:
        if self._authorize is not None:
            authorize, self._authorize = self._authorize, None
            try:
                if not await authorize():
                    self.end()
            except BaseException:
                self.end()
                self._buffer.clear()
                raise
        while not self._buffer:
            if self._ended:
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        if self._dropped:
            count, self._dropped = self._dropped, 0
            first = self._buffer[0]
            return on.AgentEventsDroppedEvent(
                instance_id=self.instance_id, occurred_at=first.occurred_at, count=count
            )
        return self._buffer.popleft()

    async def aclose(self) -> None:
        """Stop observing; harmless when called again."""
        self.end()
        self._buffer.clear()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class EventHub:
    """Knows the observers of each instance."""

    def __init__(self) -> None:
        self._observers: dict[UUID, list[Observation]] = {}

    def add(self, observation: Observation) -> None:
        """Deliver events to this observer from now on."""
        self._observers.setdefault(observation.instance_id, []).append(observation)

    def remove(self, observation: Observation) -> None:
        """Deliver no more events to this observer."""
        observers = self._observers.get(observation.instance_id, [])
        if observation in observers:
            observers.remove(observation)
        if not observers:
            self._observers.pop(observation.instance_id, None)

    def is_observed(self, instance_id: UUID) -> bool:
        """Tell whether an instance has observers."""
        return instance_id in self._observers

    def emit(self, event: AgentEvent) -> None:
        """Deliver an event to all observers of its instance."""
        for observation in tuple(self._observers.get(event.instance_id, ())):
            observation.receive(event)

    def close(self) -> None:
        """End all observations."""
        for observers in tuple(self._observers.values()):
            for observation in tuple(observers):
                observation.end()


def _wanted(options: ObservationOptions) -> tuple[type[AgentEvent], ...]:
    kinds: list[type[AgentEvent]] = []
    if options.include_state_changes:
        kinds += [
            on.AgentStateChangedEvent,
            on.AgentSpawnedEvent,
            on.AgentTerminatedEvent,
        ]
    if options.include_health_checks:
        kinds.append(on.AgentHealthChangedEvent)
    if options.include_metrics:
        kinds.append(on.AgentMetricsUpdatedEvent)
    if options.include_errors:
        kinds.append(on.AgentErrorEvent)
    if options.include_restarts:
        kinds.append(on.AgentRestartingEvent)
    return tuple(kinds)
