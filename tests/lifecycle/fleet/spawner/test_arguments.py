"""What may stand for a definition or an instance, and how wrong arguments are refused."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest

from lifecycle.fleet.api.instances import InstanceState
from lifecycle.fleet.api.options import SpawnRequest
from lifecycle.fleet.api.queries import GetInstancesFilter
from lifecycle.fleet.api.registry import AgentDefinition
from lifecycle.fleet.errors import (
    AgentNotFoundError,
    FleetError,
    InvalidArgumentError,
    SpawnValidationError,
)
from lifecycle.fleet.spawner.spawner import AgentSpawner
from tests.lifecycle.fleet.spawner_world import Puppet, staged

if TYPE_CHECKING:
    from pathlib import Path

WRONG: list[Any] = [None, 5, object(), [], b"puppet"]


@pytest.mark.parametrize("wrong", WRONG)
async def test_a_request_of_another_type_is_refused_counted_and_audited(
    tmp_path: Path, wrong: Any
) -> None:
    async with staged(tmp_path) as stage:
        with pytest.raises(InvalidArgumentError, match="a SpawnRequest is wanted") as caught:
            await stage.spawner.spawn(wrong)

        assert isinstance(caught.value, (FleetError, TypeError, ValueError))
        counters = stage.spawner.metrics.snapshot().counters
        assert counters["lifecycle.spawn.count"] == 1
        assert counters["lifecycle.spawn.failures"] == 1
        assert counters["lifecycle.license.rejections"] == 0
        assert stage.told.audit[-1][0::3] == ("spawn", "refused")


@pytest.mark.parametrize("wrong", [*WRONG, "no-id"])
async def test_an_instance_of_another_type_is_refused(tmp_path: Path, wrong: Any) -> None:
    async with staged(tmp_path) as stage:
        spawner = stage.spawner
        for call in (
            spawner.get_instance, spawner.terminate, spawner.suspend, spawner.resume,
            spawner.get_events,
        ):  # fmt: skip
            with pytest.raises(InvalidArgumentError):
                await call(wrong)
        with pytest.raises(InvalidArgumentError):
            await spawner.process(wrong, "work")
        with pytest.raises(InvalidArgumentError):
            spawner.observe(wrong)


async def test_options_of_another_type_are_refused_and_plain_values_will_do(
    tmp_path: Path,
) -> None:
    async with staged(tmp_path) as stage:
        instance = await stage.spawner.spawn(stage.request())
        with pytest.raises(InvalidArgumentError, match="TerminationOptions or None"):
            await stage.spawner.terminate(instance, 5)  # type: ignore[arg-type]  # what is refused
        with pytest.raises(InvalidArgumentError, match="graceful_timeout"):
            await stage.spawner.terminate(instance, {"graceful_timeout": 301})
        with pytest.raises(InvalidArgumentError, match="limit"):
            await stage.spawner.get_active_instances({"limit": 0})
        with pytest.raises(InvalidArgumentError, match="ObservationOptions"):
            stage.spawner.observe(instance, "all")  # type: ignore[arg-type]  # as above

        assert len(await stage.spawner.get_active_instances({"limit": 1})) == 1
        assert (await stage.spawner.terminate(instance, {"reason": "enough"})).success


async def test_a_definition_and_its_name_stand_for_its_id(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        named = AgentDefinition(name="named", runs=lambda: Puppet(stage.log), definition_id=uuid4())
        instance = await stage.spawner.spawn(named)
        for request in (
            "named", named.definition_id, {"agent_definition_id": "named"},
            {"agent_definition_id": named}, SpawnRequest(agent_definition_id=named),
            {"agent_definition_id": str(named.definition_id)},
        ):  # fmt: skip
            again = await stage.spawner.spawn(request)
            assert again.definition_id == named.definition_id
        assert stage.spawner.registry.find("named") is named
        await stage.spawner.spawn("puppet")

        found = await stage.spawner.get_active_instances(GetInstancesFilter(definition_id=named))
        assert len(found) == 7
        with pytest.raises(SpawnValidationError, match=r"not valid.*agents: named, puppet"):
            await stage.spawner.spawn({"agent_definition_id": "nobody"})
        with pytest.raises(AgentNotFoundError, match="'nobody'; registered are: named, puppet"):
            await stage.spawner.spawn("nobody")
        with pytest.raises(AgentNotFoundError, match="registered are: named, puppet"):
            await stage.spawner.spawn(uuid4())
        with pytest.raises(SpawnValidationError, match="nil"):
            await stage.spawner.spawn(UUID(int=0))
        with pytest.raises(SpawnValidationError, match="already registered"):
            await stage.spawner.spawn(AgentDefinition(name="named", runs=lambda: Puppet(stage.log)))
        assert (await stage.now(instance.instance_id)).state is InstanceState.READY


async def test_a_definition_comes_with_options_and_context_and_a_request_has_its_own(
    tmp_path: Path,
) -> None:
    async with staged(tmp_path) as stage:
        instance = await stage.spawner.spawn("puppet", {"name": "N"}, {"Depth": 3})
        assert instance.name == "N"
        (requested,) = stage.told.of("spawn_requested")
        assert requested["options"] == {"name": "N"}
        for request in (stage.request(), {"agent_definition_id": "puppet"}):
            with pytest.raises(InvalidArgumentError, match="has its own"):
                await stage.spawner.spawn(request, context={"a": 1})
        with pytest.raises(SpawnValidationError, match=r"options\.colour"):
            await stage.spawner.spawn("puppet", {"colour": "red"})
        assert stage.spawner.metrics.snapshot().counters["lifecycle.spawn.failures"] == 3


async def test_an_instance_and_its_id_as_a_text_stand_for_its_id(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        instance = await stage.spawner.spawn("puppet")
        text = str(instance.instance_id)

        assert (await stage.spawner.get_instance(instance)) is not None
        assert await stage.spawner.process(text, "one") == "done one"
        await stage.spawner.suspend(instance)
        await stage.spawner.resume(text)
        assert (await stage.spawner.terminate(text)).success


async def test_a_cancelled_spawn_counts_as_a_failure(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        spawning = asyncio.create_task(stage.spawner.spawn(stage.request(hangs="initialise")))
        await asyncio.sleep(0)
        spawning.cancel()
        with pytest.raises(asyncio.CancelledError):
            await spawning

        assert stage.spawner.metrics.snapshot().counters["lifecycle.spawn.failures"] == 1


@pytest.mark.parametrize("wrong", [*WRONG, "hook", print])
async def test_a_hook_of_another_type_is_refused_when_it_is_added(
    tmp_path: Path, wrong: Any
) -> None:
    async with staged(tmp_path) as stage:
        instance = await stage.spawner.spawn("puppet")
        with pytest.raises(InvalidArgumentError, match="a CleanupHook is wanted"):
            await stage.spawner.add_cleanup_hook(instance, wrong)

        assert (await stage.spawner.terminate(instance)).problems == ()


@pytest.mark.parametrize("wrong", [5, object(), [], "", "state.db", True])
def test_a_store_of_another_type_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="a SqliteStore is wanted"):
        AgentSpawner(wrong)


@pytest.mark.parametrize("wrong", [-1, float("nan"), float("inf"), True, "day", timedelta(-1)])
def test_a_retention_that_is_no_time_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="retention is"):
        AgentSpawner(retention=wrong)
