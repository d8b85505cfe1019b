"""Attempts of loops, as instances: their end is ordered from the loop, their news become events.

A loop keeps its own books; nothing is written here.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from lifecycle.fleet.agentevents import AgentStateChangedEvent, AgentTerminatedEvent
from lifecycle.fleet.errors import InvalidOperationError
from lifecycle.fleet.instances import AgentState, instant
from lifecycle.fleet.queries import TerminationResult
from lifecycle.fleet.records import instance_of
from lifecycle.store.instances import LOOP_DEFINITION
from lifecycle.store.instances_attempts import LIVE_KINDS

if TYPE_CHECKING:
    from collections.abc import Container
    from uuid import UUID

    from lifecycle.clock import Clock
    from lifecycle.fleet.authorize import Actor
    from lifecycle.fleet.observe import Hub
    from lifecycle.fleet.queries import TerminationOptions
    from lifecycle.parts import News
    from lifecycle.store.instances import InstanceRow, InstanceStore

_LOOK_AGAIN = 0.02
PATIENCE = 15.0
"""Seconds until what was ordered of a loop must show."""
_HAS_ENDED = (AgentState.TERMINATED, AgentState.FAILED)


class Loops(Protocol):
    """What whoever runs loops does when it is asked to; each returns when it is ordered."""

    async def stop(self, agent_id: str, reason: str, actor: Actor) -> None:
        """End the attempt under way, keep its work, and start no other."""
        ...

    async def suspend(self, agent_id: str, actor: Actor) -> None:
        """Hold the process of the attempt under way still."""
        ...

    async def resume(self, agent_id: str, actor: Actor) -> None:
        """Let it go on."""
        ...


class Attempts:
    """What can be done with attempts of loops."""

    def __init__(self, store: InstanceStore, clock: Clock, hub: Hub, loops: Loops | None) -> None:
        self._store = store
        self._clock = clock
        self._hub = hub
        self._given = loops
        self._watched: dict[str, UUID] = {}

    def _loops(self, row: InstanceRow, command: str) -> Loops:
        if self._given is None:
            raise InvalidOperationError(
                f"{row.name} is an attempt of a loop, and this spawner cannot reach loops; use "
                f"`loopwright {command} {row.name}`"
            )
        return self._given

    async def terminate(
        self, row: InstanceRow, options: TerminationOptions, actor: Actor
    ) -> TerminationResult:
        """Have its loop stopped, and wait until the attempt has ended."""
        began = self._clock.now()
        loops = self._loops(row, "stop")
        await loops.stop(row.name, options.reason or "terminated", actor)
        patience = None
        if not options.force_if_timeout:
            patience = max(options.graceful_timeout.total_seconds(), 1.0)
        found = await self._until(row, _HAS_ENDED, patience)
        if found is None:
            return TerminationResult.failed(
                f"the stop of {row.name} was ordered, and it still lives after {patience:g} s"
            )
        now = self._clock.now()
        return TerminationResult.successful(
            instance_of(found, now), was_graceful=True, duration=timedelta(seconds=now - began)
        )

    async def suspend(self, row: InstanceRow, actor: Actor) -> None:
        """Have its process held still, and wait until it is."""
        if row.state != AgentState.PROCESSING:
            raise InvalidOperationError(f"{row.name} is {row.state} and cannot be suspended")
        await self._loops(row, "pause --now").suspend(row.name, actor)
        if await self._until(row, (AgentState.SUSPENDED,), PATIENCE) is None:
            raise InvalidOperationError(f"{row.name} would not be held still")

    async def resume(self, row: InstanceRow, actor: Actor) -> None:
        """Let its process go on, and wait until it does."""
        if row.state != AgentState.SUSPENDED:
            raise InvalidOperationError(f"{row.name} is {row.state}, not suspended")
        await self._loops(row, "resume").resume(row.name, actor)
        if await self._until(row, (AgentState.PROCESSING,), PATIENCE) is None:
            raise InvalidOperationError(f"{row.name} did not go on")

    async def _until(
        self, row: InstanceRow, states: Container[str], patience: float | None
    ) -> InstanceRow | None:
        began = self._clock.now()
        while True:
            found = await self._store.get(row.id) or row
            if found.state in states:
                return found
            if patience is not None and self._clock.now() - began >= patience:
                return None
            await asyncio.sleep(_LOOK_AGAIN)

    def watch(self, row: InstanceRow) -> None:
        """Somebody listens to this attempt."""
        if row.terminated_at is None:
            # No two attempts of an agent are alive at once.
            self._watched[row.name] = row.id

    def note(self, news: News) -> None:
        """Take a decision of a loop, and tell who listens to its attempt."""
        instance_id = self._watched.get(news.agent_id)
        before, after = LIVE_KINDS.get(news.before), LIVE_KINDS.get(news.after)
        if instance_id is None or before is None or before == after:
            return
        if not self._hub.heard(instance_id):
            del self._watched[news.agent_id]
            return
        at = instant(news.at)
        state = AgentState(after) if after is not None else AgentState.TERMINATED
        self._hub.tell(
            AgentStateChangedEvent(
                instance_id=instance_id,
                occurred_at=at,
                correlation_id=news.agent_id,
                previous_state=AgentState(before),
                new_state=state,
                reason=news.event,
            )
        )
        if after is None:
            del self._watched[news.agent_id]
            self._hub.tell(
                AgentTerminatedEvent(
                    instance_id=instance_id,
                    occurred_at=at,
                    correlation_id=news.agent_id,
                    final_state=state,
                    was_graceful=True,
                    reason=news.event,
                    uptime=timedelta(),
                )
            )


def is_attempt(row: InstanceRow) -> bool:
    """Whether an instance is an attempt of a loop."""
    return row.definition_id == LOOP_DEFINITION
