"""A rehearsal for `doctor`: a whole loop in a throw-away copy, with set-up, agent and gates.

Uses the parts that a task uses. Nothing of it is kept, and nothing outside of it is changed.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lifecycle.launch.programs import here
from lifecycle.machine.events import GatesFinished
from lifecycle.plan import Agent, Task, default_agent_id
from lifecycle.reporting import silent
from lifecycle.result import LoopResult, LoopResultType
from orchestrator import wiring
from runtime.code_origin.working_trees import Trees
from runtime.environment import cleared
from runtime.git.git import Git, inspect_repository
from runtime.setup import copies
from runtime.temp_folders import scratch

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from lifecycle.machine.states import Gate
    from lifecycle.reporting import Committed
    from lifecycle.settings import Settings

TASK = "T000"
_LIMIT = 600.0
"""Seconds for the agent's turn."""
_WORDS = (
    "There is nothing to change and nothing to commit. Signal `task_complete` with the summary "
    "READY at once, as described below, and stop."
)
_TAG = "create %(refname) %(objectname)"
_WAITS = frozenset({"BackingOff", "AwaitingHuman", "Blocked", "PrPending", "Suspended"})
_IDENTITY = ("user.name", "user.email")


@dataclass(slots=True)
class Rehearsal:
    """How it went."""

    commit: str
    gates: tuple[Gate, ...] = ()
    seconds: float = 0.0
    result: LoopResult | None = None
    waits: str = ""
    """Why it would have waited; a rehearsal does not."""
    ends: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, news: Committed) -> None:
        """Take note of a decision."""
        if isinstance(news.fact, GatesFinished):
            self.gates = news.fact.gates
        if news.after in _WAITS:
            work = news.record.work
            self.waits = self.waits or str(getattr(work, "why", "") or getattr(work, "text", ""))
            self.ends.set()

    @property
    def problem(self) -> str:
        """Why it did not come to its end; empty if it did."""
        if self.result is None or self.result.result_type is LoopResultType.TASK_COMPLETE:
            return ""
        return self.waits or self.result.error or str(self.result.result_type)


def rehearse(
    repo: Path,
    settings: Settings,
    environ: Mapping[str, str],
    commands: tuple[str, ...],
    agent: Agent | None = None,
) -> Rehearsal:
    """Run set-up and gates on the newest commit, with one turn of an agent between them.

    Without an agent the turn is the bare signal that ends one.
    """
    with scratch("doctor") as folder:
        copy = folder / "repository"
        commit = _copied(repo, copy, settings)
        return asyncio.run(
            _through(
                copy,
                _for_once(repo, settings, str(folder / "workspaces")),
                # As a task of the repository itself, it must not find the user's checkout.
                cleared(environ, Trees(Trees.of(repo).users)).env,
                Rehearsal(commit),
                task=Task(id=TASK, title="Signal at once", description=_WORDS, verify=commands),
                agent=agent or _signalling(),
            )
        )


async def _through(  # noqa: PLR0913  # the last by name
    copy: Path,
    settings: Settings,
    environ: Mapping[str, str],
    made: Rehearsal,
    *,
    task: Task,
    agent: Agent,
) -> Rehearsal:
    loop = wiring.build(
        copy,
        settings=lambda: settings,
        who="loopwright doctor",
        observers=(made.take,),
        report=silent,
        environ=environ,
    )
    clock = asyncio.get_running_loop().time
    began = clock()
    run = asyncio.create_task(loop.run_agent_loop(agent, task))
    waits = asyncio.create_task(made.ends.wait())
    try:
        await asyncio.wait((run, waits), return_when=asyncio.FIRST_COMPLETED)
    finally:
        waits.cancel()
        if not run.done():
            await loop.shutdown()
    made.result = await run
    made.seconds = clock() - began
    return made


def _copied(repo: Path, copy: Path, settings: Settings) -> str:
    """Make a repository of the same commits and tags, and of what `copy` names.

    The objects stay where they are. Returns the newest commit.
    """
    git = Git()
    objects = inspect_repository(repo).common_dir / "objects"
    form = git.run_blocking("rev-parse", "--show-object-format", cwd=repo).text
    commit = git.run_blocking("rev-parse", "HEAD", cwd=repo).text
    made = ("init", "-q", "--template=", "-b", "main", f"--object-format={form}", str(copy))
    git.run_blocking(*made, cwd=copy.parent)
    info = copy / ".git/objects/info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "alternates").write_text(f"{objects}\n", "utf-8")
    tags = git.run_blocking("for-each-ref", f"--format={_TAG}", "refs/tags", cwd=repo).stdout
    git.run_blocking("update-ref", "--stdin", cwd=copy, input=tags)
    for name in _IDENTITY:
        known = git.run_blocking("config", "--get", name, cwd=repo, check=False).text
        if known:
            git.run_blocking("config", name, known, cwd=copy)
    git.run_blocking("reset", "-q", "--hard", commit, cwd=copy)
    copies.copy_in(repo, copies.named(repo, settings.copy, frozenset()), copy)
    return commit


def _for_once(repo: Path, settings: Settings, workspaces: str) -> Settings:
    """Return the settings without what tells others, waits for them, or counts what is used."""
    budgets = [name for name in type(settings).model_fields if "budget_" in name]
    unlimited = dict.fromkeys((each for each in budgets if each != "budget_exempt"), None)
    objects = str(inspect_repository(repo).common_dir / "objects")
    return settings.model_copy(
        update={
            **unlimited,
            "worktrees_dir": workspaces,
            "sandbox_readable": (*_absolute(repo, settings.sandbox_readable), objects),
            "sandbox_writable": _absolute(repo, settings.sandbox_writable),
            "engine": "local",
            "providers": ("local",),
            "test_command": None,
            "notify": (),
            "on_transition": (),
            "baseline": False,
            "canary": "off",
            "review_summaries": False,
            "max_retries": 0,
            "max_attempts": 1,
            "stay_for_people": False,
            "wall_limit": min(settings.wall_limit or _LIMIT, _LIMIT),
        }
    )


def _absolute(repo: Path, paths: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(each if each.startswith(("~/", "/")) else str(repo / each) for each in paths)


def _signalling() -> Agent:
    """Return an agent that does nothing but end its attempt."""
    found = here().command
    program = (found,) if found else (sys.executable, "-P", "-m", "orchestrator.cli.main")
    signal = (*program, "signal", "task_complete", "--summary", "READY")
    return Agent(agent_id=default_agent_id(TASK), command=signal)
