"""Four loops into one base that conflict with each other, merged unasked, to the end by themselves.

Whoever checks commits tells of it at once, as a webhook would; everything else is found by looking.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ci.events import CIEventType
from ci.forge.merge_rules import Rules
from ci.forge.provider import RemoteProvider
from ci.webhook_delivery import Hint
from lifecycle.loop import LoopResultType
from lifecycle.plan import Agent, Plan, Task
from lifecycle.settings import Settings
from runtime.remote.remote import GitRemote
from tests.ci.forge.remote_world import no_header
from tests.ci.gitea.gitea_world import GiteaWorld
from tests.ci.github.emulated import emulated
from tests.ci.github.github_world import EmulatedWorld
from tests.ci.ports import IDENTITY
from tests.orchestrator.filled import loop_of
from tests.waiting import PAUSE

if TYPE_CHECKING:
    from ci.events import CIEvent
    from tests.ci.forge.forge_world import ForgeWorld
    from tests.ci.github.emulated import Emulated

__all__ = ["emulated"]

ROOT = Path(__file__).parents[2]
TASKS = ("T1", "T2", "T3", "T4")
WITHIN = 10.0
"""Seconds in which a conflict is told after the merge that made it."""
AGENT = """
import os, subprocess, sys
from pathlib import Path

def git(*words):
    return subprocess.run(("git", *words), capture_output=True, text=True).stdout

def end(how):
    script = str(Path(sys.argv[1]) / how)
    os.execv(sys.executable, [sys.executable, "-S", "-P", "-m", "runtime.agents.scripted", script])

mine, shared = os.environ["LOOPWRIGHT_TASK_ID"] + "\\n", Path("shared.txt")
if mine in git("show", "main:shared.txt").splitlines(keepends=True):
    end("done.json")
lines = shared.read_text().splitlines(keepends=True)
kept = [line for line in lines if not line.startswith(("<<<<<<<", "|||||||", "=======", ">>>>>>>"))]
kept = kept if mine in kept else [*kept, mine]
shared.write_text("".join(line if line.endswith("\\n") else line + "\\n" for line in kept))
git("add", "shared.txt")
git("-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "Add " + mine)
end("opened.json")
"""


async def check_what_is_pushed(world: ForgeWorld, provider: RemoteProvider) -> None:
    """Have every new head checked and found good, and tell of it."""
    known: set[str] = set()
    while True:
        heads = await asyncio.to_thread(world.origin.heads)
        for branch, sha in heads.items():
            if branch.startswith("agent/") and sha not in known:
                known.add(sha)
                await world.committed(branch, sha, "green")
                await provider.take(Hint(sha=sha))
        await asyncio.sleep(PAUSE)


async def note_moves(world: ForgeWorld, moves: list[float]) -> None:
    """Note when the base gets another commit."""
    known = ""
    while True:
        head = await asyncio.to_thread(world.origin.head, "main") or ""
        if head != known:
            known = head
            moves.append(time.monotonic())
        await asyncio.sleep(20 * PAUSE)


def agent_of(task: str, folder: Path) -> Agent:
    (folder / "agent.py").write_text(AGENT)
    for name, word in (("opened.json", "pr_created"), ("done.json", "task_complete")):
        steps = [{"breakpoint": {"type": word, "summary": f"{task} is there"}}]
        (folder / name).write_text(json.dumps({"attempts": {"default": steps}}))
    command = (sys.executable, "-S", "-P", str(folder / "agent.py"), str(folder))
    return Agent(agent_id=f"agent-{task}", command=command, env={"PYTHONPATH": str(ROOT)})


def told(events: list[tuple[float, CIEvent]], kind: CIEventType) -> list[tuple[float, CIEvent]]:
    return [(at, event) for at, event in events if event.type is kind]


@pytest.mark.timeout(280)
async def test_four_loops_into_one_base_on_gitea(tmp_path: Path) -> None:
    async with GiteaWorld.running(tmp_path / "served") as world:
        await are_merged_one_after_the_other(world, tmp_path)


@pytest.mark.timeout(280)
async def test_four_loops_into_one_base_on_github(tmp_path: Path, emulated: Emulated) -> None:
    async with EmulatedWorld.running(tmp_path, emulated) as world:
        await are_merged_one_after_the_other(world, tmp_path)


async def are_merged_one_after_the_other(world: ForgeWorld, tmp_path: Path) -> None:
    rules = Rules(auto_merge=True, checks_grace=0.5)
    provider = RemoteProvider(world.forge, rules=lambda: rules, header=no_header)
    events: list[tuple[float, CIEvent]] = []
    provider.subscribe(lambda event: events.append((time.monotonic(), event)))
    tasks = [Task(id=name, title=f"Do {name}", base="main") for name in TASKS]
    loop = loop_of(
        world.origin.repo,
        settings=Settings(pr_reminder=3600.0, retry_interval=1.0, conflict_limit=10),
        plan=Plan(tasks=tuple(tasks)),
        ci_provider=provider,
        remote=GitRemote(world.origin.repo, url=str(world.origin.bare), environ=IDENTITY),
    )
    runs = [
        asyncio.create_task(loop.run_agent_loop(agent_of(task.id, tmp_path), task))
        for task in tasks
    ]
    moves: list[float] = []
    beside = [asyncio.create_task(note_moves(world, moves))]
    try:
        await asyncio.wait(runs, timeout=1.0)
        beside.append(asyncio.create_task(check_what_is_pushed(world, provider)))
        results = await asyncio.wait_for(asyncio.gather(*runs), 240)
    finally:
        for task_beside in beside:
            task_beside.cancel()
        await loop.shutdown()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*runs, *beside, return_exceptions=True)
    assert {result.result_type for result in results} == {LoopResultType.TASK_COMPLETE}
    assert {result.retry_count for result in results} == {0}
    merges, conflicts = told(events, CIEventType.PR_MERGED), told(events, CIEventType.PR_CONFLICT)
    assert len({event.pr_number for _, event in merges}) == len(merges) == len(TASKS)
    assert {*(await world.merged_text()).split()} == {*TASKS, "base"}
    assert conflicts
    for at, _ in conflicts:
        # A move may be noticed here a moment after what it led to.
        moved_at = max(moved for moved in moves if moved < at + 1.0)
        assert at < moved_at + WITHIN
