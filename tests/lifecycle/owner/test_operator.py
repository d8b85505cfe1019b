"""What people ask for takes effect on a running loop, and on one that nobody runs."""

from __future__ import annotations

import time
from typing import Any

from lifecycle.machine import events as on
from lifecycle.machine.states import Accepted, BackingOff, Completed, Rejected, Suspended
from lifecycle.result import LoopResultType
from tests.lifecycle.world import AGENT, DONE, HANG, World, commit, git, rests, says, until

UP = {"write": {"path": "up.txt", "text": "u"}}


def _now() -> float:
    return time.time()  # noqa: TID251  # people have clocks


async def _apply(world: World, kind: type[on.PersonEvent], **more: Any) -> None:
    """Ask for something while nobody runs the lifecycle."""
    async with world.loop().opened() as engine:
        await engine.ask(AGENT, kind(at=_now(), by="Ada", **more))


async def test_a_stop_ends_the_agent_saves_its_work_and_holds(world: World) -> None:
    async with world.running([UP, HANG]) as running:
        await running.appears("up.txt")
        await running.at("Working")
        await running.ask(on.StopRequested, pause=True)
        result = await running.result()
    assert result.result_type is LoopResultType.SHUTDOWN
    assert world.marked() == []
    assert world.saved(1) == {"up.txt": "u"}
    assert isinstance(await world.work(), Suspended)
    again = await world.run([{"commit": "all"}, DONE])
    assert (again.result_type, again.retry_count) == (LoopResultType.TASK_COMPLETE, 0)


async def test_a_rejection_while_the_agent_works_ends_both_and_keeps_the_work(
    world: World,
) -> None:
    async with world.running([*commit("x.txt"), UP, HANG]) as running:
        await running.appears("up.txt")
        await running.at("Working")
        await running.ask(on.RejectRequested, why="not wanted")
        result = await running.result()
    assert result.result_type is LoopResultType.ERROR
    assert "rejected by Ada: not wanted" in str(result.error)
    assert world.marked() == []
    assert not world.workspace.exists()
    assert world.saved(1) == {"up.txt": "u"}
    kept = world.git("ls-tree", "--name-only", f"refs/loopwright/saved/{AGENT}/head")
    assert "x.txt" in kept.split()


async def test_a_rejection_does_not_wait_for_gates_that_take_long(world: World) -> None:
    slow = world.task(verify=["sleep 600"])
    async with world.running([*commit("x.txt"), DONE], task=slow, baseline=False) as running:
        await running.at("Verifying")
        await running.ask(on.RejectRequested, why="wrong")
        result = await running.result()
    assert result.error == "rejected by Ada: wrong"
    assert world.marked() == []
    assert not world.workspace.exists()


async def test_a_stop_does_not_wait_for_a_baseline_that_takes_long(world: World) -> None:
    slow = world.task(verify=["sleep 600"])
    async with world.running([*commit("x.txt"), DONE], task=slow) as running:
        await running.at("Preparing")
        await running.ask(on.StopRequested, pause=True)
        result = await running.result()
    assert result.result_type is LoopResultType.SHUTDOWN
    assert world.marked() == []
    again = await world.run([*commit("x.txt"), DONE], baseline=False)
    assert (again.result_type, again.spawn_count) == (LoopResultType.TASK_COMPLETE, 1)


async def test_accepting_merges_into_the_base_and_twice_is_once(world: World) -> None:
    await world.run([*commit("x.txt"), DONE])
    await _apply(world, on.AcceptRequested)
    await _apply(world, on.AcceptRequested)
    record = await world.record()
    assert (record.state, type(record.work)) == ("accepted", Accepted)
    assert (world.repo / "x.txt").read_text() == "x"
    assert world.git("rev-list", "--count", "--merges", "main") == "1"
    assert not world.workspace.exists()
    result = await world.run([{"exit": 1}])
    assert result.result_type is LoopResultType.TASK_COMPLETE


async def test_accepting_a_conflict_is_refused_and_changes_nothing(world: World) -> None:
    world.settings["on_conflict"] = "ask"
    await world.run([*commit("a.txt", "the agent's\n"), DONE])
    (world.repo / "a.txt").write_text("the user's\n")
    git(world.repo, "commit", "-qam", "meanwhile")
    before = world.git("rev-parse", "main"), world.git("rev-parse", f"agent/{AGENT}")
    await _apply(world, on.AcceptRequested)
    work = await world.work()
    assert isinstance(work, Completed)
    assert "a.txt" in work.problem
    assert (world.git("rev-parse", "main"), world.git("rev-parse", f"agent/{AGENT}")) == before
    assert world.git("status", "--porcelain") == ""
    assert world.workspace.exists()
    assert "a.txt" in str((await world.record()).error)


async def test_rejecting_completed_work_twice_is_once_and_keeps_it_reachable(world: World) -> None:
    await world.run([*commit("x.txt"), DONE])
    head = world.git("rev-parse", f"agent/{AGENT}")
    await _apply(world, on.RejectRequested, why="no")
    await _apply(world, on.RejectRequested, why="no")
    assert isinstance(await world.work(), Rejected)
    assert not world.workspace.exists()
    assert world.git("rev-parse", f"refs/loopwright/saved/{AGENT}/head") == head
    assert world.git("log", "--format=%s", "main") == "first"


async def test_what_is_complete_can_be_sent_back_with_guidance(world: World) -> None:
    await world.run([*commit("x.txt"), DONE])
    await _apply(world, on.Guided, text="Also write y.txt.")
    assert isinstance(await world.work(), BackingOff)
    result = await world.run({2: [*commit("y.txt"), DONE]})
    assert (result.result_type, result.spawn_count) == (LoopResultType.TASK_COMPLETE, 2)
    assert "Also write y.txt." in world.prompt(2)


async def test_an_answer_given_while_nobody_runs_is_there_at_the_next_run(world: World) -> None:
    script = {1: [says("question", question="Tabs or spaces?")], 2: [*commit("x.txt"), DONE]}
    async with world.running(script) as running:
        await running.at("AwaitingHuman")
    await _apply(world, on.Answered, text="Spaces.")
    result = await world.run(script)
    assert (result.result_type, result.spawn_count) == (LoopResultType.TASK_COMPLETE, 2)
    assert "Spaces." in world.prompt(2)


async def test_a_freeze_holds_the_agent_and_its_clocks_until_it_is_resumed(world: World) -> None:
    go = world.folder / "go"
    wall = 0.8
    async with world.running([{"wait_file": str(go)}, DONE], wall_limit=wall) as running:
        await running.at("Working")
        pid = running.loop.engine.machine.terminals.live()[0].identity.pid
        await running.ask(on.PauseRequested, now=True)
        await until(lambda: rests(pid))
        go.touch()
        frozen = time.monotonic()
        await until(lambda: time.monotonic() > frozen + 2 * wall)
        assert rests(pid)
        await running.ask(on.ResumeRequested)
        result = await running.result()
    assert (result.result_type, result.retry_count) == (LoopResultType.TASK_COMPLETE, 0)
