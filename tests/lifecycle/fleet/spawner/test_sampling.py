"""Live instances are measured, and their health is checked."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from lifecycle.clock import SteppedClock
from lifecycle.fleet.api.instances import HealthState
from lifecycle.fleet.api.queries import GetInstancesFilter, ObservationOptions
from tests.lifecycle.fleet.spawner_world import staged, until

if TYPE_CHECKING:
    from pathlib import Path


async def test_metrics_are_sampled_and_told_to_those_who_want_them(tmp_path: Path) -> None:
    async with staged(tmp_path, sample_interval=0.02) as stage:
        instance = await stage.spawner.spawn(
            stage.request_for(stage.shell("while :; do echo 0123456789; sleep 0.01; done"))
        )
        observation = stage.spawner.observe(
            instance.instance_id,
            ObservationOptions(include_metrics=True, include_state_changes=False,
                               include_health_checks=False),
        )  # fmt: skip
        event = await anext(observation)
        await observation.aclose()

        assert type(event).__name__ == "AgentMetricsUpdatedEvent"

        async def measured() -> bool:
            found = await stage.now(instance.instance_id)
            return found.metrics is not None and found.metrics.output_bytes > 100

        await until(measured)
        found = await stage.now(instance.instance_id)
        assert found.metrics is not None
        assert found.metrics.processes >= 1
        assert found.metrics.memory_bytes > 0
        assert found.metrics.uptime.total_seconds() > 0
        (listed,) = await stage.spawner.get_active_instances()
        assert listed.metrics is not None


async def test_the_heartbeat_finds_life_and_then_silence(tmp_path: Path) -> None:
    clock = SteppedClock()
    async with staged(tmp_path, clock=clock) as stage:
        check = {"interval": 10, "stale_after": 60}
        instance = await stage.spawner.spawn(
            stage.request_for(stage.shell("sleep 600"), {"health_check": check})
        )
        clock.advance(5)

        async def health() -> HealthState:
            return (await stage.now(instance.instance_id)).health.state

        async def is_healthy() -> bool:
            return await health() is HealthState.HEALTHY

        await until(is_healthy)
        clock.advance(70)
        await until(lambda: len(stage.told.of("agent_health_changed")) == 2)

        found = await stage.now(instance.instance_id)
        assert found.health.state is HealthState.DEGRADED
        assert "no output, no processor use and no mail" in found.health.details
        (listed,) = await stage.spawner.get_active_instances(
            GetInstancesFilter(health_state=HealthState.DEGRADED)
        )
        assert listed.instance_id == instance.instance_id


async def test_mail_counts_as_a_sign_of_life(tmp_path: Path) -> None:
    clock = SteppedClock()
    async with staged(tmp_path, clock=clock) as stage:
        check = {"interval": 10, "stale_after": 60}
        instance = await stage.spawner.spawn(
            stage.request_for(stage.shell("sleep 600", cwd=tmp_path), {"health_check": check})
        )
        for step in range(10):
            os.utime(_touched(tmp_path / "communications.json"), (step, step))
            clock.advance(20)
            await asyncio.sleep(0)

        assert (await stage.now(instance.instance_id)).health.state is HealthState.HEALTHY


def _touched(file: Path) -> Path:
    file.touch()
    return file


async def test_a_command_checks_health_and_its_failures_add_up(tmp_path: Path) -> None:
    clock = SteppedClock()
    async with staged(tmp_path, clock=clock) as stage:
        check = {"command": ["/bin/sh", "-c", "test -e well"], "interval": 1,
                 "unhealthy_threshold": 2}  # fmt: skip
        (tmp_path / "well").touch()
        instance = await stage.spawner.spawn(
            stage.request_for(stage.shell("sleep 600", cwd=tmp_path), {"health_check": check})
        )

        async def becomes(health: HealthState) -> bool:
            clock.advance(5)
            return (await stage.now(instance.instance_id)).health.state is health

        await until(lambda: becomes(HealthState.HEALTHY))
        (tmp_path / "well").unlink()
        await until(lambda: becomes(HealthState.UNHEALTHY))

        states = [each["to_health"] for each in stage.told.of("agent_health_changed")]
        assert states == ["healthy", "degraded", "unhealthy"]
        found = await stage.now(instance.instance_id)
        assert found.health.details == "/bin/sh: exit code 1"
        # The latest check may just be under way.
        await until(lambda: len(stage.terminals.live()) == 1)
