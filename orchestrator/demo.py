"""The demonstration: a small repository, a scripted agent with a story, and words around it.

Owns the story. The loop that tells it is the same that any task runs in.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from lifecycle.paths import Paths
from lifecycle.plan import Agent, Task, default_agent_id
from orchestrator.runner.workload import Job, Workload
from orchestrator.terminal.options import UsageError
from orchestrator.terminal.text import say
from runtime.git.git import Git

if TYPE_CHECKING:
    from lifecycle.engine.engine import LocalEngine

TASK_ID = "T001"
SCRIPT = "story.json"
_TESTS = "sh check.sh"
_WHO = ("-c", "user.name=Loopwright demo", "-c", "user.email=demo@localhost")

README = """\
# A calculator

Made by `loopwright demo`. The agent is a script (story.json); everything else is real: processes,
worktree, branch, builds of each commit, pull request, merge, verification.
"""
ADD = '"""A calculator."""\n\n\ndef add(a, b):\n    return a + b\n'
MULTIPLY = "\n\ndef multiply(a, b):\n    return a * b\n"
TEST_ADD = """\
import unittest

import calculator


class Calculator(unittest.TestCase):
    def test_add(self):
        self.assertEqual(calculator.add(2, 3), 5)
"""
TEST_MULTIPLY = """
    def test_multiply(self):
        self.assertEqual(calculator.multiply(2, 3), 6)
"""
USAGE = "\n    >>> from calculator import add, multiply\n    >>> multiply(add(1, 2), 3)\n    9\n"


def prepare(keep: str | None) -> Path:
    """Make the repository with its first commit; returns its folder."""
    if keep is None:
        repo = Path(tempfile.mkdtemp(prefix="loopwright-demo-")).resolve()
    else:
        repo = Path(keep).expanduser().resolve()
        if repo.exists() and (not repo.is_dir() or any(repo.iterdir())):
            raise UsageError(f"{repo} exists and is not empty; give a new folder with --keep")
        repo.mkdir(parents=True, exist_ok=True)
    files = {
        "README.md": README,
        "check.sh": _check(),
        "test_calculator.py": "",
        SCRIPT: json.dumps({"attempts": _story()}, indent=1) + "\n",
        "loopwright.toml": _settings(repo),
    }
    for name, text in files.items():
        (repo / name).write_text(text, "utf-8")
    asyncio.run(_commit(repo))
    return repo


async def work(engine: LocalEngine) -> Workload:
    """Return the one task of the demonstration."""
    command = _agent(engine.machine.repo)
    task = Task(
        id=TASK_ID,
        title="A calculator that adds and multiplies",
        description="Write calculator.py with add and multiply, and tests for both.",
        acceptance=("add and multiply are tested", "the README shows how to use them"),
        verify=(_TESTS,),
    )
    return Workload((Job(Agent(agent_id=default_agent_id(TASK_ID), command=command), task),))


def introduce(repo: Path) -> None:
    """Say what comes."""
    say(f"A fresh repository: {repo}")
    say("One task, and a fresh agent process for each attempt at it:")
    say("  attempt 1  writes code, commits, and waits for CI without a process")
    say("  attempt 2  opens a pull request; local CI checks it, green is merged")
    say("  attempt 3  finishes; its claim is verified on the committed work")
    say()
    sys.stdout.flush()


def explain(repo: Path) -> None:
    """Say where everything is and what to try next."""
    agent, paths, where = default_agent_id(TASK_ID), Paths.of(repo), shlex.quote(str(repo))
    program = _program()
    say()
    say("What is where:")
    say(f"  what attempt 3 was told   {paths.summary(agent, 3)}")
    say(f"  what it printed           {paths.log(agent, 3)}")
    say(f"  history, every decision   {paths.database}")
    say()
    say("Try next:")
    for text, command in (
        ("its state, and which evidence led to it", f"show {agent} --why"),
        ("every fact that was recorded", f"events {agent}"),
        ("the summary that its last attempt began with", f"summary {agent}"),
        ("what the agent printed", f"logs {agent}"),
        ("merge its work into main", f"accept {agent}"),
        ("another task, by the same agent", "run 'Divide too'"),
    ):
        say(f"  {text}")
        say(f"    {program} {command} --repo {where}")
    say()
    leave(repo)


def leave(repo: Path) -> None:
    """Say how to remove it."""
    agents = repo.with_name(_agents(repo))
    folders = " ".join(shlex.quote(str(each)) for each in (repo, agents) if each.exists())
    say(f"The repository stays. Remove it with: rm -rf {folders}")


def _agents(repo: Path) -> str:
    """Name the folder for workspaces: beside the repository, so that it is removed with it."""
    return f"{repo.name}-agents"


def _program() -> str:
    """Return what to type to start this program again; a checkout's own is not on PATH."""
    own = Path(sys.argv[0])
    if shutil.which("loopwright") or own.name != "loopwright" or not own.exists():
        return "loopwright"
    here = own.resolve()
    near = here.relative_to(Path.cwd()) if here.is_relative_to(Path.cwd()) else here
    return shlex.quote(str(near))


