"""Events that the caller hands in: about an agent or its branch, early or in time."""

from __future__ import annotations

import asyncio

import pytest

from ci.events import CIEvent, CIEventType
from lifecycle.errors import ArgumentError
from lifecycle.loop import MOST_EARLY
from lifecycle.machine.events import RejectRequested
from lifecycle.machine.states import Blocked
from lifecycle.result import LoopResultType
from tests.lifecycle.world import AGENT, DONE, PATIENCE, World, commit, says, until

WORKS = [*commit("x.txt"), says("blocked", blocked_on=["the other build"])]
SCRIPT = {1: WORKS, 2: [DONE]}


def built(**about: str) -> CIEvent:
    return CIEvent(type=CIEventType.BUILD_SUCCESS, **about)


async def test_an_event_may_name_the_agent_instead_of_its_branch(world: World) -> None:
    async with world.running(SCRIPT) as running:
        await running.at("Blocked")
        await running.loop.notify(built(agent_id="agent-T009"))
        await running.loop.notify(built(agent_id=AGENT, summary="all good elsewhere"))
        result = await running.result()
    assert (result.result_type, result.spawn_count) == (LoopResultType.TASK_COMPLETE, 2)
    assert "all good elsewhere" in world.prompt(2)


@pytest.mark.parametrize("about", [{"agent_id": AGENT}, {"branch": f"agent/{AGENT}"}])
async def test_an_event_before_anything_runs_is_heard_once_its_lifecycle_waits(
    world: World, about: dict[str, str]
) -> None:
    loop = world.loop()
    await loop.notify(built(agent_id="agent-T009"))
    await loop.notify(built(**about, summary="told early"))
    run = loop.run_agent_loop(world.agent(SCRIPT), world.task())
    result = await asyncio.wait_for(run, PATIENCE)
    assert (result.result_type, result.spawn_count) == (LoopResultType.TASK_COMPLETE, 2)
    assert "told early" in world.prompt(2)


async def test_an_event_between_two_runs_ends_the_block_of_the_first(world: World) -> None:
    async with world.running(SCRIPT) as running:
        await running.at("Blocked")
        await running.loop.shutdown()
        assert (await running.result()).result_type is LoopResultType.SHUTDOWN
        await running.loop.notify(built(agent_id=AGENT))
        again = running.loop.run_agent_loop(world.agent(SCRIPT), world.task())
        result = await asyncio.wait_for(again, PATIENCE)
    assert (result.result_type, result.spawn_count) == (LoopResultType.TASK_COMPLETE, 2)


async def test_an_event_during_an_attempt_is_heard_once_its_lifecycle_waits(world: World) -> None:
    script = {1: [{"wait_file": {"path": "go"}}, *WORKS], 2: [DONE]}
    async with world.running(script) as running:
        await running.at("Working")
        await running.loop.notify(built(agent_id=AGENT, summary="told meanwhile"))
        (world.workspace / "go").touch()
        result = await running.result()
    assert (result.result_type, result.spawn_count) == (LoopResultType.TASK_COMPLETE, 2)
    assert "told meanwhile" in world.prompt(2)


async def test_what_was_told_in_vain_does_not_reach_the_next_lifecycle_of_its_agent(
    world: World,
) -> None:
    world.settings["stay_for_people"] = False
    loop = world.loop()
    await loop.run_agent_loop(world.agent([*commit("x.txt"), DONE]), world.task())
    await loop.notify(built(branch=f"agent/{AGENT}"))
    async with loop.opened() as engine:
        await engine.ask(AGENT, RejectRequested(at=1.0, by="ada"))
    run = loop.run_agent_loop(world.agent(SCRIPT), world.task("T002"))
    result = await asyncio.wait_for(run, PATIENCE)
    assert (result.result_type, result.spawn_count) == (LoopResultType.BLOCKED, 1)


async def test_an_early_event_ends_one_block_only(world: World) -> None:
    script = {1: WORKS, 2: [*commit("y.txt"), says("blocked", blocked_on=["a third"])], 3: [DONE]}
    loop = world.loop()
    await loop.notify(built(agent_id=AGENT))
    world.settings["stay_for_people"] = False
    result = await asyncio.wait_for(
        loop.run_agent_loop(world.agent(script), world.task()), PATIENCE
    )
    assert (result.result_type, result.spawn_count) == (LoopResultType.BLOCKED, 2)


async def test_of_too_many_early_events_the_oldest_are_forgotten(world: World) -> None:
    loop = world.loop()
    await loop.notify(built(agent_id=AGENT))
    for number in range(MOST_EARLY):
        await loop.notify(built(agent_id=f"agent-{number}"))
    run = asyncio.create_task(loop.run_agent_loop(world.agent(SCRIPT), world.task()))
    try:
        await until(lambda: world.passed("Blocked"))
        assert isinstance(await world.work(), Blocked)
    finally:
        await loop.shutdown()
        await asyncio.gather(run, return_exceptions=True)


async def test_an_event_that_names_nobody_is_refused(world: World) -> None:
    with pytest.raises(ArgumentError, match="give agent_id= or branch="):
        await world.loop().notify(built())
    with pytest.raises(ArgumentError, match="event is a str; give a CIEvent"):
        await world.loop().notify("green")  # type: ignore[arg-type]  # on purpose
