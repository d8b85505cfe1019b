"""Limits that are looked at while agents live: memory, tokens per minute, and their number."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import TYPE_CHECKING

import pytest

from lifecycle.clock import SteppedClock
from lifecycle.fleet.api.authorization import NoAudit
from lifecycle.fleet.api.instances import HealthState, InstanceState
from lifecycle.fleet.api.registry import AgentDefinition, AgentRegistry, CommandAgent
from lifecycle.fleet.bodies import in_process
from lifecycle.fleet.bodies.token_rate import TokenRate
from lifecycle.fleet.errors import SpawnValidationError
from lifecycle.fleet.spawner.spawner import AgentSpawner
from lifecycle.reporting import silent
from lifecycle.store.sqlite.store import SqliteStore
from runtime import proc_table
from runtime.agents.catalogue import adapter
from tests.lifecycle.fleet.spawner_world import Puppet, alive, staged, until

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

S = InstanceState
ANSWERS = """
import itertools, json, sys, time
for number in itertools.count():
    usage = {"input_tokens": 600, "output_tokens": 400}
    text = [{"type": "text", "text": "x"}]
    message = {"id": f"m{number}", "role": "assistant", "content": text, "usage": usage}
    print(json.dumps({"type": "assistant", "message": message}), flush=True)
    time.sleep(0.02)
