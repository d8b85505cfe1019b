"""Attempts of loops as instances: requests go to their loop, its decisions become events.

A loop keeps its own records; nothing is written here.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from lifecycle.fleet.api.events import AgentStateChangedEvent, AgentTerminatedEvent
from lifecycle.fleet.api.instances import InstanceState, instant
from lifecycle.fleet.api.queries import TerminationResult
from lifecycle.fleet.errors import InvalidOperationError
from lifecycle.fleet.spawner.stored_form import instance_of
from lifecycle.store.instances import LOOP_DEFINITION
from lifecycle.store.rows.loop_attempts import LIVE_KINDS

if TYPE_CHECKING:
    from collections.abc import Container

    from lifecycle.clock import Clock
    from lifecycle.fleet.api.authorization import Actor
    from lifecycle.fleet.api.queries import TerminationOptions
    from lifecycle.fleet.spawner.event_hub import EventHub
    from lifecycle.reporting import Committed
    from lifecycle.store.instances import InstanceRow
    from lifecycle.store.sqlite.instances import SqliteInstances

_POLL_INTERVAL = 0.02
TIMEOUT = 15.0
"""Seconds until a request to a loop must have taken effect."""
_ENDED_STATES = (InstanceState.TERMINATED, InstanceState.FAILED)


class LoopControl(Protocol):
    """Controls loops; each call returns once the request is accepted."""

    async def stop(self, agent_id: str, reason: str, actor: Actor) -> None:
        """End the current attempt, keep its work, and start no other."""
        ...

    async def suspend(self, agent_id: str, actor: Actor) -> None:
        """Suspend the process of the current attempt."""
        ...

    async def resume(self, agent_id: str, actor: Actor) -> None:
        """Resume it."""
        ...


class LoopAttempts:
    """Terminates, suspends, resumes and observes attempts of loops."""

    def __init__(
        self, store: SqliteInstances, clock: Clock, hub: EventHub, loops: LoopControl | None
    ) -> None:
        self._store = store
        self._clock = clock
        self._hub = hub
        self._control = loops
        self._watched: dict[str, InstanceRow] = {}

    def _control_for(self, row: InstanceRow, command: str) -> LoopControl:
        if self._control is None:
            raise InvalidOperationError(
                f"{row.name} is an attempt of a loop, and this spawner cannot reach loops; use "
                f"`loopwright {command} {row.name}`"
            )
        return self._control

    async def terminate(
        self, row: InstanceRow, options: TerminationOptions, actor: Actor
    ) -> TerminationResult:
        """Stop its loop, and wait until the attempt has ended."""
        began = self._clock.now()
        loops = self._control_for(row, "stop")
        if row.state != InstanceState.TERMINATING:  # else somebody asked for it before
            await loops.stop(row.name, options.reason or "terminated", actor)
        within = None
        if not options.force_if_timeout:
            within = max(options.graceful_timeout.total_seconds(), 1.0)
        found = await self._until(row, _ENDED_STATES, within)
        if found is None:
            return TerminationResult.failed(
                f"{row.name} was asked to stop and still runs after {within:g} s"
            )
        now = self._clock.now()
        return TerminationResult.successful(
            instance_of(found, now), was_graceful=True, duration=timedelta(seconds=now - began)
        )

    async def suspend(self, row: InstanceRow, actor: Actor) -> None:
        """Suspend its process, and wait until it is suspended."""
        if row.state != InstanceState.PROCESSING:
            raise InvalidOperationError(f"{row.name} is {row.state} and cannot be suspended")
        await self._control_for(row, "pause --now").suspend(row.name, actor)
        if await self._until(row, (InstanceState.SUSPENDED,), TIMEOUT) is None:
            raise InvalidOperationError(f"{row.name} was not suspended within {TIMEOUT:g} s")

    async def resume(self, row: InstanceRow, actor: Actor) -> None:
        """Resume its process, and wait until it runs."""
        if row.state != InstanceState.SUSPENDED:
            raise InvalidOperationError(f"{row.name} is {row.state}, not suspended")
        await self._control_for(row, "resume").resume(row.name, actor)
        if await self._until(row, (InstanceState.PROCESSING,), TIMEOUT) is None:
            raise InvalidOperationError(f"{row.name} did not resume within {TIMEOUT:g} s")

    async def _until(
        self, row: InstanceRow, states: Container[str], within: float | None
    ) -> InstanceRow | None:
        began = self._clock.now()
        while True:
            found = await self._store.get(row.id) or row
            if found.state in states:
                return found
            if within is not None and self._clock.now() - began >= within:
                return None
            await asyncio.sleep(_POLL_INTERVAL)

    def watch(self, row: InstanceRow) -> None:
        """Emit events for this attempt from now on."""
        if row.terminated_at is None:
            # At most one attempt of an agent runs at a time.
            self._watched[row.name] = row

    def on_committed(self, decision: Committed) -> None:
        """Emit the events that a decision of a loop means for the observers of its attempt."""
        row = self._watched.get(decision.agent_id)
        before, after = LIVE_KINDS.get(decision.before), LIVE_KINDS.get(decision.after)
        if row is None or before is None or before == after:
            return
        instance_id = row.id
        if not self._hub.is_observed(instance_id):
            del self._watched[decision.agent_id]
            return
        at = instant(decision.at)
        state = InstanceState(after) if after is not None else InstanceState.TERMINATED
        self._hub.emit(
            AgentStateChangedEvent(
                instance_id=instance_id,
                occurred_at=at,
                correlation_id=decision.agent_id,
                previous_state=InstanceState(before),
                new_state=state,
                reason=decision.event,
            )
        )
        if after is None:
            del self._watched[decision.agent_id]
            self._hub.emit(
                AgentTerminatedEvent(
                    instance_id=instance_id,
                    occurred_at=at,
                    correlation_id=decision.agent_id,
                    final_state=state,
                    was_graceful=True,
                    reason=decision.event,
                    uptime=timedelta(seconds=max(0.0, decision.at - row.created_at)),
                )
            )


def is_attempt(row: InstanceRow) -> bool:
    """Tell whether an instance is an attempt of a loop."""
    return row.definition_id == LOOP_DEFINITION
