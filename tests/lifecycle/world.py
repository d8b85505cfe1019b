"""A real repository, real processes and a real loop with short settings, and eyes to watch them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ci.local.provider import LocalCIProvider
from lifecycle.loop import AgentLifecycleLoop
from lifecycle.paths import Paths
from lifecycle.plan import Agent, Task
from lifecycle.settings import Settings
from lifecycle.store.sqlite.store import SqliteStore
from runtime import proc_table
from runtime.branches import BranchManager
from runtime.process import TerminalManager
from runtime.workspace import WorkspaceManager
from runtime.workspaces.worktrees_dir import default_worktrees_dir
from tests import waiting

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from ci.interface import CIProvider
    from lifecycle.machine.events import Event, PersonEvent
    from lifecycle.machine.states import State
    from lifecycle.record import AgentLifecycle, AttemptRow, JournalEntry
    from lifecycle.reporting import Committed
    from lifecycle.result import LoopResult

ROOT = Path(__file__).resolve().parents[2]
AGENT = "agent-T001"
until, PATIENCE = waiting.until, waiting.PATIENCE
SHORT: Mapping[str, Any] = {
    "retry_interval": 0.05,
    "retry_interval_cap": 0.1,
    "stop_grace": 0.3,
    "breakpoint_check_interval": 0.1,
    "gate_timeout": 20.0,
    "max_retries": 2,
}
Step = dict[str, Any]
DONE: Step = {"breakpoint": {"type": "task_complete", "summary": "all is done"}}
HANG: Step = {"hang": True}


def commit(name: str, text: str = "x") -> list[Step]:
    """Write a file and commit it."""
    return [{"write": {"path": name, "text": text}}, {"commit": f"add {name}"}]


def says(kind: str, **more: Any) -> Step:
    """Signal a breakpoint."""
    return {"breakpoint": {"type": kind, **more}}


def git(folder: Path, *args: str) -> str:
    """Run git as a user would."""
    done = subprocess.run(
        ["git", *args], cwd=folder, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.rstrip("\n")


def rests(pid: int) -> bool:
    """A process that signals stopped has state T; the freezer shows in the way it waits."""
    state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state in "Tt" or "freez" in Path(f"/proc/{pid}/wchan").read_text()


class Ground:
    """One user's repository, what a loop in it is set to, and what it tells."""

    def __init__(
        self, folder: Path, store: SqliteStore, settings: Mapping[str, Any] = SHORT
    ) -> None:
        self.folder = folder
        self.repo = folder / "repo"
        self.paths = Paths.of(self.repo)
        self.store = store
        self.settings = dict(settings)
        """Read anew for each decision."""
        self.news: list[Committed] = []

    def git(self, *args: str) -> str:
        return git(self.repo, *args)

    @property
    def workspace(self) -> Path:
        return default_worktrees_dir(self.repo) / AGENT

    def task(self, task_id: str = "T001", **more: Any) -> Task:
        return Task.model_validate({"id": task_id, "title": "Calculator", **more})

    def read_settings(self) -> Settings:
        return Settings.model_validate(self.settings)

    def loop(
        self,
        *,
        ci: CIProvider | None = None,
        store: SqliteStore | None = None,
        comm_file: Path | None = None,
    ) -> AgentLifecycleLoop:
        return AgentLifecycleLoop(
            repo_dir=self.repo,
            plan=None,
            ci_provider=ci,
            terminal_manager=TerminalManager(self.repo),
            branch_manager=BranchManager(self.repo),
            workspace_manager=WorkspaceManager(self.repo),
            comm_file_path=comm_file,
            store=store or self.store,
            settings=self.read_settings,
            observers=(self._hear,),
        )

    def _hear(self, news: Committed) -> None:
        self.news.append(news)

    async def ask(self, event: type[PersonEvent], **more: Any) -> None:
        """Ask for something as a person does, and wait until it is answered."""
        asked: Event = event(at=time.time(), by="Ada", **more)  # noqa: TID251  # people have clocks
        request = await self.store.ask(AGENT, asked)
        assert await waiting.answered(self.store, request) == ""

    async def record(self, agent_id: str = AGENT) -> AgentLifecycle:
        found = await self.store.get(agent_id)
        assert found is not None
        return found

    async def work(self) -> State:
        work = (await self.record()).work
        assert work is not None
        return work

    async def attempts(self) -> tuple[AttemptRow, ...]:
        return await self.store.attempts(AGENT)


