# ruff: noqa: ASYNC240  # nothing else runs in the loops of these tests
"""Agents that are programs: what they get, how they end, and that nothing of them is left."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lifecycle.clock import SteppedClock
from lifecycle.errors import StoreError
from lifecycle.fleet.errors import (
    AgentInitializationError,
    InvalidOperationError,
    IsolationUnavailableError,
    SpawnTimeoutError,
)
from lifecycle.fleet.instances import AgentInstance, AgentState, HealthState
from lifecycle.fleet.options import RestartPolicy
from lifecycle.fleet.queries import GetInstancesFilter, ObservationOptions, TerminationOptions
from lifecycle.fleet.registry import AgentDefinition, AgentRegistry, CommandAgent
from lifecycle.fleet.restart import CrashLoop
from lifecycle.fleet.spawner import AgentSpawner
from lifecycle.store import sqlite_file
from lifecycle.store.memory import MemoryStore
from lifecycle.store.sqlite import SqliteStore
from runtime import entry, proctable
from runtime.limits import Limits
from tests.fleet.spawner_world import Stage, staged, until

if TYPE_CHECKING:
    from uuid import UUID

S = AgentState
AT_ONCE = {"type": "immediate", "max_retries": 2}
DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open("daemon", "w").write(f"{os.getpid()}\\n")
        time.sleep(600)
    os._exit(0)
time.sleep(600)
"""


async def now_of(stage: Stage, instance_id: UUID) -> AgentInstance:
    found = await stage.spawner.get_instance(instance_id)
    assert found is not None
    return found


async def until_state(stage: Stage, instance_id: UUID, state: AgentState) -> AgentInstance:
    async def there() -> bool:
        return (await now_of(stage, instance_id)).state is state

    await until(there)
    return await now_of(stage, instance_id)


def alive(pid: int) -> bool:
    row = proctable.read_row(pid)
    return row is not None and not row.dead


async def number_in(file: Path) -> int:
    await until(lambda: file.exists() and file.read_text().endswith("\n"))
    return int(file.read_text())


async def test_a_program_gets_its_prompt_its_context_and_a_folder_of_its_own(
    tmp_path: Path,
) -> None:
    async with staged(tmp_path) as stage:
        echo = stage.shell(
            'cat; echo; cat "$LOOPWRIGHT_CONTEXT_FILE"; echo; pwd; '
            'echo "$LOOPWRIGHT_INSTANCE_ID $EXTRA"',
            env={"EXTRA": "more"},
        )
        instance = await stage.spawner.spawn(
            stage.request_for(echo, Prompt="say hello", depth="deep")
        )
        ended = await until_state(stage, instance.instance_id, S.TERMINATED)

        said = Path(ended.details["log"]).read_text().splitlines()
        assert said[0] == "say hello"
        assert json.loads(said[1]) == {"Prompt": "say hello", "depth": "deep"}
        assert said[2] == ended.details["workspace"]
        assert said[3] == f"{instance.instance_id} more"
        assert not Path(ended.details["workspace"]).exists()
        assert ended.details["exit_code"] == 0