def _settings(repo: Path) -> str:
    words = ", ".join(json.dumps(word) for word in _agent(repo))
    return (
        "# Settings of this repository; `loopwright schema settings` lists all.\n"
        f"command = [{words}]\n"
        f"worktrees_dir = {json.dumps(f'../{_agents(repo)}')}\n"
        f'test_command = "{_TESTS} slowly"   # what local CI runs on each commit\n'
        "auto_merge = true   # merge local pull requests once they are green\n"
        "retry_interval = 2\n"
        "stop_grace = 2\n"
    )


def _agent(repo: Path) -> tuple[str, ...]:
    # Without the current folder on its path: a repository may hold a `runtime` of its own.
    return (sys.executable, "-P", "-m", "runtime.agents.scripted", str(repo / SCRIPT))


def _check() -> str:
    # The interpreter that runs us is there; the pause is for those who watch CI work.
    return f'[ "$1" = slowly ] && sleep 1\nexec {shlex.quote(sys.executable)} -B -m unittest -q\n'


def _story() -> dict[str, list[dict[str, object]]]:
    return {
        "1": [
            {"say": "Reading the task: a calculator that adds and multiplies."},
            {"sleep": 0.7},
            {"say": "Writing calculator.py with add, and a test for it."},
            {"write": {"path": "calculator.py", "text": ADD}},
            {"write": {"path": "test_calculator.py", "text": TEST_ADD}},
            {"sleep": 0.7},
            {"commit": "Add numbers"},
            {"breakpoint": {"type": "blocked", "summary": "add is done and committed",
                            "reason": "CI has to be green before I build on it"}},
        ],
        "2": [
            {"say": "CI is green. Adding multiply, and a test for it."},
            {"append": {"path": "calculator.py", "text": MULTIPLY}},
            {"append": {"path": "test_calculator.py", "text": TEST_MULTIPLY}},
            {"sleep": 0.9},
            {"commit": "Multiply numbers"},
            {"say": "Opening a pull request."},
            {"sleep": 0.5},
            {"breakpoint": {"type": "pr_created", "summary": "A calculator: add and multiply"}},
        ],
        "3": [
            {"say": "The pull request is merged. The README still lacks an example."},
            {"append": {"path": "README.md", "text": USAGE}},
            {"sleep": 0.9},
            {"commit": "Show how to use it"},
            {"breakpoint": {"type": "task_complete",
                            "summary": "add and multiply work, are tested and documented"}},
        ],
        "default": [
            {"say": "My story is over; a real agent would follow the guidance now."},
            {"sleep": 0.5},
            {"breakpoint": {"type": "task_complete", "summary": "Nothing more in the script"}},
        ],
    }  # fmt: skip


async def _commit(repo: Path) -> None:
    git = Git()
    await git.run("init", "--quiet", "--initial-branch=main", cwd=repo)
    await git.run("add", "--all", cwd=repo)
    await git.run(*_WHO, "commit", "--quiet", "-m", "An empty calculator", cwd=repo)
