"""A repository whose records a real loop wrote: real agents, real git, real files."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from lifecycle.loop import AgentLifecycleLoop
from lifecycle.plan import Agent, Plan, Task
from lifecycle.settings import Settings
from orchestrator.cli.main import main
from runtime.branches import BranchManager
from runtime.process import TerminalManager
from runtime.workspace import WorkspaceManager

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lifecycle.engine.engine import LocalEngine

DEADLINE = 40.0
HOSTILE = "red \x1b[31m\u202etxt"
"""What an agent may say to fool a terminal."""

STORY: dict[str, dict[str, list[dict[str, Any]]]] = {
    "T001": {
        "1": [{"say": "first"}, {"say": HOSTILE}, {"exit": 3}],
        "2": [
            {"say": "second"},
            {"write": {"path": "draft.txt", "text": "draft\n"}},
            {"breakpoint": {"type": "question", "question": f"Tabs or spaces? {HOSTILE}"}},
        ],
    },
    "T002": {
        "default": [
            {"write": {"path": "done.txt", "text": "done\n"}},
            {"commit": "Do it"},
            {"breakpoint": {"type": "task_complete", "summary": "All is done"}},
        ]
    },
    "T003": {
        "default": [
            {"breakpoint": {"type": "blocked", "blocked_on": "T009", "reason": "needs the API"}}
        ]
    },
    "T005": {"default": [{"say": "no"}, {"exit": 1}]},
}
TASKS = (
    Task(id="T001", title="Ask", tags=("blue",)),
    Task(id="T002", title="Finish", verify=("echo verified; test -f done.txt",)),
    Task(id="T003", title="Wait", tags=("red", "blue")),
    Task(id="T004", title="Follow", dependencies=("T003",)),
    Task(id="T005", title="Fail"),
)
REST = {
    "T001": "AwaitingHuman",
    "T002": "Completed",
    "T003": "Blocked",
    "T004": "Queued",
    "T005": "Rejected",
}
"""Where each lifecycle comes to rest."""
SETTINGS = Settings(max_retries=2, retry_interval=0.01, baseline=False)


def make_repository(folder: Path) -> Path:
    """Make a git repository with one commit."""
    folder.mkdir(parents=True, exist_ok=True)
    for command in (
        ("init", "--quiet", "--initial-branch=main"),
        ("commit", "--quiet", "--allow-empty", "--message=Begin"),
    ):
        subprocess.run(("git", *command), cwd=folder, check=True)
    return folder.resolve()


def loop_of(repo: Path, *, settings: Settings = SETTINGS, **more: Any) -> AgentLifecycleLoop:
    """Return a loop with the real parts; without CI, if none is given."""
    parts = {"plan": Plan(tasks=()), "ci_provider": None, **more}
    return AgentLifecycleLoop(
        repo_dir=repo,
        terminal_manager=TerminalManager(repo),
        branch_manager=BranchManager(repo),
        workspace_manager=WorkspaceManager(repo),
        settings=settings,
        **parts,
    )


def agent_of(
    repo: Path, task_id: str, steps: dict[str, list[dict[str, Any]]] | None = None
) -> Agent:
    """Return the agent that plays these steps, or this task's part of the story."""
    script = repo / ".git" / f"{task_id}.json"
    steps = steps or STORY.get(task_id, {"default": [{"say": "hello"}]})
    script.write_text(json.dumps({"attempts": steps}), "utf-8")
    return Agent(
        agent_id=f"agent-{task_id}",
        command=(sys.executable, "-P", "-m", "runtime.agents.scripted", str(script)),
        env={"API_TOKEN": "sesame-open"},
    )


async def fill(repo: Path) -> None:
    """Run every task until it rests, then shut the loops down."""
    moved = asyncio.Event()
    loop = loop_of(repo, observers=(lambda _: moved.set(),))
    async with loop.opened() as engine:
        runs = [asyncio.create_task(engine.run(agent_of(repo, task.id), task)) for task in TASKS]
        try:
            async with asyncio.timeout(DEADLINE):
                while await _states(engine) != REST:
                    await moved.wait()
                    moved.clear()
        finally:
            await loop.shutdown()
            await asyncio.gather(*runs, return_exceptions=True)


async def _states(engine: LocalEngine) -> dict[str, str]:
    page = await engine.shared.store.list()
    return {record.task_id: type(record.work).__name__ for record in page.records}


def build_filled(folder: Path, home: Path) -> Path:
    """Make and fill a repository, cut off from this machine's git settings."""
    with _cut_off(home):
        repo = make_repository(folder)
        asyncio.run(fill(repo))
    return repo


def build_blank(folder: Path, home: Path) -> Path:
    """Make a repository with one commit, cut off from this machine's git settings."""
    with _cut_off(home):
        return make_repository(folder)


@contextmanager
def _cut_off(home: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in tuple(os.environ):
            if name.startswith(("GIT_", "XDG_", "LOOPWRIGHT_")):
                patch.delenv(name)
        patch.setenv("HOME", str(home))
        patch.setenv("XDG_STATE_HOME", str(home.parent / "state-filled"))
        patch.setenv("GIT_CONFIG_GLOBAL", str(home / ".gitconfig"))
        patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        yield


class Cli:
    """The command line, in this process."""

    def __init__(self, repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.repo, self._capsys = repo, capsys
        self.code, self.out, self.err = 0, "", ""

    def __call__(self, *args: str) -> str:
        """Run a command in the repository; what it prints is returned, and kept beside the code."""
        self.code = main([*args, "--repo", str(self.repo)])
        self.out, self.err = self._capsys.readouterr()
        return self.out

    def bare(self, *args: str) -> str:
        """Run a command as typed."""
        self.code = main(list(args))
        self.out, self.err = self._capsys.readouterr()
        return self.out
