"""What a spawner logs and audits, also when nobody asked it to."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import pytest

from lifecycle.fleet.api.authorization import NoAudit
from lifecycle.fleet.api.options import AgentSpawnOptions, SpawnRequest
from lifecycle.fleet.api.queries import TerminationOptions
from lifecycle.fleet.api.registry import AgentDefinition
from lifecycle.fleet.errors import AgentInitializationError, LicenseError
from lifecycle.fleet.spawner.spawner import AgentSpawner
from lifecycle.reporting import silent
from lifecycle.store.sqlite.audit_trail import TrailReader
from lifecycle.store.sqlite.store import SqliteStore
from tests.lifecycle.fleet.spawner_world import Puppet, staged, until

if TYPE_CHECKING:
    from pathlib import Path


async def test_each_event_of_a_life_is_logged_with_its_fields(tmp_path: Path) -> None:
    async with staged(tmp_path, tier="core") as stage:
        options = AgentSpawnOptions(name="N", tags=("a",))
        definition_id = str(stage.puppet.definition_id)
        instance = await stage.spawner.spawn(
            SpawnRequest(agent_definition_id=stage.puppet, options=options)
        )
        with pytest.raises(AgentInitializationError):
            await stage.spawner.spawn(stage.request(fails="initialise"))
        crashing = await stage.spawner.spawn("puppet")
        with pytest.raises(LicenseError):
            await stage.spawner.spawn({"agent_definition_id": "puppet", "options": {"priority": 1}})
        with pytest.raises(RuntimeError):
            await stage.spawner.process(crashing, "crash")
        await until(lambda: stage.told.of("agent_terminated"))
        await stage.spawner.terminate(instance, {"reason": "enough"})
        hanging = await stage.spawner.spawn(stage.request(hangs="shut_down"))
        await stage.spawner.terminate(hanging, TerminationOptions(graceful_timeout=1))

        requested = stage.told.of("spawn_requested")
        assert requested[0] == {
            "definition_id": definition_id,
            "options": {"name": "N", "tags": ["a"]},
            "actor": "local",
        }
        assert [each["options"] for each in requested[1:]] == [None, None, {"priority": 1}, None]
        assert stage.told.of("agent_spawned")[0] == {
            "instance_id": str(instance.instance_id),
            "definition_id": definition_id,
            "isolation": "thread",
        }
        (rejected,) = stage.told.of("spawn_rejected")
        assert (rejected["current"], rejected["max"]) == (2, 2)
        (failed,) = stage.told.of("agent_initialization_failed")
        assert "no model to load" in failed["error"]
        (crashed,) = stage.told.of("agent_crashed")
        assert crashed["instance_id"] == str(crashing.instance_id)
        assert crashed["error"] == "RuntimeError: it fell over"
        assert "it fell over" in crashed["stack_trace"]
        (changed, *_) = stage.told.of("agent_state_changed")
        assert (changed["from_state"], changed["to_state"]) == ("initializing", "ready")
        ended = stage.told.of("agent_terminated")
        by_id = {each["instance_id"]: each for each in ended}
        assert by_id[str(instance.instance_id)]["was_graceful"] is True
        assert by_id[str(instance.instance_id)]["reason"] == "enough"
        assert by_id[str(hanging.instance_id)]["was_graceful"] is False
        assert by_id[str(hanging.instance_id)]["uptime"] >= 1
        (late,) = stage.told.of("graceful_shutdown_timeout")
        assert late["instance_id"] == str(hanging.instance_id)


async def test_a_spawner_logs_and_audits_without_being_asked_to(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "loopwright")
    async with await SqliteStore.open(tmp_path / "state.db") as store:
        async with AgentSpawner(store) as spawner:
            log = list[str]()
            puppet = AgentDefinition(name="puppet", runs=lambda: Puppet(log))
            instance = await spawner.spawn(puppet)
            await spawner.suspend(instance)
            await spawner.terminate(instance, {"reason": "enough"})
            with pytest.raises(TypeError):
                await spawner.spawn(None)  # type: ignore[arg-type]  # what is refused
        told = [(each.action, each.outcome, each.reason) for each in await store.trail.entries()]

    assert [each[:2] for each in told] == [
        ("spawn", "done"), ("suspend", "done"), ("terminate", "done"), ("spawn", "refused"),
    ]  # fmt: skip
    assert told[2][2] == "enough"
    assert TrailReader(tmp_path / "state.db").verify().whole
    words = [record.getMessage().split(":")[0] for record in caplog.records]
    for event in ("spawn_requested", "agent_spawned", "agent_state_changed", "agent_terminated"):
        assert event in words


async def test_both_can_be_turned_off(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "loopwright")
    store = SqliteStore.in_memory()
    async with AgentSpawner(store, audit=NoAudit(), report=silent) as spawner:
        log = list[str]()
        await spawner.spawn(AgentDefinition(name="puppet", runs=lambda: Puppet(log)))

    assert await store.trail.entries() == ()
    assert not caplog.records
    del tmp_path


async def test_the_uptime_of_a_living_instance_goes_on_and_that_of_an_ended_one_stays(
    tmp_path: Path,
) -> None:
    async with staged(tmp_path) as stage:
        instance = await stage.spawner.spawn("puppet")
        first = instance.uptime

        await until(lambda: instance.uptime > first)

        ended = (await stage.spawner.terminate(instance)).final_instance
        assert ended is not None
        assert ended.terminated_at is not None
        for _ in range(2):
            assert ended.uptime == ended.terminated_at - ended.created_at
            await asyncio.sleep(0.002)
