"""A real loop on a forge that is down, refuses, hangs or talks nonsense waits, and says so.

Time goes round faster here: what would take a minute takes a fraction of a second.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ci.forge.merge_rules import Rules
from ci.forge.provider import RemoteProvider
from lifecycle.loop import LoopResultType
from lifecycle.machine.states import PrPending
from lifecycle.paths import Paths
from lifecycle.plan import Agent, Plan, Task
from lifecycle.settings import Settings
from lifecycle.store.sqlite.store import SqliteStore
from orchestrator.wording.why import why
from orchestrator.wording.why_facts import WhyContext
from runtime.remote.remote import GitRemote
from tests.ci.forge.remote_world import no_header
from tests.ci.forge_server import Reply, fails, hangs, text
from tests.ci.gitea.gitea_world import GiteaWorld
from tests.ci.github.queue_world import QueueWorld
from tests.ci.ports import IDENTITY, git
from tests.orchestrator.filled import loop_of
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.ci.forge.forge_world import ServedWorld

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

    def __init__(
        self,
        served: ServedWorld[Any],
        folder: Path,
        settings: Settings | None = None,
        *,
        script: Mapping[str, Any] = SCRIPT,
        rules: Rules | None = None,
    ) -> None:
        self.served = served
        self.clock = FastClock()
        self.store = SqliteStore.in_memory(clock=self.clock.now)
        connection = served.connection(now=self.clock.now, sleep=asyncio.sleep, timeout=0.5)
        forge = served.kind.make(connection)
        rules = rules or Rules()
        program = folder / "script.json"
        program.write_text(json.dumps(script))
        self.agent = Agent(
            agent_id="agent-T001",
            command=(sys.executable, "-S", "-P", "-m", "runtime.agents.scripted", str(program)),
            env={"PYTHONPATH": str(ROOT)},
        )
        self.task = Task(id="T001", title="Calculate", base="main")
        self.settings = settings or Settings(pr_merge_timeout=86_400.0, retry_interval=1.0)
        self.loop = loop_of(
            served.origin.repo,
            settings=self.settings,
            plan=Plan(tasks=(self.task,)),
            ci_provider=RemoteProvider(forge, rules=lambda: rules, header=no_header),
            store=self.store,
            clock=self.clock,
            remote=GitRemote(served.origin.repo, url=str(served.origin.bare), environ=IDENTITY),
        )

    async def until_it_says(self, words: str) -> str:
        """Wait until `show --why` would say this."""
        said = ""

        async def says() -> bool:
            nonlocal said
            said = await self.why()
            return words in said

        await until(says, lambda: f"{words!r}; it says: {said}")
        return said

    async def why(self) -> str:
        record = await self.store.get("agent-T001")
        if record is None:
            return ""
        view = WhyContext(
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


async def test_why_a_branch_is_refused_is_told_whole_while_there_is_no_pull_request(
    tmp_path: Path,
) -> None:
    rule = f"the branch {'must be named as the handbook says, ' * 12}ask dora"
    async with GiteaWorld.running(tmp_path / "served") as served:
        hook = served.origin.bare / "hooks" / "pre-receive"
        hook.parent.mkdir()
        hook.write_text(f"#!/bin/sh\necho '{rule}' >&2\nexit 1\n")
        hook.chmod(0o755)
        life = Life(served, tmp_path)
        run = asyncio.create_task(life.loop.run_agent_loop(life.agent, life.task))
        try:
            said = await life.until_it_says("there is none yet")
            assert rule in said
            assert "tried again every" in said
            hook.unlink()
            await life.until_it_says("is open; ")
            await served.merge(await life.pull_number())
            result = await asyncio.wait_for(run, 40)
        finally:
            await life.loop.shutdown()
            await asyncio.gather(run, return_exceptions=True)
    assert result.result_type is LoopResultType.TASK_COMPLETE


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (fails(503, retry_after="30"), "503"),
        (fails(401), "401"),
        (fails(429, retry_after="60"), "limit"),
        (hangs(), "answer"),
        (text("<html>sign in", kind="text/html"), "JSON"),
    ],
    ids=["503", "401", "429", "hang", "garbage"],
)
async def test_a_forge_in_trouble_is_waited_for_and_named_and_the_loop_goes_on_by_itself(
    tmp_path: Path, reply: Reply, words: str
) -> None:
    async with GiteaWorld.running(tmp_path / "served") as served:
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
    assert git(served.origin.repo, "show", "main:calc.py")[1] == b"x = 1\n"


async def test_a_push_of_45_seconds_ends_in_one_pull_request(tmp_path: Path) -> None:
    async with GiteaWorld.running(tmp_path / "served") as served:
        hook = served.origin.bare / "hooks" / "pre-receive"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\nsleep {45 / FASTER}\n")
        hook.chmod(0o755)
        served.served.while_creating = lambda: asyncio.sleep(3 / FASTER)
        life = Life(served, tmp_path, Settings(pr_merge_timeout=86_400.0))
        run = asyncio.create_task(life.loop.run_agent_loop(life.agent, life.task))
        try:
            await life.until_it_says("is open; ")
            await served.merge(await life.pull_number())
            result = await asyncio.wait_for(run, 40)
        finally:
            await life.loop.shutdown()
            await asyncio.gather(run, return_exceptions=True)
    assert result.result_type is LoopResultType.TASK_COMPLETE
    assert list(served.served.pulls) == [1]
    assert served.server.count("POST", served.pulls) == 1


async def test_what_a_merge_queue_throws_out_is_mended_and_merged_by_it(tmp_path: Path) -> None:
    asks = {"breakpoint": {"type": "pr_created", "summary": "Please merge"}}
    script = {
        "attempts": {
            "1": [{"write": {"path": "calc.py", "text": "x = 1\n"}}, {"commit": "Begin"}, asks],
            "2": [{"write": {"path": "calc.py", "text": "x = 2\n"}}, {"commit": "Mend"}, asks],
            "default": [{"breakpoint": {"type": "task_complete", "summary": "All is merged"}}],
        }
    }
    rules = Rules(auto_merge=True, checks_grace=1)
    async with QueueWorld.running(tmp_path / "served") as served:
        life = Life(served, tmp_path, script=script, rules=rules)
        run = asyncio.create_task(life.loop.run_agent_loop(life.agent, life.task))
        try:
            await until(lambda: served.group_ends(1, red="x = 1"))
            await until(lambda: served.group_ends(1, red="x = 1"))
            result = await asyncio.wait_for(run, 40)
        finally:
            await life.loop.shutdown()
            await asyncio.gather(run, return_exceptions=True)
    assert (result.result_type, result.spawn_count) == (LoopResultType.TASK_COMPLETE, 3)
    first, second = served.served.entries
    assert first != second
    told = Paths.of(served.origin.repo).prompt("agent-T001", 2).read_text()
    assert "thrown out of the merge queue of main (failed_checks)" in told
    assert "FAILED test_sum: the sum is wrong" in told
    assert git(served.origin.repo, "show", "main:calc.py")[1] == b"x = 2\n"
