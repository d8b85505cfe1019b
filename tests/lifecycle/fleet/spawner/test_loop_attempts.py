"""A loop's attempt is an instance: found, counted, observed and ended, with no second books."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from lifecycle.fleet.api.authorization import Actor, Role
from lifecycle.fleet.api.events import AgentStateChangedEvent, AgentTerminatedEvent
from lifecycle.fleet.api.instances import HealthState, InstanceState
from lifecycle.fleet.api.queries import GetInstancesFilter, TerminationOptions
from lifecycle.fleet.api.registry import AgentDefinition, AgentRegistry
from lifecycle.fleet.errors import InvalidOperationError, LicenseError
from lifecycle.fleet.spawner.spawner import AgentSpawner
from lifecycle.machine import events as on
from lifecycle.store.instances import LOOP_DEFINITION
from tests.lifecycle.conftest import world
from tests.lifecycle.fleet.spawner_world import Puppet
from tests.lifecycle.world import AGENT, DONE, HANG, Running, World

if TYPE_CHECKING:
    from typing import Any

    from lifecycle.fleet.api.events import AgentEvent
    from lifecycle.fleet.spawner.event_hub import Observation

__all__ = ["world"]

S = InstanceState


@dataclass
class Asking:
    """Asks a running loop as a person does."""

    running: Running

    async def stop(self, agent_id: str, reason: str, actor: Actor) -> None:
        assert (agent_id, actor.role) == (AGENT, Role.ADMIN)
        del reason
        await self.running.ask(on.StopRequested, pause=True)

    async def suspend(self, agent_id: str, actor: Actor) -> None:
        assert (agent_id, actor.role) == (AGENT, Role.ADMIN)
        await self.running.ask(on.PauseRequested, now=True)

    async def resume(self, agent_id: str, actor: Actor) -> None:
        assert (agent_id, actor.role) == (AGENT, Role.ADMIN)
        await self.running.ask(on.ResumeRequested)


def spawner_of(world: World, running: Running | None = None, **more: Any) -> AgentSpawner:
    loops = None if running is None else Asking(running)
    puppet = AgentDefinition(name="puppet", runs=lambda: Puppet([]))
    return AgentSpawner(world.store, AgentRegistry([puppet]), loops=loops, **more)


async def test_an_attempt_is_found_counted_and_ended_like_any_instance(world: World) -> None:
    async with world.running([HANG]) as running, spawner_of(world, running) as spawner:
        await running.at("Working")

        (instance,) = await spawner.get_active_instances()

        assert (instance.state, instance.name) == (S.PROCESSING, AGENT)
        assert instance.health.state is HealthState.HEALTHY
        assert instance.definition_id == LOOP_DEFINITION
        assert instance.details["attempt"] == 1
        assert await spawner.get_instance(instance.instance_id) is not None
        counted = await spawner.get_statistics()
        assert (counted.active_instances, counted.by_state) == (1, {S.PROCESSING: 1})
        result = await spawner.terminate(instance.instance_id, TerminationOptions(reason="enough"))

        assert result.success
        assert result.final_instance is not None
        assert result.final_instance.state is S.TERMINATED
        assert world.marked() == []
        with pytest.raises(InvalidOperationError, match="already ended"):
            await spawner.terminate(instance.instance_id)
        counted = await spawner.get_statistics()
        assert (counted.active_instances, counted.total_terminated) == (0, 1)


async def test_an_attempt_is_suspended_and_resumed(world: World) -> None:
    async with world.running([HANG]) as running, spawner_of(world, running) as spawner:
        await running.at("Working")
        (instance,) = await spawner.get_active_instances()
        with pytest.raises(InvalidOperationError, match="not suspended"):
            await spawner.resume(instance.instance_id)

        await spawner.suspend(instance.instance_id)

        suspended = GetInstancesFilter(state=S.SUSPENDED)
        assert len(await spawner.get_active_instances(suspended)) == 1
        assert await spawner.get_active_instances(GetInstancesFilter(state=S.PROCESSING)) == ()
        with pytest.raises(InvalidOperationError, match="cannot be suspended"):
            await spawner.suspend(instance.instance_id)
        await spawner.resume(instance.instance_id)
        (instance,) = await spawner.get_active_instances()
        assert instance.state is S.PROCESSING


async def test_each_attempt_is_an_instance_of_its_own(world: World) -> None:
    await world.run({1: [{"exit": 3}], 2: [DONE]})

    async with spawner_of(world) as spawner:
        found = await spawner.get_active_instances(GetInstancesFilter(include_terminated=True))

        assert [(each.details["attempt"], each.state) for each in found] == [
            (2, S.TERMINATED),
            (1, S.FAILED),
        ]
        assert len({each.instance_id for each in found}) == 2
        assert found[1].details["exit_code"] == 3
        assert await spawner.get_active_instances() == ()


async def test_attempts_take_their_place_in_the_quota(world: World) -> None:
    async with world.running([HANG]) as running, spawner_of(world, running, tier="core") as spawner:
        await running.at("Working")
        puppet = spawner.registry.definitions()[0].definition_id
        await spawner.spawn({"agent_definition_id": puppet})

        with pytest.raises(LicenseError, match="2 are active"):
            await spawner.spawn({"agent_definition_id": puppet})


async def test_who_observes_an_attempt_hears_of_its_end(world: World) -> None:
    async with world.running([HANG]) as running, spawner_of(world, running) as spawner:
        await running.at("Working")
        (instance,) = await spawner.get_active_instances()
        observation = spawner.observe(instance.instance_id)
        hearing = asyncio.create_task(_all(observation))
        await asyncio.sleep(0)
        told = len(world.news)

        await spawner.terminate(instance.instance_id)
        for news in world.news[told:]:
            spawner.note_news(news)
        events = await hearing

        changes = [each for each in events if isinstance(each, AgentStateChangedEvent)]
        assert [each.new_state for each in changes] == [S.TERMINATING, S.TERMINATED]
        assert isinstance(events[-1], AgentTerminatedEvent)
        assert events[-1].uptime.total_seconds() > 0


async def _all(observation: Observation) -> list[AgentEvent]:
    return [event async for event in observation]


async def test_without_a_way_to_stop_loops_the_command_is_named(world: World) -> None:
    async with world.running([HANG]) as running, spawner_of(world) as spawner:
        await running.at("Working")
        (instance,) = await spawner.get_active_instances()

        with pytest.raises(InvalidOperationError, match=f"loopwright stop {AGENT}"):
            await spawner.terminate(instance.instance_id)
        with pytest.raises(InvalidOperationError, match=f"loopwright pause --now {AGENT}"):
            await spawner.suspend(instance.instance_id)
