"""Calling again after BLOCKED: what the error says, and the caller's word that ends the block."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from ci.events import CIEvent, CIEventType
from lifecycle.errors import ArgumentError, LifecycleError
from lifecycle.machine.states import AwaitingHuman, Blocked
from lifecycle.result import LoopResultType
from tests.lifecycle.world import AGENT, DONE, PATIENCE, Step, World, commit, says

if TYPE_CHECKING:
    from lifecycle.result import LoopResult

KEY = says("blocked", blocked_on=["the staging key"], reason="only Ada has it")
HOW = "run_agent_loop(agent, task, unblock=True)"
ASIDE: dict[str, dict[str, Any]] = {
    "time-out": {"blocked_timeout": 0.2},
    "nobody stays": {"stay_for_people": False},
}


async def _again(world: World, script: dict[int, list[Step]], **more: Any) -> LoopResult:
    run = world.loop().run_agent_loop(world.agent(script), world.task(), **more)
    return await asyncio.wait_for(run, PATIENCE)


@pytest.mark.parametrize("settings", ASIDE.values(), ids=ASIDE)
async def test_a_callers_word_ends_the_block_and_makes_an_attempt_at_once(
    world: World, settings: dict[str, Any]
) -> None:
    script = {1: [*commit("x.txt"), KEY], 2: [DONE]}
    first = await world.run(script, **settings)
    assert (first.result_type, first.spawn_count) == (LoopResultType.BLOCKED, 1)
    assert isinstance(await world.work(), (AwaitingHuman, Blocked))
    world.settings["blocked_timeout"] = 3600.0
    second = await _again(world, script, unblock="it is in .env")
    assert (second.result_type, second.spawn_count) == (LoopResultType.TASK_COMPLETE, 2)
    assert "`the staging key`: `the caller unblocked it: it is in .env`" in world.prompt(2)
    assert "only Ada has it" in world.prompt(2)
    entries = await world.store.trail.entries()
    assert [each.actor for each in entries if each.action == "unblock"] == ["the caller"]


async def test_the_reason_of_a_block_is_told_beside_what_it_was_blocked_on(world: World) -> None:
    async with world.running({1: [*commit("x.txt"), KEY], 2: [DONE]}) as running:
        await running.at("Blocked")
        await running.loop.notify(CIEvent(type=CIEventType.BUILD_SUCCESS, agent_id=AGENT))
        await running.result()
    for told in (world.prompt(2), world.paths.summary(AGENT, 2).read_text()):
        section = told.split("## Blockers and dependencies")[1].split("\n## ")[0]
        assert "`the staging key`: `an event was handed in" in section
        assert "Attempt 1 gave as its reason" in section
        assert "only Ada has it" in section


@pytest.mark.parametrize("settings", ASIDE.values(), ids=ASIDE)
async def test_without_a_word_the_call_makes_no_attempt_and_says_what_to_type_or_pass(
    world: World, settings: dict[str, Any]
) -> None:
    script = {1: [*commit("x.txt"), KEY], 2: [DONE]}
    first = await world.run(script, **settings)
    again = await _again(world, script)
    for result in (first, again):
        assert (result.result_type, result.spawn_count) == (LoopResultType.BLOCKED, 1)
        assert f"loopwright unblock {AGENT}" in str(result.error)
        assert HOW in str(result.error)


async def test_true_ends_a_wait_for_an_answer_without_a_text(world: World) -> None:
    script = {1: [says("question", question="Which?")], 2: [*commit("x.txt"), DONE]}
    first = await world.run(script, stay_for_people=False)
    assert (first.result_type, HOW in str(first.error)) == (LoopResultType.BLOCKED, True)
    second = await _again(world, script, unblock=True)
    assert (second.result_type, second.spawn_count) == (LoopResultType.TASK_COMPLETE, 2)


async def test_a_block_that_unblock_does_not_end_does_not_name_it(world: World) -> None:
    script = {1: [DONE]}
    result = await world.run(script, review_summaries=True, stay_for_people=False)
    assert result.result_type is LoopResultType.BLOCKED
    assert "summary approve" in str(result.error)
    assert HOW not in str(result.error)


async def test_nothing_to_unblock_is_refused_and_starts_nobody(world: World) -> None:
    with pytest.raises(LifecycleError, match=r"nothing to unblock: .*without unblock="):
        await _again(world, {1: [DONE]}, unblock=True)
    assert await world.store.get(AGENT) is None
    await world.run([*commit("x.txt"), DONE])
    with pytest.raises(LifecycleError, match="nothing to unblock"):
        await _again(world, {2: [DONE]}, unblock="go")
    assert len(await world.attempts()) == 1


async def test_a_word_that_is_no_text_is_refused(world: World) -> None:
    with pytest.raises(ArgumentError, match="unblock is an int; give a str"):
        await _again(world, {1: [DONE]}, unblock=5)


async def test_one_that_runs_is_not_unblocked_by_a_second_call(world: World) -> None:
    async with world.running({1: [*commit("x.txt"), KEY], 2: [DONE]}) as running:
        await running.at("Blocked")
        agent = world.agent([DONE])
        with pytest.raises(LifecycleError, match="is running already in this process"):
            await running.loop.run_agent_loop(agent, world.task(), unblock=True)
        assert isinstance(await world.work(), Blocked)


async def test_the_block_of_another_task_is_not_ended(world: World) -> None:
    await world.run([*commit("x.txt"), KEY], stay_for_people=False)
    run = world.loop().run_agent_loop(world.agent([DONE]), world.task("T002"), unblock=True)
    with pytest.raises(LifecycleError, match="has a record for task T001"):
        await run
    assert isinstance(await world.work(), Blocked)


async def test_a_workspace_that_is_lost_is_made_again_with_what_was_committed(
    world: World,
) -> None:
    script = {1: [*commit("x.txt"), KEY], 2: [{"wait_file": {"path": "x.txt"}}, DONE]}
    await world.run(script, stay_for_people=False)
    shutil.rmtree(world.workspace)
    result = await _again(world, script, unblock=True)
    assert (result.result_type, result.spawn_count) == (LoopResultType.TASK_COMPLETE, 2)
