"""Suspends and resumes instances, and marks those that have work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.fleet.api.instances import InstanceState, path
from lifecycle.fleet.errors import InvalidOperationError
from runtime.errors import RuntimeFault

if TYPE_CHECKING:
    from lifecycle.fleet.api.authorization import Actor
    from lifecycle.fleet.spawner.live_instance import LiveInstance
    from lifecycle.fleet.spawner.state_changes import StateWriter


async def suspend(writer: StateWriter, live: LiveInstance, actor: Actor) -> None:
    """Suspend an instance. A program may be processing; an object must be idle."""
    async with live.lock:
        way = path(live.instance.state, InstanceState.SUSPENDED)
        program = live.body is not None and bool(live.body.mark)
        if not way or live.body is None or live.ending or (len(way) > 1 and not program):
            raise InvalidOperationError(
                f"{live.instance.name} is {live.instance.state} and cannot be suspended"
            )
        try:
            await live.body.suspend()
        except RuntimeFault as problem:
            raise InvalidOperationError(str(problem)) from problem
        # Its state may have changed meanwhile.
        way = path(live.instance.state, InstanceState.SUSPENDED)
        if way and live.ending is None:
            await writer.change(live, *way, reason=f"suspended by {actor.name}")


async def resume(writer: StateWriter, live: LiveInstance, actor: Actor) -> None:
    """Resume an instance."""
    async with live.lock:
        if live.instance.state is not InstanceState.SUSPENDED or live.body is None:
            raise InvalidOperationError(
                f"{live.instance.name} is {live.instance.state}, not suspended"
            )
        await live.body.resume()
        live.active_at = writer.clock.now()
        if live.ending is None:
            await writer.change(live, InstanceState.READY, reason=f"resumed by {actor.name}")


async def set_busy(writer: StateWriter, live: LiveInstance, at_work: bool) -> None:  # noqa: FBT001  # a callback
    """Record that an object has work, or none any more."""
    state = live.instance.state
    if at_work and state in (InstanceState.READY, InstanceState.WAITING):
        await writer.change(live, InstanceState.PROCESSING, reason="it received work")
    elif not at_work and state is InstanceState.PROCESSING:
        await writer.change(live, InstanceState.WAITING, reason="its work is done")
