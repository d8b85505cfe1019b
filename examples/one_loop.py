"""The loop as a library: one scripted agent, two attempts, in a throw-away repository.

Run it with `python examples/one_loop.py`. It needs git and an installed loopwright, nothing else.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from ci.local import LocalCIProvider
from lifecycle.loop import AgentLifecycleLoop, LoopResultType
from lifecycle.plan import Agent, Plan, Task
from runtime.branches import BranchManager
from runtime.process import TerminalManager
from runtime.workspace import WorkspaceManager

SCRIPT = {
    "attempts": {
        "1": [{"say": "I give up without a word"}, {"exit": {"code": 0}}],
        "default": [
            {"write": {"path": "hello.txt", "text": "hello\n"}},
            {"commit": "Say hello"},
            {"breakpoint": {"type": "task_complete", "summary": "Said hello"}},
        ],
    }
}


def make_repository(folder: Path) -> Path:
    """Make a git repository with one commit."""
    folder.mkdir()
    identity = ("-c", "user.name=Example", "-c", "user.email=example@localhost")
    for command in (
        ("init", "--quiet", "--initial-branch=main"),
        (*identity, "commit", "--quiet", "--allow-empty", "--message=Begin"),
    ):
        subprocess.run(("git", *command), cwd=folder, check=True)
    return folder


async def main(folder: Path) -> int:
    """Run one loop to its end and tell its result."""
    repo = make_repository(folder / "repository")
    script = folder / "script.json"
    script.write_text(json.dumps(SCRIPT), "utf-8")
    task = Task(id="T001", title="Say hello", verify=("test -f hello.txt",))
    agent = Agent(
        agent_id="agent-T001",
        command=(sys.executable, "-P", "-m", "runtime.agents.scripted", str(script)),
    )
    loop = AgentLifecycleLoop(
        repo_dir=repo,
        plan=Plan(tasks=(task,)),
        ci_provider=LocalCIProvider(repo),
        terminal_manager=TerminalManager(repo),
        branch_manager=BranchManager(repo),
        workspace_manager=WorkspaceManager(repo, root=folder / "agents"),
        max_retries=3,
        retry_interval=0.1,
    )
    result = await loop.run_agent_loop(agent, task)
    if result.result_type == LoopResultType.TASK_COMPLETE:
        print(
            f"Task {result.task_id} completed by {result.spawn_count} processes: {result.summary}"
        )
    return 0 if result.result_type == LoopResultType.TASK_COMPLETE else 1


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        sys.exit(asyncio.run(main(Path(place))))
