"""Pauses for turns of the runner: counted in the record, and ended by themselves."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from lifecycle.machine.events import PauseRequested, ResumeRequested, StopRequested
from lifecycle.machine.states import Suspended
from lifecycle.plan import Task
from tests.lifecycle.world import AGENT, DONE, HANG, PATIENCE, commit, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.lifecycle.world import Running, World

NEVER: dict[str, Any] = {"retry_interval": 3600.0, "retry_interval_cap": 3600.0}


def crashes_then(world: World, *then: Any) -> dict[int, list[Any]]:
    """Fail the first attempt once the file `go` is there, then do something else."""
    go = {"wait_file": str(world.folder / "go")}
    return {1: [*commit("x.txt"), go, {"exit": 1}], 0: [*commit("y.txt"), *then]}


async def left(world: World) -> int:
    """Return how many turns the record says are left of the pause."""
    return (await world.work()).tally.pause_turns


async def another(running: Running, name: str) -> None:
    """Let one more attempt get its place and come to its end."""
    world = running.world
    agent = world.agent([*commit(f"{name}.txt"), DONE], name)
    await running.loop.run_agent_loop(agent, Task(id=name, title="T"))


@asynccontextmanager
async def paused(world: World, turns: int) -> AsyncIterator[Running]:
    """Pause a lifecycle whose first attempt has failed meanwhile; no time passes by itself."""
    async with world.running(crashes_then(world, DONE), **NEVER) as running:
        await running.at("Working")
        await running.ask(PauseRequested, turns=turns)
        (world.folder / "go").touch()
        await running.at("Suspended")
        yield running


async def test_a_turn_is_an_attempt_that_gets_its_place_and_pauses_end_after_theirs(
    world: World,
) -> None:
    async with paused(world, 2) as running:
        assert await left(world) == 2
        await another(running, "eve")
        await until(lambda: any(news.event == "TurnPassed" for news in world.news))
        assert await left(world) == 1
        await another(running, "joe")
        await running.at("BackingOff")
        assert await left(world) == 0


async def test_turns_pass_also_when_all_are_paused(world: World) -> None:
    async with world.running(crashes_then(world, DONE)) as running:
        await running.at("Working")
        await running.ask(PauseRequested, turns=3)
        (world.folder / "go").touch()
        result = await running.result()
    assert (result.result_type, result.spawn_count) == ("task_complete", 2)
    entries = await world.store.trail.entries()
    resumed = [each.actor for each in entries if each.action == "resume"]
    assert resumed == ["auto-resume"]


async def test_turns_that_are_left_outlive_the_runner(world: World) -> None:
    async with paused(world, 3) as running:
        await another(running, "eve")
        await until(lambda: any(news.event == "TurnPassed" for news in world.news))
    assert isinstance(await world.work(), Suspended)
    assert await left(world) == 2
    async with world.loop().opened() as engine:
        agent = world.agent(crashes_then(world, DONE))
        run = asyncio.create_task(engine.run(agent, world.task(), resume=False))
        await until(lambda: engine.owner(AGENT))
        for name in ("joe", "jim"):
            await engine.run(world.agent([*commit(name), DONE], name), Task(id=name, title="T"))
        await until(lambda: not isinstance(engine.owner(AGENT).state, Suspended))  # type: ignore[union-attr]
        await engine.shutdown()
        await asyncio.wait_for(run, PATIENCE)
    assert await left(world) == 0


async def test_who_resumes_or_stops_it_takes_its_turns_away(world: World) -> None:
    async with paused(world, 1) as running:
        await running.ask(ResumeRequested)
        await running.at("BackingOff")
        await running.ask(StopRequested, pause=True)
        await running.result()
    assert isinstance(await world.work(), Suspended)
    assert await left(world) == 0


async def test_an_agent_that_hangs_may_be_paused_for_turns_and_works_on(world: World) -> None:
    async with world.running([*commit("x.txt"), HANG]) as running:
        await running.at("Working")
        await running.ask(PauseRequested, turns=1)
        await until(lambda: any(news.event == "TurnPassed" for news in world.news))
        assert world.news[-1].after == "Working"
        assert await left(world) == 0
