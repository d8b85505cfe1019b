"""Shutdown, and what a new runner makes of what it finds."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time

import pytest

from lifecycle.machine import events as on
from lifecycle.machine.states import BackingOff, Blocked, Working
from lifecycle.result import LoopResultType
from lifecycle.store.sqlite.store import SqliteStore
from runtime import proc_table
from tests.lifecycle.engine.runner_process import killed
from tests.lifecycle.world import (
    AGENT,
    DONE,
    HANG,
    PATIENCE,
    Step,
    World,
    commit,
    says,
    until,
)

DRAFT: Step = {"write": {"path": "draft.txt", "text": "half done"}}
UP: Step = {"write": {"path": "up.txt", "text": "u"}}


async def test_dirty_work_is_saved_at_shutdown_and_told_to_the_next_attempt_with_what_is_committed(
    world: World,
) -> None:
    script = {1: [*commit("feature.txt"), DRAFT, UP, HANG]}
    async with world.running(script) as running:
        await running.appears("up.txt")
        await running.at("Working")
        await running.loop.shutdown()
        result = await running.result()
    assert result.result_type is LoopResultType.SHUTDOWN
    assert world.saved(1) == {"draft.txt": "half done", "up.txt": "u"}
    second = await world.run([{"commit": "all"}, DONE])
    assert second.result_type is LoopResultType.TASK_COMPLETE
    assert (second.spawn_count, second.retry_count) == (2, 0), "it was only interrupted"
    told = world.prompt(1)
    for words in (f"refs/loopwright/saved/{AGENT}/1", "draft.txt", "up.txt", "feature.txt"):
        assert words in told
    assert "Nothing is committed" not in told


async def test_shutdown_while_waiting_keeps_the_wait(world: World) -> None:
    script = {1: [says("blocked", blocked_on=["keys"])], 2: [DONE]}
    async with world.running(script) as running:
        await running.at("Blocked")
        await running.loop.shutdown()
        first = await running.result()
    assert (first.result_type, first.blocked_on) == (LoopResultType.SHUTDOWN, ["keys"])
    before = await world.work()
    async with world.running(script) as running:
        await until(lambda: running.loop._engine and running.loop.engine.owner(AGENT))
        work = await world.work()
        assert isinstance(before, Blocked)
        assert isinstance(work, Blocked)
        assert (work.since, work.until) == (before.since, before.until)
        await running.ask(on.Unblocked)
        second = await running.result()
    assert (second.result_type, second.spawn_count) == (LoopResultType.TASK_COMPLETE, 2)


async def test_shutdown_while_the_loop_is_only_opening_is_heard(world: World) -> None:
    loop = world.loop()
    run = asyncio.create_task(loop.run_agent_loop(world.agent([HANG]), world.task()))
    await asyncio.sleep(0)
    await loop.shutdown()
    result = await asyncio.wait_for(run, PATIENCE)
    assert result.result_type is LoopResultType.SHUTDOWN


async def test_shutdown_of_nothing_and_twice_is_harmless(world: World) -> None:
    loop = world.loop()
    await loop.shutdown()
    async with world.running([HANG]) as running:
        await running.at("Working")
        await asyncio.gather(running.loop.shutdown(), running.loop.shutdown())
        await running.loop.shutdown()
        assert (await running.result()).result_type is LoopResultType.SHUTDOWN


async def test_cancelling_the_run_leaves_no_agent(world: World) -> None:
    async with world.running([UP, HANG]) as running:
        await running.appears("up.txt")
        await running.at("Working")
        running.run.cancel()
        await asyncio.gather(running.run, return_exceptions=True)
        assert world.marked() == []
    assert isinstance(await world.work(), Working)
    result = await world.run([{"commit": "all"}, DONE])
    assert (result.result_type, result.spawn_count) == (LoopResultType.TASK_COMPLETE, 2)


async def test_what_an_agent_left_behind_does_not_lengthen_its_hours(world: World) -> None:
    go = world.folder / "go"
    last: list[Step] = [{"say": "good bye"}, {"exit": 1}]
    await killed(world, [{"daemon": 600}, UP, {"wait_file": str(go)}, *last], "up.txt")
    log = world.paths.log(AGENT, 1)
    go.touch()
    await until(lambda: b"good bye" in log.read_bytes())
    said, later = log.stat().st_mtime, time.monotonic() + 1.0
    await until(lambda: time.monotonic() > later)
    assert world.marked() != [], "the daemon lives on"
    async with await SqliteStore.open(world.paths.database) as store:
        await world.loop(store=store).recover_agents()
        (row,) = await store.attempts(AGENT)
    assert row.ended_at == pytest.approx(said, abs=0.5)
    assert world.marked() == []


async def test_a_breakpoint_written_while_no_runner_lived_counts(world: World) -> None:
    go = world.folder / "go"
    steps = [*commit("x.txt"), UP, {"commit": "up"}, {"wait_file": str(go)}, DONE, HANG]
    await killed(world, steps, "up.txt")
    go.touch()
    mailbox = world.workspace / "communications.json"
    await until(lambda: mailbox.exists() and "task_complete" in mailbox.read_text())
    async with await SqliteStore.open(world.paths.database) as store:
        loop = world.loop(store=store)
        run = loop.run_agent_loop(world.agent([{"exit": 1}]), world.task())
        result = await asyncio.wait_for(run, PATIENCE)
        rows = await store.attempts(AGENT)
    assert (result.result_type, result.spawn_count) == (LoopResultType.TASK_COMPLETE, 1)
    assert [(row.attempt, row.outcome) for row in rows] == [(1, "task_complete")]
    assert world.marked() == []


async def test_recover_agents_brings_the_lost_to_safety_and_starts_nobody(world: World) -> None:
    await killed(world, [{"ignore_term": True}, {"daemon": 600}, DRAFT, UP, HANG], "up.txt")
    assert world.marked() != []
    async with await SqliteStore.open(world.paths.database) as store:
        loop = world.loop(store=store)
        assert await loop.recover_agents() == (AGENT,)
        assert await loop.recover_agents() == ()
        record = await store.get(AGENT)
    assert record is not None
    assert isinstance(record.work, BackingOff)
    assert world.marked() == []
    assert world.saved(1) == {"draft.txt": "half done", "up.txt": "u"}


async def test_processes_of_other_repositories_are_left_alone(world: World) -> None:
    marked = {**os.environ, proc_table.MARK_VARIABLE: "agent-T001.0123abcd.2.0"}
    with subprocess.Popen(["sleep", "600"], env=marked) as stranger:  # noqa: ASYNC220  # as above
        await world.run([*commit("x.txt"), DONE])
        assert stranger.poll() is None
        stranger.kill()


async def test_cleanup_removes_workspace_and_branch_and_keeps_the_work_reachable(
    world: World,
) -> None:
    await world.run([*commit("x.txt"), DONE])
    head = world.git("rev-parse", f"agent/{AGENT}")
    loop = world.loop()
    await loop.cleanup_agent(AGENT)
    await loop.cleanup_agent(AGENT)
    assert not world.workspace.exists()
    assert world.git("for-each-ref", "refs/heads/agent") == ""
    assert world.git("rev-parse", f"refs/loopwright/saved/{AGENT}/head") == head
