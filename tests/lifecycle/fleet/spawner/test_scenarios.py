"""What a spawner is accepted by: one test per promised scenario."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from lifecycle.clock import SteppedClock
from lifecycle.fleet.api.events import (
    AgentSpawnedEvent,
    AgentStateChangedEvent,
    AgentTerminatedEvent,
)
from lifecycle.fleet.api.instances import HealthState, InstanceState
from lifecycle.fleet.api.options import SpawnRequest
from lifecycle.fleet.api.queries import GetInstancesFilter, TerminationOptions
from lifecycle.fleet.errors import AgentNotFoundError, LicenseError
from lifecycle.store.sqlite.store import SqliteStore
from tests.lifecycle.fleet.spawner_world import staged, until_done

if TYPE_CHECKING:
    from pathlib import Path

S = InstanceState


@pytest.mark.parametrize("level", ["none", "thread"])
async def test_spawn_valid_request_creates_instance(tmp_path: Path, level: str) -> None:
    async with staged(tmp_path) as stage:
        instance = await stage.spawner.spawn(stage.request({"isolation_level": level}))

        assert instance.state is S.READY
        assert instance.is_active
        assert instance.containment.startswith("nothing")
        assert stage.log == ["made", "initialised"]
        assert await stage.spawner.get_instance(instance.instance_id) is not None


async def test_spawn_invalid_definition_throws_not_found(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        with pytest.raises(AgentNotFoundError, match="registered are: puppet"):
            await stage.spawner.spawn(SpawnRequest(agent_definition_id=uuid4()))

        assert await stage.spawner.get_active_instances() == ()


async def test_spawn_license_limit_exceeded_throws_license_exception(tmp_path: Path) -> None:
    async with staged(tmp_path, tier="core") as stage:
        for _ in range(2):
            await stage.spawner.spawn(stage.request())

        with pytest.raises(LicenseError, match="core allows 2 agents at once, and 2 are active"):
            await stage.spawner.spawn(stage.request())

        assert stage.told.of("spawn_rejected")[0]["current"] == 2
        assert stage.told.audit[-1][0::3] == ("spawn", "refused")
        assert stage.spawner.metrics.snapshot().counters["lifecycle.license.rejections"] == 1


async def test_terminate_graceful_shutdown_releases_resources(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        # In one process: what a shell has just forked loses a signal that comes before its program.
        sleeper = stage.shell("exec sleep 60")
        for request in (stage.request(), stage.request_for(sleeper)):
            instance = await stage.spawner.spawn(request)

            result = await stage.spawner.terminate(instance.instance_id)

            assert (result.success, result.was_graceful) == (True, True)
            assert result.final_instance is not None
            assert result.final_instance.state is S.TERMINATED
        assert "shut down" in stage.log
        assert stage.terminals.live() == ()


@pytest.mark.parametrize("level", ["none", "thread"])
async def test_terminate_timeout_force_forcibly_terminates(tmp_path: Path, level: str) -> None:
    clock = SteppedClock()
    async with staged(tmp_path, clock=clock) as stage:
        instance = await stage.spawner.spawn(
            stage.request({"isolation_level": level}, hangs="shut_down")
        )

        options = TerminationOptions(graceful_timeout=1)
        ending = asyncio.create_task(stage.spawner.terminate(instance.instance_id, options))
        result = await until_done(ending, clock)

        assert (result.success, result.was_graceful) == (True, False)
        assert await stage.state(instance.instance_id) is S.TERMINATED


async def test_terminate_timeout_force_forcibly_terminates_a_program(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        deaf = stage.shell("trap '' TERM; echo deaf; sleep 60", ready_text="deaf")
        instance = await stage.spawner.spawn(stage.request_for(deaf))

        result = await stage.spawner.terminate(
            instance.instance_id, TerminationOptions(graceful_timeout=1)
        )

        assert (result.success, result.was_graceful) == (True, False)
        assert result.final_instance is not None
        assert result.final_instance.state is S.TERMINATED
        assert "graceful_shutdown_timeout" in stage.told.names()


async def test_spawn_full_lifecycle_completes_successfully(tmp_path: Path) -> None:
    async with (
        await SqliteStore.open(tmp_path / "state.db") as store,
        staged(tmp_path, store=store) as stage,
    ):
        instance = await stage.spawner.spawn(stage.request())
        assert await stage.spawner.process(instance.instance_id, "one") == "done one"
        await stage.spawner.terminate(instance.instance_id)

        changes = [
            (each["from_state"], each["to_state"]) for each in stage.told.of("agent_state_changed")
        ]
        assert changes == [
            ("initializing", "ready"),
            ("ready", "processing"),
            ("processing", "waiting"),
            ("waiting", "terminating"),
            ("terminating", "terminated"),
        ]
        recorded = await stage.spawner.get_events(instance.instance_id)
        assert [each.event_type for each in recorded].count("AgentStateChangedEvent") == 5
        assert await stage.state(instance.instance_id) is S.TERMINATED


async def test_observe_state_changes_streams_events(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        instance = await stage.spawner.spawn(stage.request())
        observation = stage.spawner.observe(instance.instance_id)

        await stage.spawner.process(instance.instance_id, "one")
        await stage.spawner.suspend(instance.instance_id)
        await stage.spawner.resume(instance.instance_id)
        await stage.spawner.terminate(instance.instance_id)
        events = [event async for event in observation]

        changes = [each for each in events if isinstance(each, AgentStateChangedEvent)]
        assert [each.new_state for each in changes] == [
            S.PROCESSING, S.WAITING, S.SUSPENDED, S.READY, S.TERMINATING, S.TERMINATED,
        ]  # fmt: skip
        assert isinstance(events[-1], AgentTerminatedEvent)
        assert len({each.correlation_id for each in events}) == 1


async def test_concurrent_spawns_enforces_limit(tmp_path: Path) -> None:
    async with (
        await SqliteStore.open(tmp_path / "state.db") as store,
        staged(tmp_path, store=store, tier="core") as stage,
    ):
        came = await asyncio.gather(
            *(stage.spawner.spawn(stage.request()) for _ in range(5)), return_exceptions=True
        )

        assert sum(isinstance(each, LicenseError) for each in came) == 3
        assert len(await stage.spawner.get_active_instances()) == 2


async def test_query_1000_instances_under_100ms(tmp_path: Path) -> None:
    async with (
        await SqliteStore.open(tmp_path / "state.db") as store,
        staged(tmp_path, store=store) as stage,
    ):
        for first in range(0, 1000, 100):
            options = {"isolation_level": "none", "tags": ["nightly"] if first % 200 else None}
            await asyncio.gather(*(stage.spawner.spawn(stage.request(options)) for _ in range(100)))
        times = []
        for _ in range(20):
            began = time.perf_counter()
            found = await stage.spawner.get_active_instances(
                GetInstancesFilter(tag="nightly", health_state=HealthState.UNKNOWN)
            )
            times.append(time.perf_counter() - began)
            assert len(found) == 100

        assert sorted(times)[9] < 0.1


async def test_spawn_under_2_seconds(tmp_path: Path) -> None:
    async with (
        await SqliteStore.open(tmp_path / "state.db") as store,
        staged(tmp_path, store=store) as stage,
    ):
        sleeper = stage.shell("sleep 60")
        times = []
        for _ in range(100):
            began = time.perf_counter()
            await stage.spawner.spawn(stage.request_for(sleeper))
            times.append(time.perf_counter() - began)

        assert sorted(times)[94] < 2.0


async def test_spawn_tells_that_it_spawned(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        instance = await stage.spawner.spawn(stage.request({"name": "Code Review - PR #123"}))

        kinds = [each.event_type for each in await stage.spawner.get_events(instance.instance_id)]
        assert kinds == [AgentSpawnedEvent.__name__, "AgentStateChangedEvent"]
        assert stage.told.of("agent_spawned") == [
            {
                "instance_id": str(instance.instance_id),
                "definition_id": str(stage.puppet.definition_id),
                "isolation": "thread",
            }
        ]
        assert stage.told.audit == [("spawn", "local", str(instance.instance_id), "done", "")]