class World(Ground):
    """The loops that scripted agents run in."""

    store: SqliteStore

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, SqliteStore.in_memory())
        self._scripts = 0

    def script(self, attempts: list[Step] | dict[int, list[Step]]) -> Path:
        """Write a script; 0 is any attempt that has none of its own."""
        self._scripts += 1
        path = self.folder / f"script-{self._scripts}.json"
        told: Any = attempts
        if isinstance(attempts, dict):
            named = {str(number or "default"): steps for number, steps in attempts.items()}
            told = {"attempts": named}
        path.write_text(json.dumps(told))
        return path

    def agent(
        self, attempts: list[Step] | dict[int, list[Step]], agent_id: str = AGENT, **env: str
    ) -> Agent:
        command = (sys.executable, "-S", "-P", "-m", "runtime.agents.scripted")
        return Agent(
            agent_id=agent_id,
            command=(*command, str(self.script(attempts))),
            env={"PYTHONPATH": str(ROOT), **env},
        )

    def ci(self, test_command: str | None = "true", **more: Any) -> LocalCIProvider:
        return LocalCIProvider(self.repo, test_command=test_command, **more)

    # --- running ------------------------------------------------------------------------------

    async def run(
        self,
        attempts: list[Step] | dict[int, list[Step]],
        *,
        task: Task | None = None,
        ci: CIProvider | None = None,
        **settings: Any,
    ) -> LoopResult:
        """Run one loop to its end."""
        self.settings.update(settings)
        self.news.clear()
        loop = self.loop(ci=ci)
        run = loop.run_agent_loop(self.agent(attempts), task or self.task())
        return await asyncio.wait_for(run, PATIENCE)

    @contextlib.asynccontextmanager
    async def running(
        self,
        attempts: list[Step] | dict[int, list[Step]],
        *,
        task: Task | None = None,
        ci: CIProvider | None = None,
        agent: Agent | None = None,
        **settings: Any,
    ) -> AsyncIterator[Running]:
        """Let one loop run meanwhile; it is shut down at the end."""
        self.settings.update(settings)
        self.news.clear()
        loop = self.loop(ci=ci)
        who = agent or self.agent(attempts)
        run = asyncio.create_task(loop.run_agent_loop(who, task or self.task()))
        try:
            yield Running(self, loop, run)
        finally:
            await loop.shutdown()
            await asyncio.gather(run, return_exceptions=True)

    # --- looking ------------------------------------------------------------------------------

    async def outcomes(self) -> list[str]:
        return [row.outcome for row in await self.attempts()]

    async def journal(self) -> tuple[JournalEntry, ...]:
        return await self.store.journal(AGENT)

    def passed(self, state: str) -> bool:
        """Tell whether the loop has come to that work state."""
        return any(news.after == state for news in self.news)

    def prompt(self, attempt: int) -> str:
        """Return what the agent of that attempt read on its standard input."""
        return self.paths.prompt(AGENT, attempt).read_text()

    def saved(self, attempt: int) -> dict[str, str]:
        """Return the files kept under the attempt's saved ref."""
        ref = f"refs/loopwright/saved/{AGENT}/{attempt}"
        names = self.git("diff-tree", "-r", "--name-only", "--no-commit-id", f"{ref}^1", ref)
        return {name: self.git("show", f"{ref}:{name}") for name in names.split()}

    def marked(self) -> list[str]:
        """Return the marks of living processes of this world's agents."""
        found = []
        for pid, mark in proc_table.read_marks().items():
            row = proc_table.read_row(pid)
            with contextlib.suppress(OSError):
                where = Path(f"/proc/{pid}/cwd").readlink()
                ours = where.is_relative_to(self.folder) or self.workspace.parent in where.parents
                if row and not row.dead and ours:
                    found.append(mark)
        return found


class Running:
    """A loop that runs, and people who speak to it."""

    def __init__(
        self, world: World, loop: AgentLifecycleLoop, run: asyncio.Task[LoopResult]
    ) -> None:
        self.world, self.loop, self.run = world, loop, run

    async def result(self) -> LoopResult:
        return await asyncio.wait_for(asyncio.shield(self.run), PATIENCE)

    async def at(self, state: str, times: int = 1) -> None:
        """Wait until it has come to that work state so many times."""
        news = self.world.news
        await until(
            lambda: (
                self.run.done()
                or sum(each.after == state and each.before != state for each in news) >= times
            )
        )
        assert not self.run.done(), self.run.result()

    async def appears(self, name: str) -> None:
        """Wait until a file is in the workspace."""
        await until((self.world.workspace / name).exists)

    async def ask(self, event: type[PersonEvent], **more: Any) -> None:
        """Ask for something as a person does, and wait until it is answered."""
        await self.world.ask(event, **more)
