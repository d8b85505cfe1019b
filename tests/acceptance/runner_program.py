"""Runs the demo story in throw-away repositories: a runner kills itself, another goes to the end.

    python runner_program.py FOLDER PLACE...

A place is a checkpoint's name and its count, as in "before commit of AgentSpawned#2"; "" is the run
without a crash; "+SECONDS" is death by another's hand after that time; "A|B" ends two runners, one
after the other. Each round prints one JSON line. Runners are forked off, so that each is a process
of its own and none has to import anything.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ci.local.provider import LocalCIProvider
from lifecycle.loop import AgentLifecycleLoop
from lifecycle.plan import Agent, Plan, Task
from lifecycle.settings import Settings
from lifecycle.store.sqlite.store import SqliteStore
from runtime import proc_table
from runtime.branches import BranchManager
from runtime.process import TerminalManager
from runtime.workspace import WorkspaceManager
from runtime.workspaces.worktrees_dir import default_worktrees_dir
from tests.warm_templates import compile_templates

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
AGENT = "agent-T001"
LINGER = {"sleep": 30}
SCRIPT = {
    "attempts": {
        "1": [
            {"write": {"path": "x.txt", "text": "x"}},
            {"commit": "x"},
            {"breakpoint": {"type": "blocked", "blocked_on": ["ci"], "summary": "waits for CI"}},
            LINGER,
        ],
        "2": [
            {"write": {"path": "y.txt", "text": "y"}},
            {"commit": "y"},
            {"breakpoint": {"type": "pr_created", "summary": "a pull request"}},
            LINGER,
        ],
        "3": [{"breakpoint": {"type": "task_complete", "summary": "done"}}, LINGER],
    }
}
SETTINGS = Settings.model_validate(
    {"retry_interval": 0.05, "stop_grace": 2.0, "breakpoint_check_interval": 0.2}
)
CI = "sleep 0.1; test -f x.txt"
LONGEST_ROUND = 30.0


class Round:
    """One repository, in which runners die until one of them comes to the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.repo = folder / "repo"
        self.lock = folder / "alone"
        self.outcome = folder / "outcome.json"
        self.places = folder / "places.json"

    def live(self, place: str) -> int:
        """Let a runner live in a process of its own, to the end or to the place; return how."""
        pid = os.fork()
        if pid == 0:
            code = 70
            try:
                asyncio.run(asyncio.wait_for(self._run(place), LONGEST_ROUND))
                code = 0
            finally:
                os._exit(code)
        if place.startswith("+"):
            time.sleep(float(place))
            os.kill(pid, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    async def _run(self, place: str) -> None:
        passed: Counter[str] = Counter()
        names: list[str] = []

        def told(name: str) -> None:
            passed[name] += 1
            names.append(f"{name}#{passed[name]}")
            if names[-1] == place:
                os.kill(os.getpid(), signal.SIGKILL)

        task = Task(id="T001", title="Calculator", verify=("test -f x.txt",))
        command = (sys.executable, "-S", "-P", str(ROOT / "tests/acceptance/lone_agent.py"))
        agent = Agent(
            agent_id=AGENT,
            command=(*command, str(self.folder.parent / "script.json")),
            env={"PYTHONPATH": str(ROOT), "LONE_LOCK": str(self.lock)},
        )
        loop = AgentLifecycleLoop(
            repo_dir=self.repo,
            plan=Plan(tasks=(task,)),
            ci_provider=LocalCIProvider(self.repo, test_command=CI, auto_merge=True),
            terminal_manager=TerminalManager(self.repo),
            branch_manager=BranchManager(self.repo),
            workspace_manager=WorkspaceManager(self.repo),
            settings=SETTINGS,
            checkpoint=told,
        )
        result = await loop.run_agent_loop(agent, task)
        picture = {"result": result.to_json(), **await self._picture()}
        self.places.write_text(json.dumps(names))
        # Whole or not at all: a runner may be killed while it writes this, too.
        fresh = self.outcome.with_suffix(".new")
        fresh.write_text(json.dumps(picture))
        fresh.replace(self.outcome)

    async def _picture(self) -> dict[str, Any]:
        async with await SqliteStore.open(self.repo / ".loopwright" / "state.db") as store:
            record = await store.get(AGENT)
            assert record is not None
            assert record.work is not None
            pulls = await store.all("ci.local.pulls")
            return {
                "work": type(record.work).__name__,
                "state": record.state,
                "error": record.error,
                "summary": record.submission_summary,
                "files": record.changed_files,
                "attempt": record.work.tally.attempt,
                "ledger": [
                    (row.attempt, row.outcome, row.summary) for row in await store.attempts(AGENT)
                ],
                "orders left": len(await store.pending(AGENT)),
                "pull requests": len(pulls),
            }

    def report(self, place: str, codes: list[int], seconds: float) -> dict[str, Any]:
        """Say how it went."""
        violations = Path(f"{self.lock}.violations")
        return {
            "place": place,
            "codes": codes,
            "seconds": round(seconds, 2),
            "outcome": json.loads(self.outcome.read_text()) if self.outcome.exists() else None,
            "places": json.loads(self.places.read_text()) if self.places.exists() else [],
            "doubled": violations.read_text().split() if violations.exists() else [],
            "left alive": [pid for pid in proc_table.read_table().rows if self._is_here(pid)],
        }

    def _is_here(self, pid: int) -> bool:
        """Tell whether the process works in this round's folders, marked or not."""
        try:
            where = Path(f"/proc/{pid}/cwd").readlink()
        except OSError:
            return False
        return any(map(where.is_relative_to, (self.folder, default_worktrees_dir(self.repo))))


def template(folder: Path) -> Path:
    """Make the repository that each round starts with."""
    repo = folder / "template"
    repo.mkdir(parents=True)
    who = ("-c", "user.name=T", "-c", "user.email=t@example.org")
    (repo / "a.txt").write_text("a\n")
    for words in (("init", "-q", "-b", "main"), ("add", "."), (*who, "commit", "-qm", "first")):
        subprocess.run(["git", *words], cwd=repo, check=True, capture_output=True)
    (folder / "script.json").write_text(json.dumps(SCRIPT))
    return repo


def rounds(folder: Path, places: list[str]) -> Iterator[dict[str, Any]]:
    """Play one round per place."""
    source = template(folder)
    compile_templates()  # once, and not in each runner
    for number, place in enumerate(places):
        each = Round(folder / str(number))
        shutil.copytree(source, each.repo)
        began = time.monotonic()
        codes: list[int] = []
        for part in (*place.split("|"), ""):
            if not each.outcome.exists():
                codes.append(each.live(part))  # noqa: PERF401  # what ends it changes meanwhile
        yield each.report(place, codes, time.monotonic() - began)


if __name__ == "__main__":
    for told in rounds(Path(sys.argv[1]), sys.argv[2:]):
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()
