"""One real loop on a served forge, where time goes round faster.

What would take a minute takes a second.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ci.forge.merge_rules import Rules
from ci.forge.provider import RemoteProvider
from lifecycle.machine.states import PrPending
from lifecycle.plan import Agent, Plan, Task
from lifecycle.settings import Settings
from lifecycle.store.sqlite.store import SqliteStore
from orchestrator.wording.why import why
from orchestrator.wording.why_facts import WhyContext
from runtime.remote.remote import GitRemote
from tests.ci.forge.remote_world import no_header
from tests.ci.ports import IDENTITY
from tests.orchestrator.filled import loop_of
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.ci.forge.forge_world import ServedWorld
    from tests.ci.github.queue_world import QueueWorld
    from tests.ci.gitlab.served_trains import TrainWorld

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


async def queue_ends(world: QueueWorld | TrainWorld, *, red: str) -> bool:
    """Have the queue come to the end with the first pull request, red where a file has this."""
    async with world.served._one_by_one:
        group = world.served.group(1) if 1 in world.served.pulls else ""
        if not group:
            return False
        text = await asyncio.to_thread(world.origin.show, group, "calc.py")
        await asyncio.to_thread(world.served.ends, 1, green=red not in text)
        return True
