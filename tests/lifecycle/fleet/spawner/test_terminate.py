# ruff: noqa: ASYNC240  # nothing else runs in the loops of these tests
"""How an instance is terminated: gracefully, by force, and what is kept of it."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from lifecycle.clock import SteppedClock
from lifecycle.fleet.api.authorization import RoleAuthorizer
from lifecycle.fleet.api.instances import InstanceState
from lifecycle.fleet.api.queries import TerminationOptions
from lifecycle.fleet.api.registry import AgentDefinition, CleanupHook
from lifecycle.fleet.errors import InvalidOperationError
from tests.lifecycle.fleet.spawner_world import Puppet, alive, staged, until, until_done

if TYPE_CHECKING:
    from uuid import UUID

    from lifecycle.fleet.api.authorization import Action, Actor
    from lifecycle.fleet.api.instances import AgentInstance

S = InstanceState


async def test_a_failed_instance_can_be_terminated_once(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        instance = await stage.spawner.spawn(stage.request())
        with pytest.raises(RuntimeError):
            await stage.spawner.process(instance.instance_id, "crash")
        await until(lambda: stage.told.of("agent_terminated"))

        assert (await stage.spawner.terminate(instance.instance_id)).success
        assert await stage.state(instance.instance_id) is S.TERMINATED
        with pytest.raises(InvalidOperationError, match="already ended"):
            await stage.spawner.terminate(instance.instance_id)


async def test_termination_cancels_outstanding_work(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        instance = await stage.spawner.spawn(stage.request())
        work = asyncio.create_task(stage.spawner.process(instance.instance_id, "hang"))
        await until(lambda: "work hang" in stage.log)

        assert (await stage.spawner.terminate(instance.instance_id)).was_graceful

        with pytest.raises(InvalidOperationError, match="cancelled"):
            await work


async def test_cleanup_hooks_run_each_in_its_own_time(tmp_path: Path) -> None:
    ran: list[str] = []

    async def good(instance: AgentInstance) -> None:
        ran.append(f"good while {instance.state}")

    async def slow(instance: AgentInstance) -> None:
        del instance
        await asyncio.sleep(3600)

    async def bad(instance: AgentInstance) -> None:
        raise OSError(f"no way out of {instance.name}")

    async with staged(tmp_path) as stage:
        tidy = AgentDefinition(
            name="tidy",
            runs=lambda: Puppet(stage.log),
            cleanup=(CleanupHook("slow", slow, timeout=0.02), CleanupHook("bad", bad)),
        )
        stage.spawner.registry.register(tidy)
        instance = await stage.spawner.spawn(stage.request_for(tidy, {"name": "T"}))
        await stage.spawner.add_cleanup_hook(instance.instance_id, CleanupHook("good", good))

        result = await stage.spawner.terminate(instance.instance_id)

        assert result.success
        assert ran == ["good while terminating"]
        assert [problem.split(":")[0] for problem in result.problems] == [
            "cleanup hook 'slow' took longer than 0.02 s",
            "cleanup hook 'bad' failed",
        ]
        assert len(stage.told.of("cleanup_hook_failed")) == 2


async def test_hooks_run_after_the_work_was_cancelled_and_before_the_agent_is_released(
    tmp_path: Path,
) -> None:
    async with staged(tmp_path) as stage:

        async def hook(instance: AgentInstance) -> None:
            stage.log.append(f"hook while {instance.state}")

        class Careful(Puppet):
            async def process(self, work: Any) -> Any:
                try:
                    return await super().process(work)
                except asyncio.CancelledError:
                    self.log.append("work cancelled")
                    raise

        careful = AgentDefinition(
            name="careful",
            runs=lambda: Careful(stage.log),
            cleanup=(CleanupHook("tidy", hook),),
        )
        instance = await stage.spawner.spawn(careful)
        work = asyncio.create_task(stage.spawner.process(instance, "hang"))
        await until(lambda: "work hang" in stage.log)

        result = await stage.spawner.terminate(instance)

        assert result.was_graceful
        assert stage.log[-3:] == ["work cancelled", "hook while terminating", "shut down"]
        with pytest.raises(InvalidOperationError, match="cancelled"):
            await work


async def test_work_that_waits_for_a_slot_does_not_begin_when_termination_frees_one(
    tmp_path: Path,
) -> None:
    async with staged(tmp_path) as stage:
        options = {"resource_limits": {"max_concurrent_tasks": 1}}
        instance = await stage.spawner.spawn(stage.request(options))
        works = [
            asyncio.create_task(stage.spawner.process(instance, f"{name}"))
            for name in ("hang", "next")
        ]
        await until(lambda: "work hang" in stage.log)

        await stage.spawner.terminate(instance)

        refused = await asyncio.gather(*works, return_exceptions=True)
        assert [type(each) for each in refused] == [InvalidOperationError] * 2
        assert "work next" not in stage.log


async def test_a_program_is_at_rest_while_its_hooks_run(tmp_path: Path) -> None:
    seen: list[tuple[bool, str]] = []

    async def look(instance: AgentInstance) -> None:
        seen.append((alive(instance.details["pid"]), instance.state))

    async with staged(tmp_path) as stage:
        instance = await stage.spawner.spawn(stage.request_for(stage.shell("exec sleep 600")))
        await stage.spawner.add_cleanup_hook(instance, CleanupHook("look", look))

        assert (await stage.spawner.terminate(instance)).was_graceful

    assert seen == [(False, "terminating")]


async def hangs(instance: AgentInstance) -> None:
    del instance
    await asyncio.sleep(3600)


async def test_all_hooks_together_have_the_graceful_timeout(tmp_path: Path) -> None:
    clock = SteppedClock()
    async with staged(tmp_path, clock=clock) as stage:
        slow = AgentDefinition(
            name="slow",
            runs=lambda: Puppet(stage.log),
            cleanup=(CleanupHook("one", hangs), CleanupHook("two", hangs)),
        )
        instance = await stage.spawner.spawn(slow)
        ending = asyncio.create_task(
            stage.spawner.terminate(instance, TerminationOptions(graceful_timeout=1))
        )

        result = await until_done(ending, clock)

        assert (result.success, result.was_graceful) == (True, False)
        # The clock is stepped by whole seconds.
        assert result.duration.total_seconds() <= 3
        assert result.problems == ("cleanup hooks still ran when its time was over",)


async def test_an_immediate_termination_waits_for_no_hook_but_runs_all(tmp_path: Path) -> None:
    release, ran = asyncio.Event(), list[str]()

    async def slow(instance: AgentInstance) -> None:
        await release.wait()
        ran.append(instance.state)

    async with staged(tmp_path) as stage:
        instance = await stage.spawner.spawn(stage.request())
        for name in ("one", "two"):
            await stage.spawner.add_cleanup_hook(instance, CleanupHook(name, slow, timeout=60))

        result = await stage.spawner.terminate(instance, TerminationOptions.IMMEDIATE)

        assert (result.success, result.was_graceful, ran) == (True, False, [])
        assert await stage.state(instance.instance_id) is S.TERMINATED
        assert "graceful_shutdown_timeout" not in stage.told.names()
        release.set()
        await until(lambda: len(ran) == 2)


async def test_a_second_call_hurries_one_that_waits_for_its_hooks(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        instance = await stage.spawner.spawn(stage.request())
        await stage.spawner.add_cleanup_hook(instance, CleanupHook("one", hangs, timeout=300))
        patient = asyncio.create_task(
            stage.spawner.terminate(instance, TerminationOptions(graceful_timeout=300))
        )
        await stage.until_state(instance.instance_id, S.TERMINATING)

        hurried = await stage.spawner.terminate(instance, TerminationOptions.IMMEDIATE)

        assert hurried.success
        assert not hurried.was_graceful
        assert await patient == hurried


async def test_without_force_an_end_that_does_not_come_is_a_failure_and_can_be_forced_later(
    tmp_path: Path,
) -> None:
    clock = SteppedClock()
    async with staged(tmp_path, clock=clock) as stage:
        instance = await stage.spawner.spawn(stage.request(hangs="shut_down"))
        ending = asyncio.create_task(
            stage.spawner.terminate(
                instance.instance_id,
                TerminationOptions(graceful_timeout=5, force_if_timeout=False),
            )
        )
        result = await until_done(ending, clock)

        assert not result.success
        assert "force_if_timeout is off" in (result.error_message or "")
        assert await stage.state(instance.instance_id) is S.TERMINATING
        forced = await stage.spawner.terminate(instance.instance_id, TerminationOptions.IMMEDIATE)
        assert forced.success
        assert await stage.state(instance.instance_id) is S.TERMINATED


async def test_the_final_state_is_kept_when_asked_for(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        instance = await stage.spawner.spawn(stage.request(target="x"))
        result = await stage.spawner.terminate(
            instance.instance_id, TerminationOptions(persist_final_state=True)
        )

        assert result.final_instance is not None
        kept = json.loads(Path(result.final_instance.details["final_state"]).read_text())
        assert kept == {"context": {"target": "x"}, "state": {"log": ["made", "initialised"]}}
        before = result.final_instance.updated_at.timestamp() + 1
        assert await stage.spawner.prune(before) == 1
        assert not list(tmp_path.rglob("final_state.json"))
        assert await stage.spawner.get_instance(instance.instance_id) is None


async def test_what_ignores_its_end_is_reported_as_left_behind(tmp_path: Path) -> None:
    deaf_to, release, clock = threading.Event(), threading.Event(), SteppedClock()

    class Deaf(Puppet):
        async def shut_down(self) -> None:
            deaf_to.set()
            release.wait(30)

    async with staged(tmp_path, clock=clock) as stage:
        deaf = AgentDefinition(name="deaf", runs=lambda: Deaf(stage.log))
        stage.spawner.registry.register(deaf)
        instance = await stage.spawner.spawn(stage.request_for(deaf))

        try:
            ending = asyncio.create_task(
                stage.spawner.terminate(
                    instance.instance_id, TerminationOptions(graceful_timeout=1)
                )
            )
            await until(deaf_to.is_set)
            clock.advance(2)
            forced = await ending
        finally:
            release.set()

        assert not forced.was_graceful
        assert any("keeps running until it returns" in each for each in forced.problems)
        assert forced.final_instance is not None
        assert forced.final_instance.details["left_behind"]


async def test_a_closed_spawner_has_ended_all_and_spawns_no_more(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        one = await stage.spawner.spawn(stage.request())
        two = await stage.spawner.spawn(stage.request(hangs="shut_down"))

        await stage.spawner.aclose(grace=0.1)

        for instance in (one, two):
            assert await stage.state(instance.instance_id) is S.TERMINATED
        with pytest.raises(InvalidOperationError, match="closed"):
            await stage.spawner.spawn(stage.request())


async def test_without_force_a_program_is_asked_and_a_second_call_hurries_it(
    tmp_path: Path,
) -> None:
    async with staged(tmp_path) as stage:
        deaf = stage.shell("trap '' TERM; echo deaf; sleep 600", ready_text="deaf")
        instance = await stage.spawner.spawn(stage.request_for(deaf))
        patient = asyncio.create_task(
            stage.spawner.terminate(instance.instance_id, TerminationOptions(graceful_timeout=300))
        )
        await stage.until_state(instance.instance_id, S.TERMINATING)
        assert not patient.done()

        hurried = await stage.spawner.terminate(instance.instance_id, TerminationOptions.IMMEDIATE)

        assert hurried.success
        assert (await patient).success
        assert not hurried.was_graceful
        assert not alive(instance.details["pid"])


async def test_without_force_a_program_that_does_not_end_stays_terminating(tmp_path: Path) -> None:
    clock = SteppedClock()
    async with staged(tmp_path, clock=clock) as stage:
        deaf = stage.shell("trap '' TERM; echo deaf; sleep 600", ready_text="deaf")
        instance = await stage.spawner.spawn(stage.request_for(deaf))
        ending = asyncio.create_task(
            stage.spawner.terminate(
                instance.instance_id,
                TerminationOptions(graceful_timeout=1, force_if_timeout=False),
            )
        )

        result = await until_done(ending, clock)

        assert not result.success
        assert alive(instance.details["pid"])
        assert await stage.state(instance.instance_id) is S.TERMINATING


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


@pytest.mark.parametrize("by_itself", [True, False])
async def test_closing_waits_for_cleanup_hooks_that_run_in_the_background(
    tmp_path: Path, *, by_itself: bool
) -> None:
    ran: list[str] = []

    async def slow(instance: AgentInstance) -> None:
        await asyncio.sleep(0.1)
        ran.append(instance.state)

    async with staged(tmp_path) as stage:
        program = stage.shell("exit 0" if by_itself else "exec sleep 600")
        tidy = replace(
            program, name="tidy", definition_id=uuid4(), cleanup=(CleanupHook("s", slow),)
        )
        instance = await stage.spawner.spawn(tidy)
        if by_itself:
            await stage.until_state(instance.instance_id, S.TERMINATED)
        else:
            await stage.spawner.terminate(instance, TerminationOptions.IMMEDIATE)

        await stage.spawner.aclose(grace=5)

        assert len(ran) == 1
        assert not stage.told.of("cleanup_hook_failed")


async def test_a_hook_that_outlasts_the_closing_is_cut_off_and_reported(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        instance = await stage.spawner.spawn(stage.request())
        for name in ("one", "two"):
            await stage.spawner.add_cleanup_hook(instance, CleanupHook(name, hangs, timeout=60))
        await stage.spawner.terminate(instance, TerminationOptions.IMMEDIATE)

        await stage.spawner.aclose(grace=0.05)

        told = stage.told.of("cleanup_hook_failed")
        assert [each["hook"] for each in told] == ["one", "two"]
        assert "not done when its spawner was closed" in told[0]["reason"]


@pytest.mark.parametrize("tier", ["local", "teams"])
async def test_a_spawn_that_is_under_way_when_its_spawner_is_closed_starts_nothing(
    tmp_path: Path, tier: str
) -> None:
    asked, release = asyncio.Event(), asyncio.Event()

    class Slow(RoleAuthorizer):
        async def refusal(self, actor: Actor, action: Action, owner: UUID | None) -> str:
            asked.set()
            await release.wait()
            return await super().refusal(actor, action, owner)

    async with staged(tmp_path, tier=tier, authorizer=Slow()) as stage:
        program = stage.shell("exec sleep 600")
        spawning = asyncio.create_task(stage.spawner.spawn(program))
        await asked.wait()

        await stage.spawner.aclose(grace=0.1)
        release.set()

        with pytest.raises(InvalidOperationError, match="closed"):
            await spawning
        assert stage.terminals.live() == ()
        assert not (tmp_path / ".loopwright" / "instances").exists()
        assert stage.spawner.metrics.snapshot().gauges["lifecycle.instances.active"] == {"": 0}
