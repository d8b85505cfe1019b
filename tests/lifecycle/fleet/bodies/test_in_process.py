"""Agents that are Python objects: their limits, their failures, and what cannot be promised."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from lifecycle.clock import SteppedClock
from lifecycle.fleet.api.events import AgentErrorEvent, AgentTerminatedEvent
from lifecycle.fleet.api.instances import InstanceState
from lifecycle.fleet.api.queries import GetInstancesFilter, TerminationOptions
from lifecycle.fleet.api.registry import AgentDefinition
from lifecycle.fleet.errors import (
    AgentInitializationError,
    InvalidOperationError,
    SpawnTimeoutError,
    SpawnValidationError,
    WorkError,
    WorkTimeoutError,
)
from tests.lifecycle.fleet.spawner_world import Puppet, staged, until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from lifecycle.fleet.api.registry import AgentContext

S = InstanceState


@pytest.mark.parametrize("level", ["none", "thread"])
async def test_the_context_reaches_the_agent_in_whatever_case(tmp_path: Path, level: str) -> None:
    seen: list[Any] = []

    class Reader(Puppet):
        async def initialise(self, context: AgentContext) -> None:
            seen.extend((context.get("TARGET"), context.get("none", 5), context.name))
            seen.append(threading.current_thread() is threading.main_thread())

    async with staged(tmp_path) as stage:
        reader = AgentDefinition(name="reader", runs=lambda: Reader(stage.log))
        stage.spawner.registry.register(reader)
        await stage.spawner.spawn(
            stage.request_for(
                reader, {"name": "R", "isolation_level": level}, Target={"path": "/x"}
            )
        )

    assert seen == [{"path": "/x"}, 5, "R", level == "none"]


@pytest.mark.parametrize("level", ["none", "thread"])
async def test_a_failed_initialisation_leaves_nothing_behind_but_its_record(
    tmp_path: Path, level: str
) -> None:
    async with staged(tmp_path, tier="core") as stage:
        threads = threading.active_count()
        with pytest.raises(AgentInitializationError, match="no model to load") as caught:
            await stage.spawner.spawn(stage.request({"isolation_level": level}, fails="initialise"))

        assert caught.value.instance_id is not None
        assert await stage.state(caught.value.instance_id) is S.FAILED
        assert await stage.spawner.get_active_instances() == ()
        await until(lambda: threading.active_count() == threads)
        assert stage.told.of("agent_initialization_failed")
        assert stage.told.audit[-1][3] == "failed"
        for _ in range(2):
            await stage.spawner.spawn(stage.request())


@pytest.mark.parametrize("level", ["none", "thread"])
async def test_an_initialisation_that_takes_too_long_is_a_timeout(
    tmp_path: Path, level: str
) -> None:
    async with staged(tmp_path) as stage:
        options = {"isolation_level": level, "initialization_timeout": 0.05}

        with pytest.raises(SpawnTimeoutError, match=r"not ready within 0.05 s") as caught:
            await stage.spawner.spawn(stage.request(options, hangs="initialise"))

        assert isinstance(caught.value, TimeoutError)
        assert await stage.spawner.get_active_instances() == ()


async def test_a_cancelled_spawn_leaves_nothing_behind(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        spawning = asyncio.create_task(stage.spawner.spawn(stage.request(hangs="initialise")))
        await until(lambda: stage.log)

        spawning.cancel()
        with pytest.raises(asyncio.CancelledError):
            await spawning

        assert await stage.spawner.get_active_instances() == ()


async def test_an_instance_can_be_terminated_while_it_gets_ready(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        spawning = asyncio.create_task(stage.spawner.spawn(stage.request(hangs="initialise")))
        await until(lambda: stage.log)
        (instance,) = await stage.spawner.get_active_instances()
        assert instance.state is S.INITIALIZING

        result = await stage.spawner.terminate(instance.instance_id)

        assert result.success
        with pytest.raises(AgentInitializationError, match="terminated before it was ready"):
            await spawning
        assert await stage.state(instance.instance_id) is S.TERMINATED


async def test_an_instance_can_be_terminated_while_it_is_started_again(tmp_path: Path) -> None:
    lives = 0

    class Hanging(Puppet):
        async def initialise(self, context: AgentContext) -> None:
            nonlocal lives
            lives += 1
            self.context = context
            if lives > 1:
                await asyncio.sleep(3600)

    async with staged(tmp_path) as stage:
        hanging = AgentDefinition(name="hanging", runs=lambda: Hanging(stage.log))
        stage.spawner.registry.register(hanging)
        instance = await stage.spawner.spawn(
            stage.request_for(hanging, {"restart_policy": {"type": "immediate"}})
        )
        with pytest.raises(RuntimeError):
            await stage.spawner.process(instance.instance_id, "crash")
        await until(lambda: lives == 2)
        assert await stage.state(instance.instance_id) is S.INITIALIZING

        assert (await stage.spawner.terminate(instance.instance_id)).success

        assert await stage.state(instance.instance_id) is S.TERMINATED
        assert stage.states_told()[-3:] == ["initializing", "failed", "terminated"]


async def test_no_more_pieces_of_work_are_under_way_than_may_be(tmp_path: Path) -> None:
    most = 0

    class Counting(Puppet):
        now = 0

        async def process(self, work: Any) -> Any:
            nonlocal most
            Counting.now += 1
            most = max(most, Counting.now)
            await asyncio.sleep(0.01)
            Counting.now -= 1
            return work

    async with staged(tmp_path) as stage:
        counting = AgentDefinition(name="counting", runs=lambda: Counting(stage.log))
        stage.spawner.registry.register(counting)
        instance = await stage.spawner.spawn(
            stage.request_for(counting, {"resource_limits": {"max_concurrent_tasks": 3}})
        )
        came = await asyncio.gather(
            *(stage.spawner.process(instance.instance_id, number) for number in range(9))
        )

        assert came == list(range(9))
        assert most == 3
        assert await stage.state(instance.instance_id) is S.WAITING


async def test_an_agent_gets_no_more_threads_than_it_may_have(tmp_path: Path) -> None:
    seen: set[int] = set()

    class Threading(Puppet):
        async def process(self, work: Any) -> Any:
            def block() -> None:
                seen.add(threading.get_ident())
                time.sleep(0.005)

            assert self.context is not None
            loop = asyncio.get_running_loop()
            own = [loop.run_in_executor(self.context.workers, block) for _ in range(8)]
            await asyncio.gather(*own, *(asyncio.to_thread(block) for _ in range(8)))
            return work

        async def initialise(self, context: AgentContext) -> None:
            self.context = context

    async with staged(tmp_path) as stage:
        busy = AgentDefinition(name="busy", runs=lambda: Threading(stage.log))
        stage.spawner.registry.register(busy)
        instance = await stage.spawner.spawn(
            stage.request_for(busy, {"resource_limits": {"max_worker_threads": 2}})
        )
        await stage.spawner.process(instance.instance_id, "x")

    assert len(seen) == 2


@pytest.mark.parametrize("level", ["none", "thread"])
async def test_work_that_takes_too_long_is_cancelled_and_the_agent_lives_on(
    tmp_path: Path, level: str
) -> None:
    clock = SteppedClock()
    async with staged(tmp_path, clock=clock) as stage:
        options = {"isolation_level": level, "resource_limits": {"execution_timeout": 60}}
        instance = await stage.spawner.spawn(stage.request(options))
        work = asyncio.create_task(stage.spawner.process(instance.instance_id, "hang"))
        await until(lambda: "work hang" in stage.log)

        clock.advance(61)
        with pytest.raises(WorkTimeoutError, match="execution timeout of 60 s"):
            await work

        assert await stage.state(instance.instance_id) is S.WAITING
        assert await stage.spawner.process(instance.instance_id, "two") == "done two"
        ending = asyncio.create_task(stage.spawner.terminate(instance.instance_id))
        assert (await ending).was_graceful


async def test_work_that_an_agent_refuses_does_not_fail_the_agent(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        instance = await stage.spawner.spawn(stage.request())

        with pytest.raises(WorkError, match="cannot be done"):
            await stage.spawner.process(instance.instance_id, "refuse")

        assert await stage.state(instance.instance_id) is S.WAITING


@pytest.mark.parametrize("level", ["none", "thread"])
async def test_an_exception_fails_the_agent_and_cancels_its_other_work(
    tmp_path: Path, level: str
) -> None:
    async with staged(tmp_path) as stage:
        instance = await stage.spawner.spawn(stage.request({"isolation_level": level}))
        observation = stage.spawner.observe(instance.instance_id)
        other = asyncio.create_task(stage.spawner.process(instance.instance_id, "hang"))
        await until(lambda: "work hang" in stage.log)

        with pytest.raises(RuntimeError, match="it fell over"):
            await stage.spawner.process(instance.instance_id, "crash")

        with pytest.raises(InvalidOperationError, match="cancelled"):
            await other
        events = [event async for event in observation]
        error = next(each for each in events if isinstance(each, AgentErrorEvent))
        assert (error.error_message, error.exception_type) == (
            "RuntimeError: it fell over",
            "RuntimeError",
        )
        assert "it fell over" in (error.stack_trace or "")
        assert isinstance(events[-1], AgentTerminatedEvent)
        assert events[-1].final_state is S.FAILED
        assert "shut down" in stage.log
        with pytest.raises(InvalidOperationError, match="spawn it again"):
            await stage.spawner.process(instance.instance_id, "more")
        failed = await stage.spawner.get_instance(instance.instance_id)
        assert failed is not None
        assert failed.error_message == "RuntimeError: it fell over"


async def test_a_suspended_instance_takes_no_work_until_it_is_resumed(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        spawner = stage.spawner
        instance = await spawner.spawn(stage.request())
        with pytest.raises(InvalidOperationError, match="not suspended"):
            await spawner.resume(instance.instance_id)

        await spawner.suspend(instance.instance_id)
        assert await stage.state(instance.instance_id) is S.SUSPENDED
        with pytest.raises(InvalidOperationError, match="cannot take work"):
            await spawner.process(instance.instance_id, "one")
        with pytest.raises(InvalidOperationError, match="cannot be suspended"):
            await spawner.suspend(instance.instance_id)
        await spawner.resume(instance.instance_id)

        assert await stage.state(instance.instance_id) is S.READY
        assert await spawner.process(instance.instance_id, "one") == "done one"
        work = asyncio.create_task(spawner.process(instance.instance_id, "hang"))
        await until(lambda: "work hang" in stage.log)
        with pytest.raises(InvalidOperationError, match="processing and cannot be suspended"):
            await spawner.suspend(instance.instance_id)
        await spawner.terminate(instance.instance_id)
        with pytest.raises(InvalidOperationError):
            await work
        assert [entry[0] for entry in stage.told.audit if entry[3] == "done"] == [
            "spawn", "suspend", "resume", "terminate",
        ]  # fmt: skip


async def test_an_agent_runs_only_at_levels_that_fit_it(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        program = stage.shell("true")
        for definition, level in ((stage.puppet, "process"), (program, "thread")):
            with pytest.raises(
                SpawnValidationError, match=f"cannot run at isolation level {level}"
            ):
                await stage.spawner.spawn(stage.request_for(definition, {"isolation_level": level}))
        for check in ({"check": "deep"}, {"command": ["true"]}):
            with pytest.raises(SpawnValidationError):
                await stage.spawner.spawn(stage.request({"health_check": check}))
        with pytest.raises(SpawnValidationError, match="not valid"):
            await stage.spawner.spawn({"agent_definition_id": "nobody"})
        every = GetInstancesFilter(include_terminated=True)
        assert await stage.spawner.get_active_instances(every) == ()


async def raises() -> Any:
    raise OSError("no state to tell")


async def tells_no_json() -> Any:
    return {1, 2}


async def is_cancelled() -> Any:
    raise asyncio.CancelledError


@pytest.mark.parametrize(
    ("final_state", "told"),
    [
        (raises, "OSError: no state to tell"),
        (tells_no_json, "set is not JSON serializable"),
        (is_cancelled, "cancelled"),
    ],
)
async def test_an_agent_that_cannot_tell_its_final_state_is_terminated_all_the_same(
    tmp_path: Path, final_state: Callable[[], Awaitable[Any]], told: str
) -> None:
    class Silent(Puppet):
        async def final_state(self) -> Any:
            return await final_state()

    async with staged(tmp_path) as stage:
        instance = await stage.spawner.spawn(
            AgentDefinition(name="silent", runs=lambda: Silent(stage.log))
        )

        result = await stage.spawner.terminate(
            instance, TerminationOptions(persist_final_state=True)
        )

        assert result.success
        assert result.final_instance is not None
        problem = result.final_instance.details["final_state_problem"]
        assert told in problem
        assert result.problems == (problem,)
        assert "shut down" in stage.log
