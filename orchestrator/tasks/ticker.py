"""Ticks beside the loops of a runner: what is accepted while it runs, and what was owed before."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

from lifecycle.errors import StoreError
from orchestrator.tasks.ticked_files import TickedFiles
from orchestrator.tasks.ticks import forget, not_yet, owed, owes, settle

if TYPE_CHECKING:
    from collections.abc import Callable

    from lifecycle.engine.engine import LocalEngine
    from lifecycle.record import AgentLifecycle
    from lifecycle.reporting import Committed


LOOKED = "ticker"
"""Documents: until when all that was accepted is ticked."""
SLACK = 120.0
"""Seconds by which instants of facts may come in another order than their commits."""


class Ticker:
    """Listens while the loops of a runner run; `async with` begins and ends it."""

    def __init__(self, engine: LocalEngine, tell: Callable[[str], None]) -> None:
        self._shared, self._repo, self._tell = engine.shared, engine.machine.repo, tell
        self._tasks: set[asyncio.Task[bool]] = set()
        self._seen: set[str] = set()

    async def __aenter__(self) -> Self:
        self._shared.observers.append(self.news)
        await asyncio.to_thread(TickedFiles(self._repo).make_again)
        if self._shared.settings().tick_tasks:
            await self._catch_up()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._shared.observers.remove(self.news)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def news(self, news: Committed) -> None:
        """Tick soon what was accepted, where it is owed a tick."""
        record = news.record
        key = f"{record.agent_id}.{record.birth}"
        if not owes(record) or key in self._seen or not self._shared.settings().tick_tasks:
            return
        self._seen.add(key)
        task = asyncio.get_running_loop().create_task(self._settle(record), name="tick")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _catch_up(self) -> None:
        """Tick what was accepted since the last look and is not ticked."""
        store, now = self._shared.store, self._shared.clock.now()
        looked = (await store.all(LOOKED)).get("until", {})
        # Where nobody looked before, no task came from a list: nothing is owed.
        since = float(looked.get("at", now)) - SLACK
        if all([await self._settle(record) for record in await owed(store, since)]):
            await store.put(LOOKED, "until", {"at": now})
        await forget(store, now - self._shared.settings().retention_hours * 3600.0 - SLACK)

    async def _settle(self, record: AgentLifecycle) -> bool:
        """Tick it; return whether nothing is left to do."""
        shared, agent_id = self._shared, record.agent_id
        try:
            text = await settle(shared.store, self._repo, record, shared.clock.now())
        except OSError as problem:
            self._tell(f"{agent_id}: {not_yet(record, problem)}")
            shared.report("task_tick_failed", agent_id=agent_id, reason=str(problem))
            return False
        except StoreError as problem:
            shared.report("task_tick_failed", agent_id=agent_id, reason=str(problem))
            return False
        if text:
            self._tell(f"{agent_id}: {text}")
        return True
