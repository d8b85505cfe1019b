"""An agent resolves what does not go together, where it finds the merge begun."""

from __future__ import annotations

import asyncio
import time

from lifecycle.machine import events as on
from lifecycle.machine.states import About, Accepted, AwaitingHuman, BackingOff, Completed
from lifecycle.result import LoopResultType
from tests.lifecycle.world import AGENT, DONE, PATIENCE, Step, World, commit, git

FINISH: list[Step] = [
    {"run": ["sh", "-c", "grep -q '<<<<<<<' a.txt && git rev-parse -q --verify MERGE_HEAD"]},
    {"write": {"path": "a.txt", "text": "both\n"}},
    {"commit": "both"},
    DONE,
]


async def _accept(world: World, agent_id: str = AGENT) -> None:
    async with world.loop().opened() as engine:
        at = time.time()  # noqa: TID251  # people have clocks
        await engine.ask(agent_id, on.AcceptRequested(at=at, by="Ada"))


def _meanwhile(world: World, text: str) -> None:
    (world.repo / "a.txt").write_text(text)
    git(world.repo, "commit", "-qam", "meanwhile")


async def test_a_conflict_at_accept_goes_to_an_agent_and_then_waits_for_a_new_decision(
    world: World,
) -> None:
    script = {1: [*commit("a.txt", "the agent's\n"), DONE], 2: FINISH}
    await world.run(script)
    accepted = world.git("rev-parse", f"agent/{AGENT}")
    _meanwhile(world, "the user's\n")
    before = world.git("rev-parse", "main")
    await _accept(world)
    assert isinstance(await world.work(), BackingOff)
    result = await world.run(script)
    assert (result.result_type, result.retry_count) == (LoopResultType.TASK_COMPLETE, 0)
    for words in ("These files hold markers", "- `a.txt`", "`meanwhile`", "`add a.txt`"):
        assert words in world.prompt(2)
    work = await world.work()
    assert isinstance(work, Completed)
    assert work.resolves == accepted
    assert world.git("rev-parse", "main") == before
    await _accept(world)
    assert isinstance(await world.work(), Accepted)
    assert (world.repo / "a.txt").read_text() == "both\n"


async def test_markers_that_are_left_are_told_and_the_next_attempt_goes_on_with_the_merge(
    world: World,
) -> None:
    script = {1: [*commit("a.txt", "the agent's\n"), DONE], 2: [DONE], 3: FINISH}
    await world.run(script)
    _meanwhile(world, "the user's\n")
    await _accept(world)
    result = await world.run(script)
    assert (result.result_type, result.retry_count) == (LoopResultType.TASK_COMPLETE, 1)
    assert "these files are not committed: a.txt" in world.prompt(3)
    assert "is in progress in your workspace" in world.prompt(3)


async def test_dependencies_in_conflict_wait_for_a_person_where_one_is_asked_and_else_are_joined(
    world: World,
) -> None:
    world.settings["on_conflict"] = "ask"
    for name in ("T001", "T002"):
        agent = world.agent([*commit("a.txt", f"{name}\n"), DONE], f"agent-{name}")
        await world.loop().run_agent_loop(agent, world.task(name))
    on_both = world.task("T003", dependencies=["T001", "T002"])
    run = world.loop().run_agent_loop(world.agent(FINISH, "agent-T003"), on_both)
    result = await asyncio.wait_for(run, PATIENCE)
    assert result.result_type is LoopResultType.BLOCKED
    work = (await world.record("agent-T003")).work
    assert isinstance(work, AwaitingHuman)
    assert work.about is About.CONFLICT
    assert "both changed a.txt" in work.text
    world.settings["on_conflict"] = "agent"
    again = world.loop().run_agent_loop(world.agent(FINISH, "agent-T003"), on_both)
    result = await asyncio.wait_for(again, PATIENCE)
    assert (result.result_type, result.spawn_count) == (LoopResultType.TASK_COMPLETE, 1)
    for name in ("T001", "T002"):
        git(world.repo, "merge-base", "--is-ancestor", f"agent/agent-{name}", "agent/agent-T003")
