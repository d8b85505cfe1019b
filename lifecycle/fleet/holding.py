"""Between ready and ended: instances that are held still, let go on, at work, and at rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.fleet.errors import InvalidOperationError
from lifecycle.fleet.instances import AgentState, path
from runtime.errors import RuntimeFault

if TYPE_CHECKING:
    from lifecycle.clock import Clock
    from lifecycle.fleet.authorize import Actor
    from lifecycle.fleet.live import Live
    from lifecycle.fleet.scribe import Scribe


class Holder:
    """Suspends and resumes what this process runs."""

    def __init__(self, scribe: Scribe, clock: Clock) -> None:
        self._scribe = scribe
        self._clock = clock

    async def suspend(self, live: Live, actor: Actor) -> None:
        """Hold it still. A program may be at work: frozen, it waits. An object may not."""
        async with live.turn:
            way = path(live.instance.state, AgentState.SUSPENDED)
            program = live.body is not None and bool(live.body.mark)
            if not way or live.body is None or live.ending or (len(way) > 1 and not program):
                raise InvalidOperationError(
                    f"{live.instance.name} is {live.instance.state} and cannot be suspended"
                )
            try:
                await live.body.suspend()
            except RuntimeFault as problem:
                raise InvalidOperationError(str(problem)) from problem
            # Meanwhile it may have come to work, or to its end.
            way = path(live.instance.state, AgentState.SUSPENDED)
            if way and live.ending is None:
                await self._scribe.change(live, *way, reason=f"suspended by {actor.name}")

    async def resume(self, live: Live, actor: Actor) -> None:
        """Let it go on."""
        async with live.turn:
            if live.instance.state is not AgentState.SUSPENDED or live.body is None:
                raise InvalidOperationError(
                    f"{live.instance.name} is {live.instance.state}, not suspended"
                )
            await live.body.resume()
            live.moved_at = self._clock.now()
            if live.ending is None:
                await self._scribe.change(live, AgentState.READY, reason=f"resumed by {actor.name}")

    async def busy(self, live: Live, at_work: bool) -> None:  # noqa: FBT001  # a callback
        """Take note that an object has work, or none any more."""
        state = live.instance.state
        if at_work and state in (AgentState.READY, AgentState.WAITING):
            await self._scribe.change(live, AgentState.PROCESSING, reason="it was given work")
        elif not at_work and state is AgentState.PROCESSING:
            await self._scribe.change(live, AgentState.WAITING, reason="its work is done")
