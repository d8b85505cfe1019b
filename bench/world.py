"""What the measuring scripts work with: repositories, loops built as a user builds them."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shutil
import subprocess
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from bench.agent import build
from bench.plain_folder import FolderWorkspaces
from lifecycle.errors import LifecycleError
from lifecycle.loop import AgentLifecycleLoop
from lifecycle.plan import Agent, Plan, Task
from lifecycle.settings import Settings
from lifecycle.working_copy import facts_of
from runtime.branches import BranchManager
from runtime.process import TerminalManager
from runtime.workspace import WorkspaceManager

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from bench.agent import BenchAgent
    from ci.interface import CIProvider
    from lifecycle.machine.states import State
    from lifecycle.reporting import Observer
    from lifecycle.result import LoopResult

DIRECTORIES_PER = 20
AT_ONCE = 500
"""Records that are written at the same time."""


class World:
    """A temporary folder with an agent program and as many repositories as are asked for."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.agent: BenchAgent = build(root)
        self.terminals = TerminalManager(root)
        self._made = 0

    @property
    def note(self) -> str:
        """Say what weakens the figures."""
        return "" if self.agent.compiled else "no C compiler: the agent is a slow Python script"

    def fresh(self, name: str) -> Path:
        """Return a path that nothing was at yet."""
        self._made += 1
        return self.root / f"{name}-{self._made}"

    def folder(self) -> Path:
        """Return an empty folder."""
        made = self.fresh("folder")
        made.mkdir()
        return made

    def repository(self, files: int) -> Path:
        """Return a repository with one commit of so many small files."""
        repo = self.fresh("repo")
        repo.mkdir()
        for number in range(files):
            place = repo / f"d{number // DIRECTORIES_PER}"
            place.mkdir(exist_ok=True)
            (place / f"f{number}.txt").write_text(f"{number}\n" * 10)
        git(repo, "init", "-q", "-b", "main")
        git(repo, "add", ".")
        git(repo, "commit", "-qm", "first")
        return repo

    def loop(
        self,
        repo: Path,
        *,
        with_git: bool,
        settings: Settings,
        ci: CIProvider | None = None,
        observers: tuple[Observer, ...] = (),
    ) -> AgentLifecycleLoop:
        """Build a loop as a user does."""
        return AgentLifecycleLoop(
            repo_dir=repo,
            plan=Plan(tasks=()),
            ci_provider=ci,
            terminal_manager=self.terminals,
            branch_manager=BranchManager(repo),
            workspace_manager=WorkspaceManager(repo) if with_git else FolderWorkspaces(repo),
            settings=settings,
            observers=observers,
        )

    async def park(
        self,
        loop: AgentLifecycleLoop,
        names: list[str],
        waits: Callable[[State | None], bool],
        **word: object,
    ) -> list[asyncio.Task[LoopResult]]:
        """Start loops whose agents say a word at once; return when all of them wait."""
        tasks = []
        for name in names:
            command = self.agent.says(self.fresh("stamps"), said(name, **word))
            running = loop.run_agent_loop(agent_of(name, command), task_of(name))
            tasks.append(asyncio.create_task(running))
        agents = {f"agent-{name}" for name in names}
        while agents:
            await asyncio.sleep(0.05)
            with suppress(LifecycleError):  # it has not opened yet
                running_now = loop.engine.running().items()
                agents -= {agent for agent, case in running_now if waits(case.record.work)}
            if failed := [task for task in tasks if task.done()]:
                raise RuntimeError(f"a loop ended instead of waiting: {failed[0].result()}")
        return tasks


def task_of(name: str) -> Task:
    """Return a task as people write them."""
    return Task(id=name, title=f"Task {name}", description="Make it work.\n" * 5)


def agent_of(name: str, command: tuple[str, ...]) -> Agent:
    """Return the agent of a task."""
    return Agent(agent_id=f"agent-{name}", command=command)


def said(name: str, **word: object) -> str:
    """Return the communications.json in which the agent of a task says a word."""
    spoken = {"task_id": name, "summary": "as asked", **word}
    return json.dumps({f"agent-{name}": {"lifecycle_state": word["type"], "breakpoint": spoken}})


async def fill(one: Callable[[int], Awaitable[object]], count: int) -> None:
    """Write so many of something, by their numbers."""
    for first in range(0, count, AT_ONCE):
        await asyncio.gather(*map(one, range(first, min(first + AT_ONCE, count))))


def facts_like(name: str) -> dict[str, object]:
    """Return what a real record keeps about its task and agent."""
    return facts_of(task_of(name), agent_of(name, ("claude", "-p")))


def patient(**changes: object) -> Settings:
    """Return settings under which only retries end a loop."""
    base: dict[str, object] = {
        "max_retries": 100_000,
        "max_attempts": 1_000_000,
        "stuck_limit": 1_000_000,
        "retry_interval": 0.0,
        "baseline": False,
        "stop_grace": 5.0,
        "max_live_agents": 1,
    }
    return Settings.model_validate({**base, **changes})


def git(repo: Path, *args: str) -> str:
    """Run the user's git."""
    identity = ("-c", "user.name=Bench", "-c", "user.email=bench@example.org")
    done = subprocess.run(
        ["git", *identity, *args], cwd=repo, check=True, capture_output=True, text=True
    )
    return done.stdout


@contextmanager
def world() -> Iterator[World]:
    """Return a world that is gone afterwards."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 20_000)), hard))
    root = Path(tempfile.mkdtemp(prefix="loopwright-bench-"))
    before = os.environ.get("XDG_STATE_HOME", "")
    os.environ["XDG_STATE_HOME"] = str(root / "state")
    try:
        yield World(root)
    finally:
        os.environ["XDG_STATE_HOME"] = before
        shutil.rmtree(root, ignore_errors=True)
