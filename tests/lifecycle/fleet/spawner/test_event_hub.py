"""Listeners hear all they want in order; who is too slow loses the oldest and is told how many."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from lifecycle.fleet.api.events import (
    AgentErrorEvent,
    AgentEventsDroppedEvent,
    AgentStateChangedEvent,
    AgentTerminatedEvent,
)
from lifecycle.fleet.api.instances import InstanceState
from lifecycle.fleet.api.queries import ObservationOptions
from lifecycle.fleet.errors import AgentNotFoundError
from lifecycle.fleet.spawner.event_hub import EventHub, Observation
from tests.lifecycle.fleet.spawner_world import staged

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ONE = uuid4()


async def yes() -> bool:
    return True


def changed(number: int) -> AgentStateChangedEvent:
    return AgentStateChangedEvent(
        instance_id=ONE,
        occurred_at=NOW + timedelta(seconds=number),
        previous_state=InstanceState.READY,
        new_state=InstanceState.PROCESSING,
        reason=str(number),
    )


def ended() -> AgentTerminatedEvent:
    return AgentTerminatedEvent(
        instance_id=ONE,
        occurred_at=NOW,
        final_state=InstanceState.TERMINATED,
        was_graceful=True,
        uptime=timedelta(),
    )


async def test_a_slow_listener_loses_the_oldest_and_is_told_how_many() -> None:
    hub = EventHub()
    observation = Observation(hub, ONE, ObservationOptions(buffer_capacity=3), yes)
    for number in range(10):
        hub.emit(changed(number))

    dropped = await anext(observation)
    assert isinstance(dropped, AgentEventsDroppedEvent)
    assert dropped.count == 7
    reasons = []
    for _ in range(3):
        event = await anext(observation)
        assert isinstance(event, AgentStateChangedEvent)
        reasons.append(event.reason)
    assert reasons == ["7", "8", "9"]
    await observation.aclose()


async def test_each_listener_has_its_own_pace_and_its_own_wishes() -> None:
    hub = EventHub()
    everything = Observation(hub, ONE, ObservationOptions(), yes)
    errors = Observation(hub, ONE, ObservationOptions(include_state_changes=False), yes)
    hub.emit(changed(1))
    hub.emit(AgentErrorEvent(instance_id=ONE, occurred_at=NOW, error_message="x"))
    hub.emit(ended())

    assert [type(each).__name__ async for each in errors] == ["AgentErrorEvent"]
    assert len([each async for each in everything]) == 3
    assert not hub.is_observed(ONE)


async def test_a_listener_waits_for_the_next_event_and_ends_when_it_is_closed() -> None:
    hub = EventHub()
    async with Observation(hub, ONE, ObservationOptions(), yes) as observation:
        waiting = asyncio.create_task(anext(observation))
        await asyncio.sleep(0)
        assert not waiting.done()
        hub.emit(changed(1))
        assert (await waiting).occurred_at == changed(1).occurred_at
        hub.close()
        with pytest.raises(StopAsyncIteration):
            await anext(observation)


async def test_nobody_can_listen_to_what_does_not_exist(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        observation = stage.spawner.observe(uuid4())

        with pytest.raises(AgentNotFoundError, match="no instance"):
            await anext(observation)
        with pytest.raises(StopAsyncIteration):
            await anext(observation)


async def test_what_has_ended_has_nothing_more_to_tell(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        instance = await stage.spawner.spawn(stage.request())
        await stage.spawner.terminate(instance.instance_id)

        assert [event async for event in stage.spawner.observe(instance.instance_id)] == []


async def test_observations_end_with_the_spawner(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        instance = await stage.spawner.spawn(stage.request())
        observation = stage.spawner.observe(instance.instance_id)
        await stage.spawner.aclose(grace=1.0)

        last = [event async for event in observation][-1]
        assert isinstance(last, AgentTerminatedEvent)
        assert last.reason == "the runner ends"
