"""The lifecycles that the board shows, kept in memory and brought in line with each decision.

Read from the store when somebody looks for the first time. Must not know how they are shown.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from lifecycle.machine.states import TERMINAL, Accepted, AgentState
from lifecycle.record import EARLIER, Filter, worker_of
from orchestrator.review.queue import held_up, need_of, stuck
from orchestrator.wording.doing import AgentActivity
from orchestrator.wording.workers import UNPLACED, used_by, worker_form

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lifecycle.record import AgentLifecycle
    from lifecycle.reporting import Committed
    from lifecycle.store.damaged_records import Damaged
    from lifecycle.store.rows.workers import WorkerRow
    from orchestrator.runner.server_interface import RunnerPort
    from orchestrator.wording.workers import WorkerForm

OPEN = (AgentState.QUEUED, AgentState.RUNNING, AgentState.COMPLETED)
MOST_ENDED = 300
"""Accepted ones, and rejected or given up ones, that are kept: the newest of each."""
LASTS = 60.0
"""Seconds after which all is read anew while somebody looks: what was deleted makes no news."""


class BoardState:
    """What the board shows, as it is now."""

    def __init__(self, runner: RunnerPort) -> None:
        self.runner = runner
        self.activity = AgentActivity(runner.engine)
        self.records: dict[str, AgentLifecycle] = {}
        self.damaged: dict[str, Damaged] = {}
        self.accepted = 0
        """How many were accepted in all."""
        self.used: dict[str, tuple[int, float]] = {}
        """Tokens and dollars of those that no agent works on."""
        self._ended: dict[str, None] = {}
        """Those that are over, oldest first."""
        self._unsure: set[str] = set()
        """Of which that has to be read once more."""
        self.kept: dict[str, Any] = {}
        """What was made of a record, with the version it was made of; for who shows it."""
        self.version = 0
        """Counts what changed."""
        self.stuck: frozenset[str] = frozenset()
        """Agents that are blocked on what nobody but a person can bring."""
        self._stuck_at = -1
        self._held: tuple[int, Mapping[str, tuple[str, ...]]] = (-1, {})
        self._needs: tuple[int, int] = (-1, 0)
        self.newest = 0.0
        """When the newest decision was made."""
        self.workers: tuple[WorkerRow, ...] = ()
        """The workers of the repository, as they were heard of last."""
        self.unplaced: dict[str, dict[str, Any]] = {}
        """What is missing where no worker can take a lifecycle."""
        self._read_at: float | None = None
        self._reading = asyncio.Lock()

    def news(self, news: Committed) -> None:
        """Take what was decided."""
        self.newest = max(self.newest, news.at)
        if EARLIER in news.agent_id:
            return
        was = self.records.get(news.agent_id)
        if isinstance(news.record.work, Accepted) and not (
            was is not None and isinstance(was.work, Accepted)
        ):
            self.accepted += 1
        self.records[news.agent_id] = news.record
        self._unsure.add(news.agent_id)
        self.version += 1
        if isinstance(news.record.work, TERMINAL):
            self._keep_newest(news.agent_id)

    def _keep_newest(self, ended: str) -> None:
        """Let go of those that are over the longest."""
        self._ended.pop(ended, None)
        self._ended[ended] = None
        while len(self._ended) > 2 * MOST_ENDED:
            oldest = next(iter(self._ended))
            del self._ended[oldest]
            if oldest in self.records and isinstance(self.records[oldest].work, TERMINAL):
                del self.records[oldest]
                self.used.pop(oldest, None)
                self.kept.pop(oldest, None)
                self._unsure.discard(oldest)

    async def look(self) -> None:
        """Be in line with the store."""
        clock = asyncio.get_running_loop().time
        if self._read_at is not None and clock() - self._read_at < LASTS:
            await self._follow()
            return
        async with self._reading:
            if self._read_at is None or clock() - self._read_at >= LASTS:
                await self._read()
                self._read_at = clock()
        await self._follow()

    async def _follow(self) -> None:
        self._add_begun()
        await self.look_at_workers()
        await self._read_used()
        if self._stuck_at != self.version:
            at, has_ci = self.version, self.runner.engine.shared.ci is not None
            known = list(self.records.values())
            self.stuck = await stuck(self.runner.store, known, has_ci=has_ci)
            self._stuck_at = at
            self._needs = -1, 0

    async def look_at_workers(self) -> None:
        """Read who was heard of, and what no worker can take."""
        self.workers = await self.runner.store.workers.all()
        self.unplaced = await self.runner.store.all(UNPLACED)

    def workers_now(self) -> list[WorkerForm]:
        """Return the workers, with how much each of them works on."""
        if not self.workers:
            return []
        places = ((worker_of(each), type(each.work).__name__) for each in self.records.values())
        used, present = used_by(places), self.runner.now()
        return [worker_form(each, used, present) for each in self.workers]

    def silent_workers(self) -> dict[str, float]:
        """Return those that were not heard of for a lease, with when they were last."""
        present = self.runner.now()
        return {each.name: each.seen_at for each in self.workers if each.is_silent(present)}

    async def _read_used(self) -> None:
        """Read what was used by those whose last attempt just ended."""
        while self._unsure:
            agent_id = self._unsure.pop()
            spent = await self.runner.store.spent(agent_id=agent_id)
            self.used[agent_id] = spent.tokens, spent.cost_usd

    def _add_begun(self) -> None:
        for agent_id, local in self.runner.engine.running().items():
            # One that just began has made no news yet.
            if agent_id not in self.records:
                self.records[agent_id] = local.record
                self.version += 1

    async def _read(self) -> None:
        before = self.version
        store = self.runner.store
        found: dict[str, AgentLifecycle] = {}
        damaged: dict[str, Damaged] = {}
        async for page in store.pages(Filter(states=OPEN, current=True)):
            found |= {each.agent_id: each for each in page.records}
            damaged |= {each.agent_id: each for each in page.damaged}
        for state in (AgentState.REJECTED, AgentState.ACCEPTED):
            page = await store.list(Filter(states=(state,), current=True), limit=MOST_ENDED)
            found |= {each.agent_id: each for each in page.records}
            damaged |= {each.agent_id: each for each in page.damaged}
        used: dict[str, tuple[int, float]] = {}
        for each in await store.spending_sums():
            if each.agent_id in found:
                tokens, usd = used.get(each.agent_id, (0, 0.0))
                used[each.agent_id] = tokens + each.tokens, usd + each.cost_usd
        accepted = {each.agent_id for each in await store.outlines((AgentState.ACCEPTED,))}
        self.used = used
        if self.version == before:
            self.records = found
        else:
            # What was decided while we read is newer.
            self.records = found | {
                key: each
                for key, each in self.records.items()
                if key not in found or each.version > found[key].version
            }
            accepted |= {
                key for key, each in self.records.items() if isinstance(each.work, Accepted)
            }
        over = [each for each in self.records.values() if isinstance(each.work, TERMINAL)]
        over.sort(key=lambda each: each.updated_at)
        self._ended = dict.fromkeys(each.agent_id for each in over)
        self.damaged = damaged
        self.accepted = len(accepted)
        self.newest = max([self.newest, *(each.updated_at for each in self.records.values())])
        self.version += 1

    @property
    def keeps_all(self) -> bool:
        """Whether all that was accepted is kept, and not only the newest."""
        return self.accepted <= MOST_ENDED

    def needs(self) -> int:
        """Return how many need a person."""
        if self._needs[0] != self.version:
            waiting = sum(bool(self.need_of(each)) for each in self.records.values())
            self._needs = self.version, waiting + len(self.damaged)
        return self._needs[1]

    def need_of(self, record: AgentLifecycle) -> str:
        """Return what one needs of a person; nothing if it goes on or is over."""
        return need_of(record, self.stuck)

    def held_up(self) -> Mapping[str, tuple[str, ...]]:
        """Return for each task those that cannot go on before it."""
        if self._held[0] != self.version:
            self._held = self.version, held_up(self.records.values())
        return self._held[1]

    def open_records(self) -> Sequence[AgentLifecycle]:
        """Return those that are not over."""
        return [each for each in self.records.values() if not isinstance(each.work, TERMINAL)]
