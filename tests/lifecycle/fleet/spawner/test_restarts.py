"""A failed instance is started again by its policy, and never beyond it."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from lifecycle.clock import SteppedClock
from lifecycle.fleet.api.events import AgentErrorEvent
from lifecycle.fleet.api.instances import AgentInstance, HealthState, InstanceState
from lifecycle.fleet.api.options import RestartPolicy
from lifecycle.fleet.api.queries import ObservationOptions, TerminationOptions
from lifecycle.fleet.api.registry import AgentDefinition, CommandAgent
from lifecycle.fleet.spawner.restart_policy import CrashLoop
from tests.lifecycle.fleet.spawner_world import alive, staged, until

if TYPE_CHECKING:
    from pathlib import Path

S = InstanceState
AT_ONCE = {"type": "immediate", "max_retries": 2}


async def test_a_failed_program_is_started_again_with_the_same_id(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        twice = stage.shell("echo x >> runs; test $(wc -l < runs) -ge 2 && exec sleep 600; exit 1",
                            cwd=tmp_path)  # fmt: skip
        instance = await stage.spawner.spawn(stage.request_for(twice, {"restart_policy": AT_ONCE}))
        observation = stage.spawner.observe(
            instance.instance_id, ObservationOptions(include_state_changes=False)
        )

        async def again() -> bool:
            found = await stage.now(instance.instance_id)
            return found.restart_count == 1 and found.state is S.READY

        await until(again)

        found = await stage.now(instance.instance_id)
        assert found.details["pid"] != instance.details["pid"]
        assert found.error_message is None
        assert found.terminated_at is None
        assert alive(found.details["pid"])
        await stage.spawner.terminate(instance.instance_id)
        kinds = [type(event).__name__ async for event in observation]
        assert kinds == ["AgentErrorEvent", "AgentRestartingEvent"]
        assert stage.spawner.metrics.snapshot().counters["lifecycle.restarts.count"] == 1
        assert (await stage.spawner.get_statistics()).total_restarts == 1


@pytest.mark.parametrize(
    ("failures", "starts", "reason"),
    [
        (5, 2, "max_retries of 2 reached"),
        (2, 1, "crash loop: 2 failures within 600 s; fix the agent, then spawn it again"),
    ],
)
async def test_restarts_end_with_their_reason(
    tmp_path: Path, failures: int, starts: int, reason: str
) -> None:
    async with staged(tmp_path, crash_loop=CrashLoop(failures)) as stage:
        instance = await stage.spawner.spawn(
            stage.request_for(stage.shell("exit 1"), {"restart_policy": AT_ONCE})
        )
        await until(lambda: stage.told.of("agent_terminated"))

        failed = await stage.now(instance.instance_id)
        assert failed.state is S.FAILED
        assert failed.error_message == f"exit code 1; not restarted: {reason}"
        assert stage.states_told().count("initializing") == starts


async def test_a_restart_waits_for_its_delay_and_is_called_off_by_termination(
    tmp_path: Path,
) -> None:
    clock = SteppedClock()
    async with staged(tmp_path, clock=clock, chance=lambda: 1.0) as stage:
        instance = await stage.spawner.spawn(
            stage.request_for(
                stage.shell("exit 1"), {"restart_policy": RestartPolicy(initial_delay=20)}
            )
        )
        await stage.until_state(instance.instance_id, S.FAILED)
        clock.advance(49.9)
        await asyncio.sleep(0.02)
        assert (await stage.now(instance.instance_id)).restart_count == 0
        clock.advance(0.2)
        await until(lambda: len(stage.told.of("agent_crashed")) == 2)
        await stage.until_state(instance.instance_id, S.FAILED)

        result = await stage.spawner.terminate(instance.instance_id)
        clock.advance(1000)

        assert result.success
        assert (await stage.now(instance.instance_id)).state is S.TERMINATED
        assert stage.terminals.live() == ()


async def test_as_many_restarts_are_made_as_were_asked_for(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        policy = {"type": "immediate", "max_retries": 10}
        instance = await stage.spawner.spawn(
            stage.request_for(stage.shell("exit 1"), {"restart_policy": policy})
        )
        observation = stage.spawner.observe(instance.instance_id)
        errors = [event async for event in observation if isinstance(event, AgentErrorEvent)]

        assert stage.spawner.metrics.snapshot().counters["lifecycle.restarts.count"] == 10
        failed = await stage.now(instance.instance_id)
        assert failed.error_message == "exit code 1; not restarted: max_retries of 10 reached"
        assert len(stage.told.of("agent_crashed")) == 11
        # All that were seen but the last are followed by a restart.
        assert [each.is_recoverable for each in errors] == [True] * (len(errors) - 1) + [False]
        assert len(errors) > 1


async def test_a_restart_finds_its_place_taken(tmp_path: Path) -> None:
    clock = SteppedClock()
    async with staged(tmp_path, clock=clock, tier="teams") as stage:
        instance = await stage.spawner.spawn(
            stage.request_for(stage.shell("exit 1"), {"restart_policy": {"type": "linear"}})
        )
        await stage.until_state(instance.instance_id, S.FAILED)
        for _ in range(20):
            await stage.spawner.spawn(stage.request({"isolation_level": "none"}))

        clock.advance(2)
        await until(lambda: stage.told.of("agent_terminated"))

        failed = await stage.now(instance.instance_id)
        assert failed.state is S.FAILED
        assert "no room for a restart" in (failed.error_message or "")


async def test_an_unhealthy_instance_is_started_again_if_that_is_asked_for(
    tmp_path: Path,
) -> None:
    asked = 0

    async def sick(instance: AgentInstance) -> str:
        nonlocal asked
        asked += 1
        return "" if instance.restart_count else "too hot"

    async with staged(tmp_path, sample_interval=0.02) as stage:
        runs = CommandAgent(command=("/bin/sleep", "600"))
        hot = AgentDefinition(name="hot", runs=runs, checks={"heat": sick})
        stage.spawner.registry.register(hot)
        instance = await stage.spawner.spawn(
            stage.request_for(
                hot,
                {
                    "health_check": {"check": "heat", "interval": 1, "unhealthy_threshold": 1,
                                     "restart_when_unhealthy": True},
                    "restart_policy": AT_ONCE,
                },
            )
        )  # fmt: skip

        async def well_again() -> bool:
            found = await stage.now(instance.instance_id)
            return found.health.state is HealthState.HEALTHY

        await until(well_again)

        assert asked >= 2
        crashed = stage.told.of("agent_crashed")
        assert [each["error"] for each in crashed] == ["unhealthy: too hot"]
        assert not alive(instance.details["pid"])
        # Healthy again: the policy begins anew.
        assert (await stage.now(instance.instance_id)).restart_count == 0


@pytest.mark.parametrize("policy", [AT_ONCE, None])
async def test_a_termination_while_a_failure_is_handled_is_all_that_is_told(
    tmp_path: Path, policy: dict[str, Any] | None
) -> None:
    # The clock stands still, so that what is left of the agent takes its time to shut down.
    async with staged(tmp_path, clock=SteppedClock()) as stage:
        options = {"restart_policy": policy}
        instance = await stage.spawner.spawn(stage.request(options, hangs="shut_down"))
        with pytest.raises(RuntimeError):
            await stage.spawner.process(instance, "crash")
        await until(lambda: stage.told.of("agent_crashed"))

        result = await stage.spawner.terminate(instance, TerminationOptions.IMMEDIATE)

        assert result.success
        await stage.spawner.aclose()
        told = await stage.spawner.get_events(instance)
        ends = [each for each in told if each.event_type == "AgentTerminatedEvent"]
        assert [json.loads(each.event_data_json)["final_state"] for each in ends] == ["terminated"]
        assert "AgentRestartingEvent" not in [each.event_type for each in told]