"""
"""A program whose output is that of claude: a thousand tokens, fifty times a second."""


def answer(number: int) -> str:
    usage = {"input_tokens": 600, "output_tokens": 400}
    message = {"id": f"m{number}", "role": "assistant", "content": [], "usage": usage}
    return json.dumps({"type": "assistant", "message": message}) + "\n"


def talks(**more: Any) -> AgentDefinition:
    runs = CommandAgent(command=(sys.executable, "-S", "-c", ANSWERS), **more)
    return AgentDefinition(name="talks", runs=runs)


@pytest.mark.parametrize("level", ["none", "thread"])
async def test_an_object_whose_process_grew_beyond_its_memory_limit_is_degraded_and_reported(
    tmp_path: Path, level: str
) -> None:
    class Hoarder(Puppet):
        held: bytearray | None = None

        async def process(self, work: Any) -> Any:
            Hoarder.held = bytearray(b"x") * (200 << 20) if work == "hoard" else None

    async with staged(tmp_path, sample_interval=0.02) as stage:
        hoarder = AgentDefinition(name="hoarder", runs=lambda: Hoarder(stage.log))
        stage.spawner.registry.register(hoarder)
        options = {"isolation_level": level, "resource_limits": {"max_memory_mb": 64}}
        instance = await stage.spawner.spawn(stage.request_for(hoarder, options))

        async def is_in(health: HealthState) -> bool:
            return (await stage.now(instance.instance_id)).health.state is health

        await until(lambda: is_in(HealthState.HEALTHY))
        await stage.spawner.process(instance, "hoard")
        await until(lambda: is_in(HealthState.DEGRADED))

        found = await stage.now(instance.instance_id)
        assert "max_memory_mb is 64: advisory" in found.health.details
        assert found.metrics is not None
        assert found.metrics.memory_bytes > 150 << 20
        (told,) = stage.told.of("agent_limit_exceeded")
        assert told["instance_id"] == str(instance.instance_id)
        assert found.state is S.WAITING
        await stage.spawner.process(instance, "drop")
        await until(lambda: is_in(HealthState.HEALTHY))


def test_memory_is_measured_of_this_process() -> None:
    row = proc_table.read_row(os.getpid())
    assert row is not None
    assert 0 < in_process.own_activity().memory_bytes < 4 * row.resident


async def test_a_program_that_reports_more_tokens_than_its_minute_may_hold_is_held_back(
    tmp_path: Path,
) -> None:
    clock = SteppedClock()
    async with staged(tmp_path, clock=clock) as stage:
        options = {
            "resource_limits": {"max_tokens_per_minute": 20_000, "execution_timeout": 100},
            "allow_weaker": True,
        }
        stage.spawner.registry.register(talks(adapter="claude"))
        instance = await stage.spawner.spawn(stage.request_for(talks(adapter="claude"), options))
        (process,) = stage.terminals.live()

        async def held() -> bool:
            clock.advance(0.5)
            return process.suspended

        async def free() -> bool:
            clock.advance(5)
            return not process.suspended

        clock.advance(5)
        await until(held)
        found = await stage.now(instance.instance_id)
        assert found.metrics is not None
        assert found.metrics.tokens > 20_000
        assert (
            "max_tokens_per_minute is 20000" in stage.told.of("agent_limit_exceeded")[0]["reason"]
        )
        assert found.health.state is HealthState.DEGRADED
        # The time in which it is held back does not count as execution time.
        await until(free)
        await until(held)
        # What a person suspended meanwhile stays so when the minute has room.
        await stage.spawner.suspend(instance)
        for _ in range(100):
            clock.advance(5)
            await asyncio.sleep(0)
        assert process.suspended
        await stage.spawner.resume(instance)
        await until(free)
        assert alive(instance.details["pid"])
        assert (await stage.spawner.terminate(instance)).success


async def test_tokens_are_counted_without_a_limit_too(tmp_path: Path) -> None:
    async with staged(tmp_path, sample_interval=0.02) as stage:
        instance = await stage.spawner.spawn(talks(adapter="claude"))

        async def counted() -> bool:
            metrics = (await stage.now(instance.instance_id)).metrics
            return metrics is not None and metrics.tokens > 2000

        await until(counted)
        assert stage.told.of("agent_limit_exceeded") == []


@pytest.mark.parametrize("named", ["", "copilot"])
async def test_a_limit_on_tokens_that_nobody_tells_is_refused_unless_weaker_will_do(
    tmp_path: Path, named: str
) -> None:
    async with staged(tmp_path) as stage:
        definition = stage.spawner.registry.register(talks(adapter=named))
        options = {"resource_limits": {"max_tokens_per_minute": 10}}
        with pytest.raises(SpawnValidationError, match=r"CommandAgent\(adapter"):
            await stage.spawner.spawn(stage.request_for(definition, options))

        weaker = stage.request_for(definition, {**options, "allow_weaker": True})
        assert (await stage.spawner.spawn(weaker)).state is S.READY


async def test_an_unknown_adapter_is_refused(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        with pytest.raises(SpawnValidationError, match="no agent adapter 'cloud'; there are"):
            await stage.spawner.spawn(talks(adapter="cloud"))


def test_a_minute_forgets_what_is_older(tmp_path: Path) -> None:
    clock, log = SteppedClock(), tmp_path / "log"
    rate = TokenRate(adapter("claude"), log, 1500, clock.now)
    rate.read()
    assert (rate.total, rate.is_over) == (0, False)
    for number in range(2):
        with log.open("a") as file:
            file.write(answer(number))
        rate.read()
        clock.advance(40)

    rate.read()

    assert (rate.total, rate.last_minute, rate.is_over) == (2000, 1000, False)
    with log.open("a") as file:
        file.write(answer(2) + "no JSON\n" + answer(3))
    rate.read()
    assert (rate.last_minute, rate.is_over) == (3000, True)
    rate.close()
    clock.advance(70)
    rate.read()
    assert (rate.total, rate.is_over) == (4000, False)


async def test_more_active_instances_than_the_tier_allows_are_told_and_left_alone(
    tmp_path: Path,
) -> None:
    store, clock = SqliteStore.in_memory(), SteppedClock()
    registry = AgentRegistry()
    async with (
        AgentSpawner(store, registry, clock=clock, audit=NoAudit(), report=silent) as generous,
        staged(tmp_path, store=store, clock=clock, tier="core") as stage,
    ):
        registry.register(stage.puppet)
        async with stage.spawner:
            instances = [await generous.spawn(stage.request()) for _ in range(4)]
            clock.advance(10)
            await until(lambda: stage.told.of("concurrent_limit_exceeded"))
            clock.advance(100)
            await until(lambda: stage.told.audit)

            reason = "the quota tier core allows 2 agents at once"
            assert stage.told.of("concurrent_limit_exceeded") == [
                {"current": 4, "max": 2, "reason": reason}
            ]
            assert stage.told.audit == [("limit", "runner", "instances", "exceeded", reason)]
            for each in instances:
                assert (await generous.get_instance(each)) is not None
                assert await stage.state(each.instance_id) is S.READY
