"""Runners in processes of their own, to be killed."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from lifecycle.errors import LifecycleError
from lifecycle.store.plain_queries import read_rows
from tests.lifecycle.world import ROOT, Step, World, until
from tests.runtime.processes.watchdog.watchdogs import kill_with_watchdogs

if TYPE_CHECKING:
    from lifecycle.plan import Agent

RUNNER = """
import asyncio, os, sys
from pathlib import Path
from lifecycle.loop import AgentLifecycleLoop
from lifecycle.plan import Agent, Plan, Task
from lifecycle.settings import Settings
from runtime.branches import BranchManager
from runtime.process import TerminalManager
from runtime.workspace import WorkspaceManager
repo, agent, count = Path(sys.argv[1]), Agent.model_validate_json(sys.argv[2]), int(sys.argv[4])
tasks = [Task(id=f"T{n:03}", title="Calculator") for n in range(1, count + 1)]
loop = AgentLifecycleLoop(
    repo_dir=repo, plan=Plan(tasks=tasks), ci_provider=None, branch_manager=BranchManager(repo),
    terminal_manager=TerminalManager(repo), workspace_manager=WorkspaceManager(repo),
    settings=Settings.model_validate_json(sys.argv[3]),
)
async def main():
    async def one(task):
        name = f"agent-{task.id}"
        await loop.run_agent_loop(agent.model_copy(update={"agent_id": name}), task)
    def dies():
        word = sys.stdin.readline()
        taken = [b"x" * (1 << 20) for _ in iter(int, 1)] if word == "exhaust\\n" else []
        if word:
            os.abort()
    asyncio.create_task(asyncio.to_thread(dies))
    await asyncio.gather(*map(one, tasks))
asyncio.run(main())
"""
"""Runs an agent for each of so many tasks; ends as a line on its standard input says."""


def started(world: World, agent: Agent, count: int = 1) -> subprocess.Popen[bytes]:
    """Start a runner with so many agents, `agent-T001` and so on."""
    words = (
        str(world.repo),
        agent.model_dump_json(),
        world.read_settings().model_dump_json(),
        str(count),
    )
    return subprocess.Popen(
        [sys.executable, "-c", RUNNER, *words],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
    )


def working(world: World) -> int:
    """Return how many agents are on record as working."""
    with contextlib.suppress(LifecycleError):
        if world.paths.database.exists():
            return sum(row["work_kind"] == "Working" for row in read_rows(world.paths.database))
    return 0


async def killed(world: World, steps: list[Step], sign: str) -> None:
    """Let a runner start an agent, then kill it and its watchdog once the agent has acted."""
    with started(world, world.agent(steps)) as runner:
        await until((world.workspace / sign).exists)
        # What the runner knows of a process that it has only just started is another story.
        await until(lambda: working(world))
        kill_with_watchdogs(runner.pid)