async def test_a_program_works_where_its_context_says(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        place = tmp_path / "place"
        place.mkdir()
        instance = await stage.spawner.spawn(
            stage.request_for(stage.shell("pwd > here"), workspace=str(place))
        )
        await until_state(stage, instance.instance_id, S.TERMINATED)

        assert (place / "here").read_text().strip() == str(place)


async def test_a_program_that_cannot_be_started_leaves_nothing_behind(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        gone = AgentDefinition(name="gone", runs=CommandAgent(command=("/no/such/program",)))
        stage.spawner.registry.register(gone)

        with pytest.raises(AgentInitializationError, match="was not found"):
            await stage.spawner.spawn(stage.request_for(gone))

        assert stage.terminals.live() == ()
        assert list((tmp_path / ".loopwright" / "instances").iterdir()) == []
        assert await stage.spawner.get_active_instances() == ()


async def test_a_program_that_ends_before_it_is_ready_says_why(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        with pytest.raises(AgentInitializationError, match=r"exit code 3.*no licence"):
            await stage.spawner.spawn(
                stage.request_for(stage.shell("echo no licence; exit 3", ready_text="ready"))
            )
        assert list((tmp_path / ".loopwright" / "instances").iterdir()) == []


async def test_a_program_that_does_not_get_ready_in_time_is_ended_with_its_daemon(
    tmp_path: Path,
) -> None:
    async with staged(tmp_path) as stage:
        program = stage.program(DAEMON, ready_text="never", cwd=tmp_path)

        with pytest.raises(SpawnTimeoutError):
            await stage.spawner.spawn(stage.request_for(program, {"initialization_timeout": 1.0}))

        assert not alive(await number_in(tmp_path / "daemon"))
        assert stage.terminals.live() == ()


async def test_termination_ends_a_daemon_that_left_its_group(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        instance = await stage.spawner.spawn(stage.request_for(stage.program(DAEMON, cwd=tmp_path)))
        daemon = await number_in(tmp_path / "daemon")
        assert alive(daemon)

        await stage.spawner.terminate(instance.instance_id)

        assert not alive(daemon)


async def test_a_program_that_fails_is_failed_with_its_last_words(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        instance = await stage.spawner.spawn(
            stage.request_for(stage.shell("echo out of luck >&2; exit 7"))
        )
        failed = await until_state(stage, instance.instance_id, S.FAILED)

        assert failed.error_message == "exit code 7; it said last: out of luck"
        assert failed.details["exit_code"] == 7
        assert failed.terminated_at is not None
        assert stage.told.of("agent_crashed")[0]["error"] == failed.error_message


async def test_a_program_that_is_killed_from_outside_is_failed(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        instance = await stage.spawner.spawn(stage.request_for(stage.shell("sleep 600")))

        os.kill(instance.details["pid"], signal.SIGKILL)

        failed = await until_state(stage, instance.instance_id, S.FAILED)
        assert failed.error_message == "ended by signal 9"


async def test_a_failed_program_is_started_again_with_the_same_id(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        twice = stage.shell("echo x >> runs; test $(wc -l < runs) -ge 2 && exec sleep 600; exit 1",
                            cwd=tmp_path)  # fmt: skip
        instance = await stage.spawner.spawn(stage.request_for(twice, {"restart_policy": AT_ONCE}))
        observation = stage.spawner.observe(
            instance.instance_id, ObservationOptions(include_state_changes=False)
        )

        async def again() -> bool:
            found = await now_of(stage, instance.instance_id)
            return found.restart_count == 1 and found.state is S.READY

        await until(again)

        found = await now_of(stage, instance.instance_id)
        assert found.details["pid"] != instance.details["pid"]
        assert found.error_message is None
        assert found.terminated_at is None
        assert alive(found.details["pid"])
        await stage.spawner.terminate(instance.instance_id)
        kinds = [type(event).__name__ async for event in observation]
        assert kinds == ["AgentErrorEvent", "AgentRestartingEvent"]
        assert stage.spawner.metrics.snapshot().counters["lifecycle.restarts.count"] == 1
        assert (await stage.spawner.get_statistics()).total_restarts == 1


async def test_restarts_end_with_the_last_retry_and_its_reason(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        instance = await stage.spawner.spawn(
            stage.request_for(stage.shell("exit 1"), {"restart_policy": AT_ONCE})
        )
        await until(lambda: stage.told.of("agent_terminated"))

        failed = await now_of(stage, instance.instance_id)
        assert failed.state is S.FAILED
        assert failed.error_message == ("exit code 1; not started again: max_retries of 2 reached")
        changes = [each["to_state"] for each in stage.told.of("agent_state_changed")]
        assert changes.count("initializing") == 2


async def test_a_crash_loop_stops_with_its_reason(tmp_path: Path) -> None:
    rule = CrashLoop(failures=3, within=600.0)
    async with staged(tmp_path, crash_loop=rule) as stage:
        policy = {"type": "immediate", "max_retries": 10}
        instance = await stage.spawner.spawn(
            stage.request_for(stage.shell("exit 1"), {"restart_policy": policy})
        )
        await until(lambda: stage.told.of("agent_terminated"))

        failed = await now_of(stage, instance.instance_id)
        assert "crash loop: 3 failures within 600 s" in (failed.error_message or "")


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
        await until_state(stage, instance.instance_id, S.FAILED)
        clock.advance(24.9)
        await asyncio.sleep(0.02)
        assert (await now_of(stage, instance.instance_id)).restart_count == 0
        clock.advance(0.2)
        await until(lambda: len(stage.told.of("agent_crashed")) == 2)
        await until_state(stage, instance.instance_id, S.FAILED)

        result = await stage.spawner.terminate(instance.instance_id)
        clock.advance(1000)

        assert result.success
        assert (await now_of(stage, instance.instance_id)).state is S.TERMINATED
        assert stage.terminals.live() == ()


async def test_a_restart_finds_its_place_taken(tmp_path: Path) -> None:
    clock = SteppedClock()
    async with staged(tmp_path, clock=clock, tier="teams") as stage:
        instance = await stage.spawner.spawn(
            stage.request_for(stage.shell("exit 1"), {"restart_policy": {"type": "linear"}})
        )
        await until_state(stage, instance.instance_id, S.FAILED)
        for _ in range(20):
            await stage.spawner.spawn(stage.request({"isolation_level": "none"}))

        clock.advance(2)
        await until(lambda: stage.told.of("agent_terminated"))

        failed = await now_of(stage, instance.instance_id)
        assert failed.state is S.FAILED
        assert "no room for a restart" in (failed.error_message or "")


async def test_the_execution_timeout_ends_a_program_and_is_named(tmp_path: Path) -> None:
    clock = SteppedClock()
    async with staged(tmp_path, clock=clock) as stage:
        options = {"resource_limits": {"execution_timeout": 60, "max_memory_mb": 512},
                   "allow_weaker": True}  # fmt: skip
        instance = await stage.spawner.spawn(stage.request_for(stage.shell("sleep 600"), options))
        clock.advance(59)
        assert alive(instance.details["pid"])
        clock.advance(2)

        failed = await until_state(stage, instance.instance_id, S.FAILED)

        assert failed.error_message == "execution timeout 60 s"
        assert failed.details["limit"] == "execution timeout 60 s"


async def test_suspension_freezes_the_tree_and_its_clock(tmp_path: Path) -> None:
    clock = SteppedClock()
    async with staged(tmp_path, clock=clock) as stage:
        count = "n=0; while :; do n=$((n+1)); echo $n > count; sleep 0.005; done"
        program = stage.shell(count, cwd=tmp_path)
        options = {"resource_limits": {"execution_timeout": 60}, "allow_weaker": True}
        instance = await stage.spawner.spawn(stage.request_for(program, options))
        await number_in(tmp_path / "count")

        await stage.spawner.suspend(instance.instance_id)
        before = (tmp_path / "count").read_text()
        clock.advance(1000)
        await asyncio.sleep(0.1)

        assert (tmp_path / "count").read_text() == before
        assert (await now_of(stage, instance.instance_id)).state is S.SUSPENDED
        await stage.spawner.resume(instance.instance_id)
        await until(lambda: (tmp_path / "count").read_text() not in ("", before))
        clock.advance(61)
        failed = await until_state(stage, instance.instance_id, S.FAILED)
        assert failed.error_message is not None
        assert failed.error_message.startswith("execution timeout 60 s")


async def test_a_suspended_program_can_be_terminated_and_a_working_one_suspended(
    tmp_path: Path,
) -> None:
    async with staged(tmp_path, sample_interval=0.02) as stage:
        instance = await stage.spawner.spawn(
            stage.request_for(stage.shell("while :; do echo x; sleep 0.01; done"))
        )
        await until_state(stage, instance.instance_id, S.PROCESSING)

        await stage.spawner.suspend(instance.instance_id)
        assert (await now_of(stage, instance.instance_id)).state is S.SUSPENDED
        result = await stage.spawner.terminate(instance.instance_id)

        assert result.success
        assert not alive(instance.details["pid"])
        with pytest.raises(InvalidOperationError, match=r"is a program|terminated"):
            await stage.spawner.process(instance.instance_id, "work")


async def test_without_force_a_program_is_asked_and_a_second_call_hurries_it(
    tmp_path: Path,
) -> None:
    async with staged(tmp_path) as stage:
        deaf = stage.shell("trap '' TERM; echo deaf; sleep 600", ready_text="deaf")
        instance = await stage.spawner.spawn(stage.request_for(deaf))
        patient = asyncio.create_task(
            stage.spawner.terminate(instance.instance_id, TerminationOptions(graceful_timeout=300))
        )
        await until_state(stage, instance.instance_id, S.TERMINATING)
        assert not patient.done()

        hurried = await stage.spawner.terminate(instance.instance_id, TerminationOptions.IMMEDIATE)

        assert hurried.success
        assert (await patient).success
        assert not hurried.was_graceful
        assert not alive(instance.details["pid"])


async def test_without_force_a_program_that_does_not_end_stays_terminating(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        deaf = stage.shell("trap '' TERM; echo deaf; sleep 600", ready_text="deaf")
        instance = await stage.spawner.spawn(stage.request_for(deaf))

        result = await stage.spawner.terminate(
            instance.instance_id,
            TerminationOptions(graceful_timeout=1, force_if_timeout=False),
        )

        assert not result.success
        assert alive(instance.details["pid"])
        assert (await now_of(stage, instance.instance_id)).state is S.TERMINATING


async def test_the_working_folder_is_kept_when_the_final_state_shall_be(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        instance = await stage.spawner.spawn(
            stage.request_for(stage.shell("echo half > result; echo up; sleep 600",
                                          ready_text="up"), depth=3)
        )  # fmt: skip
        result = await stage.spawner.terminate(
            instance.instance_id, TerminationOptions(persist_final_state=True)
        )

        assert result.final_instance is not None
        kept = Path(result.final_instance.details["final_state"])
        assert (kept / "work" / "result").read_text() == "half\n"
        assert json.loads((kept / "context.json").read_text()) == {"depth": 3}


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
            found = await now_of(stage, instance.instance_id)
            return found.metrics is not None and found.metrics.output_bytes > 100

        await until(measured)
        found = await now_of(stage, instance.instance_id)
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
            return (await now_of(stage, instance.instance_id)).health.state

        async def is_healthy() -> bool:
            return await health() is HealthState.HEALTHY

        await until(is_healthy)
        clock.advance(70)
        await until(lambda: len(stage.told.of("agent_health_changed")) == 2)

        found = await now_of(stage, instance.instance_id)
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

        assert (await now_of(stage, instance.instance_id)).health.state is HealthState.HEALTHY


def _touched(file: Path) -> Path:
    file.touch()
    return file


async def test_a_command_checks_health_and_its_failures_add_up(tmp_path: Path) -> None:
    async with staged(tmp_path, sample_interval=0.02) as stage:
        clock_free = {"command": ["/bin/sh", "-c", "test -e well"], "interval": 1,
                      "unhealthy_threshold": 2}  # fmt: skip
        (tmp_path / "well").touch()
        instance = await stage.spawner.spawn(
            stage.request_for(stage.shell("sleep 600", cwd=tmp_path), {"health_check": clock_free})
        )

        async def healthy() -> bool:
            found = await now_of(stage, instance.instance_id)
            return found.health.state is HealthState.HEALTHY

        await until(healthy)
        (tmp_path / "well").unlink()
        await until(lambda: len(stage.told.of("agent_health_changed")) == 3)

        states = [each["to_health"] for each in stage.told.of("agent_health_changed")]
        assert states == ["healthy", "degraded", "unhealthy"]
        found = await now_of(stage, instance.instance_id)
        assert found.health.details == "/bin/sh: exit code 1"
        assert len(stage.terminals.live()) == 1


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
            found = await now_of(stage, instance.instance_id)
            return found.health.state is HealthState.HEALTHY

        await until(well_again)

        assert asked >= 2
        crashed = stage.told.of("agent_crashed")
        assert [each["error"] for each in crashed] == ["unhealthy: too hot"]
        assert not alive(instance.details["pid"])
        # Healthy again: the policy begins anew.
        assert (await now_of(stage, instance.instance_id)).restart_count == 0


async def test_a_program_needs_terminals(tmp_path: Path) -> None:
    runs = CommandAgent(command=("true",))
    definition = AgentDefinition(name="p", runs=runs)
    async with AgentSpawner(MemoryStore(), AgentRegistry([definition])) as spawner:
        with pytest.raises(IsolationUnavailableError, match="TerminalManager"):
            await spawner.spawn({"agent_definition_id": definition.definition_id})
    del tmp_path


async def test_nothing_lives_whose_record_cannot_be_written(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "state.db")
    async with staged(tmp_path, store=store) as stage:
        sleeper = stage.shell("sleep 600")
        await store.aclose()
        store._reader = sqlite_file.open_reader(tmp_path / "state.db")

        with pytest.raises(StoreError):
            await stage.spawner.spawn(stage.request_for(sleeper))

        assert stage.terminals.live() == ()
        await store.aclose()


async def test_a_store_that_cannot_write_keeps_nobody_from_ending_an_agent(
    tmp_path: Path,
) -> None:
    store = await SqliteStore.open(tmp_path / "state.db")
    async with staged(tmp_path, store=store) as stage:
        instance = await stage.spawner.spawn(stage.request_for(stage.shell("sleep 600")))
        await store.aclose()

        result = await stage.spawner.terminate(instance.instance_id)

        assert result.success
        assert "record could not be written" in result.problems[0]
        assert stage.terminals.live() == ()


async def test_a_limit_that_fires_is_named_in_the_record(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        hog = stage.program("held = [bytearray(1 << 20) for _ in range(400)]")
        options = {"resource_limits": {"max_memory_mb": 64}}
        missing = entry.missing(Limits(memory_mb=64))
        if missing:
            # Where memory cannot be limited that is said, and nothing is started.
            with pytest.raises(IsolationUnavailableError, match="memory"):
                await stage.spawner.spawn(stage.request_for(hog, options))
            return
        instance = await stage.spawner.spawn(stage.request_for(hog, options))

        failed = await until_state(stage, instance.instance_id, S.FAILED)

        assert failed.error_message is not None
        assert failed.error_message.startswith("memory limit 64 MB")
        assert failed.details["limit"] == "memory limit 64 MB"
