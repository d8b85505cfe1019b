"""Shutdown, and what a new runner makes of what it finds."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from lifecycle.errors import LifecycleError
from lifecycle.machine import events as on
from lifecycle.machine.states import BackingOff, Blocked, Working
from lifecycle.result import LoopResultType
from lifecycle.store.peek import read_rows
from lifecycle.store.sqlite import SqliteStore
from runtime import proctable
from tests.lifecycle.world import (
    AGENT,
    DONE,
    HANG,
    PATIENCE,
    ROOT,
    Step,
    World,
    commit,
    says,
    until,
)
from tests.runtime.watchdogs import kill_with_watchdogs

if TYPE_CHECKING:
    from pathlib import Path

DRAFT: Step = {"write": {"path": "draft.txt", "text": "half done"}}
UP: Step = {"write": {"path": "up.txt", "text": "u"}}


async def test_dirty_work_is_saved_at_shutdown_and_told_to_the_next_attempt(world: World) -> None:
    script = {1: [DRAFT, UP, HANG]}
    async with world.running(script) as running:
        await running.appears("up.txt")
        await running.at("Working")
        await running.loop.shutdown()
        result = await running.result()
    assert result.result_type is LoopResultType.SHUTDOWN
    assert world.saved(1) == {"draft.txt": "half done", "up.txt": "u"}
    second = await world.run([{"commit": "all"}, DONE])
    assert second.result_type is LoopResultType.TASK_COMPLETE
    assert f"refs/loopwright/saved/{AGENT}/1" in world.prompt(1)
    assert "draft.txt" in world.prompt(1)


async def test_after_a_restart_the_next_attempt_is_told_what_is_committed_and_what_is_not(
    world: World,
) -> None:
    script = {1: [*commit("feature.txt"), DRAFT, UP, HANG]}
    async with world.running(script) as running:
        await running.appears("up.txt")
        await running.at("Working")
        await running.loop.shutdown()
        await running.result()
    await world.run([{"commit": "all"}, DONE])
    said = world.prompt(1)
    assert "feature.txt" in said
    assert "up.txt" in said
    assert "Nothing is committed" not in said


async def test_an_interrupted_attempt_starts_again_under_its_number_and_costs_nothing(
    world: World,
) -> None:
    async with world.running({1: [*commit("x.txt"), {"exit": 1}], 2: [UP, HANG]}) as running:
        await running.at("Working", times=2)
        await running.appears("up.txt")
        await running.loop.shutdown()
        first = await running.result()
    assert (first.result_type, first.spawn_count, first.retry_count) == (
        LoopResultType.SHUTDOWN, 2, 1,
    )  # fmt: skip
    work = await world.work()
    assert isinstance(work, BackingOff)
    assert work.tally.interruptions == 1
    second = await world.run({2: [{"commit": "rest"}, DONE]})
    assert (second.result_type, second.spawn_count, second.retry_count) == (
        LoopResultType.TASK_COMPLETE, 2, 1,
    )  # fmt: skip


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
    assert (result.result_type, result.spawn_count) == (LoopResultType.TASK_COMPLETE, 1)


RUNNER = """
import asyncio, json, sys
from pathlib import Path
from lifecycle.loop import AgentLifecycleLoop
from lifecycle.plan import Agent, Plan, Task
from lifecycle.settings import Settings
from runtime.branches import BranchManager
from runtime.process import TerminalManager
from runtime.workspace import WorkspaceManager
repo, agent = Path(sys.argv[1]), Agent.model_validate_json(sys.argv[2])
task = Task(id="T001", title="Calculator")
loop = AgentLifecycleLoop(
    repo_dir=repo, plan=Plan(tasks=[task]), ci_provider=None, branch_manager=BranchManager(repo),
    terminal_manager=TerminalManager(repo), workspace_manager=WorkspaceManager(repo),
    settings=Settings.model_validate_json(sys.argv[3]),
)
asyncio.run(loop.run_agent_loop(agent, task))
"""


def _works(database: Path) -> bool:
    """Tell whether the runner has recorded that its agent works."""
    with contextlib.suppress(LifecycleError):
        return database.exists() and any(
            row["work_kind"] == "Working" for row in read_rows(database)
        )
    return False


async def _killed(world: World, steps: list[Step], sign: str, *, watched: bool = False) -> None:
    """Let a runner of its own start an agent, then kill the runner once the agent has acted.

    Its watchdog is killed with it, unless it is `watched`: then what it started is over soon.
    """
    agent = world.agent(steps).model_dump_json()
    words = (str(world.repo), agent, world.read_settings().model_dump_json())
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(  # noqa: ASYNC220  # it only starts it
        [sys.executable, "-c", RUNNER, *words], env=environment
    ) as runner:
        await until((world.workspace / sign).exists)
        # What the runner knows of a process that it has only just started is another story.
        database = world.paths.database
        await until(lambda: _works(database))
        if not watched:
            kill_with_watchdogs(runner.pid)
            return
        runner.send_signal(signal.SIGKILL)
    await until(lambda: world.marked() == [])


@pytest.mark.parametrize("ignores_term", [False, True])
async def test_an_agent_that_outlived_its_runner_is_ended_and_its_dirty_work_saved(
    world: World,
    ignores_term: bool,  # noqa: FBT001  # a parameter
) -> None:
    stubborn: list[Step] = [{"ignore_term": True}] if ignores_term else []
    await _killed(world, [*stubborn, {"daemon": 600}, DRAFT, UP, HANG], "up.txt")
    assert world.marked() != []
    await _goes_on(world)


async def test_dirty_work_of_an_agent_that_ended_with_its_runner_is_saved(world: World) -> None:
    await _killed(world, [{"daemon": 600}, DRAFT, UP, HANG], "up.txt", watched=True)
    await _goes_on(world)


async def _goes_on(world: World) -> None:
    async with await SqliteStore.open(world.paths.database) as store:
        loop = world.loop(store=store)
        run = loop.run_agent_loop(world.agent([{"commit": "all"}, DONE]), world.task())
        result = await asyncio.wait_for(run, PATIENCE)
    assert (result.result_type, result.spawn_count, result.retry_count) == (
        LoopResultType.TASK_COMPLETE, 1, 0,
    )  # fmt: skip
    assert world.marked() == []
    assert world.saved(1) == {"draft.txt": "half done", "up.txt": "u"}


async def test_what_an_agent_left_behind_does_not_lengthen_its_hours(world: World) -> None:
    go = world.folder / "go"
    last: list[Step] = [{"say": "good bye"}, {"exit": 1}]
    await _killed(world, [{"daemon": 600}, UP, {"wait_file": str(go)}, *last], "up.txt")
    log = world.paths.log(AGENT, 1)
    go.touch()
    await until(lambda: b"good bye" in log.read_bytes())
    said, later = log.stat().st_mtime, time.monotonic() + 2.0
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
    await _killed(world, steps, "up.txt")
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
    await _killed(world, [DRAFT, UP, HANG], "up.txt")
    async with await SqliteStore.open(world.paths.database) as store:
        loop = world.loop(store=store)
        await loop.recover_agents()
        record = await store.get(AGENT)
    assert record is not None
    assert isinstance(record.work, BackingOff)
    assert world.marked() == []
    assert world.saved(1) == {"draft.txt": "half done", "up.txt": "u"}


async def test_processes_of_other_repositories_are_left_alone(world: World) -> None:
    marked = {**os.environ, proctable.MARK_VARIABLE: "agent-T001.0123abcd.2.0"}
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
