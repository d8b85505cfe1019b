"""A real loop on a forge that is down, refuses, hangs or talks nonsense waits, and says so.

Time goes round faster here: what would take a minute takes a fraction of a second.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ci.gitea import GiteaForge
from ci.gitea_auth import GiteaSignIn
from ci.merging import Rules
from ci.remote import RemoteProvider
from lifecycle.loop import AgentLifecycleLoop, LoopResultType
from lifecycle.machine.states import PrPending
from lifecycle.plan import Agent, Plan, Task
from lifecycle.settings import Settings
from lifecycle.store.memory import MemoryStore
from orchestrator.why import View, why
from runtime.branches import BranchManager
from runtime.process import TerminalManager
from runtime.remotes import GitRemote
from runtime.workspace import WorkspaceManager
from tests.ci.forge_server import Reply, cut_off, fails, hangs, text
from tests.ci.gitea_world import gitea_world
from tests.ci.ports import IDENTITY, git
from tests.ci.remote_world import no_header
from tests.ci.served_gitea import TOKEN
from tests.ci.served_gitea_state import REPO

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.ci.gitea_world import GiteaWorld

ROOT = Path(__file__).parents[2]
FASTER = 60.0
SCRIPT = {
    "attempts": {
        "1": [
            {"write": {"path": "calc.py", "text": "x = 1\n"}},
            {"commit": "Begin"},
            {"breakpoint": {"type": "pr_created", "summary": "Please merge"}},
        ],
        "default": [{"breakpoint": {"type": "task_complete", "summary": "All is merged"}}],
    }
}


class FastClock:
    """A minute a second."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def now(self) -> float:
        return 1_800_000_000.0 + (time.monotonic() - self._began) * FASTER

    def call_at(self, when: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        wait = max(0.0, when - self.now()) / FASTER
        return asyncio.get_running_loop().call_later(wait, callback)


class Life:
    """One loop on a served Gitea."""

    def __init__(self, served: GiteaWorld, folder: Path) -> None:
        self.served = served
        self.clock = FastClock()
        self.store = MemoryStore(clock=self.clock.now)
        forge = GiteaForge(
            repo=REPO,
            api=f"{served.server.url}/api/v1",
            web_url=served.server.url,
            sign=GiteaSignIn(source="a test", token=TOKEN).sign,
            now=self.clock.now,
            timeout=0.5,
        )
        script = folder / "script.json"
        script.write_text(json.dumps(SCRIPT))
        self.agent = Agent(
            agent_id="agent-T001",
            command=(sys.executable, "-S", "-P", "-m", "runtime.agents.scripted", str(script)),
            env={"PYTHONPATH": str(ROOT)},
        )
        self.task = Task(id="T001", title="Calculate", base="main")
        self.settings = Settings(pr_merge_timeout=86_400.0, retry_interval=1.0)
        self.loop = AgentLifecycleLoop(
            repo_dir=served.repo,
            plan=Plan(tasks=(self.task,)),
            ci_provider=RemoteProvider(forge, rules=Rules, header=no_header),
            terminal_manager=TerminalManager(served.repo),
            branch_manager=BranchManager(served.repo),
            workspace_manager=WorkspaceManager(served.repo),
            store=self.store,
            clock=self.clock,
            settings=self.settings,
            remote=GitRemote(served.repo, url=str(served.bare), environ=IDENTITY),
        )

    async def until_it_says(self, words: str) -> str:
        """Wait until `show --why` would say this."""
        said = ""
        try:
            async with asyncio.timeout(30):
                while words not in said:
                    await asyncio.sleep(0.02)
                    said = await self.why()
        except TimeoutError:
            raise AssertionError(f"waited in vain for {words!r}; it says: {said}") from None
        return said

    async def why(self) -> str:
        record = await self.store.get("agent-T001")
        if record is None:
            return ""
        view = View(
            journal=await self.store.journal("agent-T001"),
            now=self.clock.now(),
            when=lambda at: f"{at:.0f}",
            settings=self.settings,
            outside=(await self.store.all("ci.waits")).get("agent-T001", {}),
        )
        return why(record, view)

    async def pull_number(self) -> int:
        record = await self.store.get("agent-T001")
        assert record is not None
        assert isinstance(record.work, PrPending)
        assert record.work.number is not None
        return record.work.number


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (fails(500), "500"),
        (fails(503, retry_after="30"), "503"),
        (fails(401), "401"),
        (fails(403), "403"),
        (fails(429, retry_after="60"), "limit"),
        (fails(404), "404"),
        (hangs(), "answer"),
        (text("<html>sign in", kind="text/html"), "JSON"),
        (cut_off(text('{"number": 1}', kind="application/json")), "answer"),
    ],
    ids=["500", "503", "401", "403", "429", "404", "hang", "garbage", "cut off"],
)
async def test_a_forge_in_trouble_is_waited_for_and_named_and_the_loop_goes_on_by_itself(
    tmp_path: Path, reply: Reply, words: str
) -> None:
    async with gitea_world(tmp_path / "served") as served:
        life = Life(served, tmp_path)
        run = asyncio.create_task(life.loop.run_agent_loop(life.agent, life.task))
        try:
            await life.until_it_says("is open; ")
            number = await life.pull_number()
            heal = served.server.overlay()
            served.server.route("GET", "/api/v1/repos/{owner}/{name}/pulls", reply)
            served.server.route("GET", "/api/v1/repos/{owner}/{name}/pulls/{number}", reply)
            said = await life.until_it_says("the forge cannot be asked")
            assert words in said
            assert "tried again" in said
            assert not run.done()
            # It is merged while nobody could be asked; no webhook tells of it.
            await served.merge(number)
            heal()
            result = await asyncio.wait_for(run, 40)
        finally:
            await life.loop.shutdown()
            await asyncio.gather(run, return_exceptions=True)
    assert result.result_type is LoopResultType.TASK_COMPLETE
    assert (result.spawn_count, result.retry_count) == (2, 0)
    assert git(served.repo, "show", "main:calc.py")[1] == b"x = 1\n"
