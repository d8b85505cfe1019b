"""Many loops at once: nobody is lost, nobody disturbs another, all share what is limited."""

from __future__ import annotations

import asyncio
import json

from lifecycle.result import LoopResultType
from tests.lifecycle.world import DONE, PATIENCE, World, commit, git, says

LOOPS = 12


async def test_many_real_loops_at_once_lose_no_breakpoint(world: World) -> None:
    world.settings["max_live_agents"] = 4
    shared = world.repo / "communications.json"
    loop = world.loop(comm_file=shared)
    names = [f"T{number:03}" for number in range(LOOPS)]
    script = {1: [*commit("x.txt"), says("blocked", blocked_on=["T000"], summary="waits")],
              2: [*commit("y.txt"), DONE]}  # fmt: skip
    first = {1: [*commit("x.txt"), DONE]}
    runs = [
        loop.run_agent_loop(
            world.agent(script if name != "T000" else first, f"agent-{name}"), world.task(name)
        )
        for name in names
    ]
    results = await asyncio.wait_for(asyncio.gather(*runs), PATIENCE)
    assert {each.result_type for each in results} == {LoopResultType.TASK_COMPLETE}
    assert [each.spawn_count for each in results] == [1, *[2] * (LOOPS - 1)]
    assert {each.retry_count for each in results} == {0}
    for name in names[1:]:
        own = ("--first-parent", "--no-merges", f"main..agent/agent-{name}")
        assert git(world.repo, "log", "--format=%s", *own).split("\n") == ["add y.txt", "add x.txt"]
    assert set(json.loads(shared.read_text())) >= {f"agent-{name}" for name in names}
    assert world.marked() == []
    assert world.git("status", "--porcelain") == ""


async def test_what_a_failed_dependency_ended_is_taken_up_when_it_completes_after_all(
    world: World,
) -> None:
    world.settings["max_retries"] = 1
    loop = world.loop()
    first, second = world.task("T001"), world.task("T002", dependencies=["T001"])
    worker = world.agent([*commit("y.txt"), DONE], "agent-T002")
    revived: list[str] = []
    async with loop.opened() as engine:
        engine.revive = lambda record: revived.append(record.agent_id)
        failed, blocked = await asyncio.gather(
            loop.run_agent_loop(world.agent([{"exit": 1}]), first),
            loop.run_agent_loop(worker, second),
        )
        assert failed.result_type is LoopResultType.MAX_RETRIES
        assert (blocked.result_type, blocked.blocked_on) == (LoopResultType.BLOCKED, ["T001"])
        world.settings["max_retries"] = 5
        fixed = await loop.run_agent_loop(world.agent([*commit("x.txt"), DONE]), first)
        assert fixed.result_type is LoopResultType.TASK_COMPLETE
        assert revived == ["agent-T002"]
        again = await loop.run_agent_loop(worker, second)
    assert again.result_type is LoopResultType.TASK_COMPLETE
