"""Tells the events of instances to those who listen, each at their own pace.

A listener that is too slow loses the oldest events, and is told how many. It must not know how
events come to be, nor keep them for later listeners.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Self

from lifecycle.fleet import agentevents as told

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from uuid import UUID

    from lifecycle.fleet.agentevents import AgentEvent
    from lifecycle.fleet.queries import ObservationOptions


class Observation:
    """The events of one instance from now on, in order; ends when the instance has ended for good.

    Listening begins when it is made, not with the first event that is taken.
    """

    def __init__(
        self,
        hub: Hub,
        instance_id: UUID,
        options: ObservationOptions,
        admit: Callable[[], Awaitable[bool]],
    ) -> None:
        self.instance_id = instance_id
        self._hub = hub
        self._wanted = _wanted(options)
        self._buffer: deque[AgentEvent] = deque()
        self._capacity = options.buffer_capacity
        self._dropped = 0
        self._fresh = asyncio.Event()
        self._ended = False
        self._admit: Callable[[], Awaitable[bool]] | None = admit
        hub.join(self)

    def hear(self, event: AgentEvent) -> None:
        """Take an event if it is of a wanted kind."""
        if isinstance(event, self._wanted):
            if len(self._buffer) >= self._capacity:
                self._buffer.popleft()
                self._dropped += 1
            self._buffer.append(event)
            self._fresh.set()
        if isinstance(event, told.AgentTerminatedEvent):
            self.end()

    def end(self) -> None:
        """Let it end after what is in the buffer."""
        self._ended = True
        self._fresh.set()
        self._hub.leave(self)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AgentEvent:
        if self._admit is not None:
            admit, self._admit = self._admit, None
            try:
                if not await admit():
                    self.end()
            except BaseException:
                self.end()
                self._buffer.clear()
                raise
        while not self._buffer:
            if self._ended:
                raise StopAsyncIteration
            self._fresh.clear()
            await self._fresh.wait()
        if self._dropped:
            count, self._dropped = self._dropped, 0
            first = self._buffer[0]
            return told.AgentEventsDroppedEvent(
                instance_id=self.instance_id, occurred_at=first.occurred_at, count=count
            )
        return self._buffer.popleft()

    async def aclose(self) -> None:
        """Listen no more; harmless when called again."""
        self.end()
        self._buffer.clear()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class Hub:
    """Knows who listens to which instance."""

    def __init__(self) -> None:
        self._listeners: dict[UUID, list[Observation]] = {}

    def join(self, observation: Observation) -> None:
        """Tell this one from now on."""
        self._listeners.setdefault(observation.instance_id, []).append(observation)

    def leave(self, observation: Observation) -> None:
        """Tell this one no more."""
        listening = self._listeners.get(observation.instance_id, [])
        if observation in listening:
            listening.remove(observation)
        if not listening:
            self._listeners.pop(observation.instance_id, None)

    def heard(self, instance_id: UUID) -> bool:
        """Whether anybody listens to an instance."""
        return instance_id in self._listeners

    def tell(self, event: AgentEvent) -> None:
        """Tell all who listen."""
        for observation in tuple(self._listeners.get(event.instance_id, ())):
            observation.hear(event)

    def close(self) -> None:
        """End all observations."""
        for listening in tuple(self._listeners.values()):
            for observation in tuple(listening):
                observation.end()


def _wanted(options: ObservationOptions) -> tuple[type[AgentEvent], ...]:
    kinds: list[type[AgentEvent]] = []
    if options.include_state_changes:
        kinds += [
            told.AgentStateChangedEvent,
            told.AgentSpawnedEvent,
            told.AgentTerminatedEvent,
        ]
    if options.include_health_checks:
        kinds.append(told.AgentHealthChangedEvent)
    if options.include_metrics:
        kinds.append(told.AgentMetricsUpdatedEvent)
    if options.include_errors:
        kinds.append(told.AgentErrorEvent)
    if options.include_restarts:
        kinds.append(told.AgentRestartingEvent)
    return tuple(kinds)
