"""Who decides for workers, without any engine: it takes facts, and hands orders and news out.

All that passes between it and a worker goes through the JSON form, as between machines.
"""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lifecycle.base_commits import StartingPoint
from lifecycle.clock import SystemClock
from lifecycle.drive import Drive, WorkingCopy
from lifecycle.json_form import decode, encode
from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine.states import (
    Capturing,
    Preparing,
    Queued,
    Spawning,
    Stopping,
    Verifying,
    Working,
)
from lifecycle.record import AgentLifecycle, JournalEntry, PendingEffect
from lifecycle.settings import Settings
from lifecycle.worker.assignment import Assignment, News, settings_for
from lifecycle.worker.build import worker_machine
from lifecycle.worker.worker import Worker
from lifecycle.working_copy import facts_of
from runtime.masking.masker import Masker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from lifecycle.machine.events import Event
    from lifecycle.machine.states import State
    from lifecycle.plan import Agent, Task

UNDER_WAY = (Preparing, Spawning, Working, Stopping, Capturing, Verifying)
ON_WORKERS = (
    do.PrepareWorkspace, do.SpawnAgent, do.StopAgent, do.FreezeAgent, do.ThawAgent,
    do.TakeSnapshot, do.RunGates,
)  # fmt: skip
BEATS = 12
"""In the time of a lease."""


@dataclass
class Told:
    """A fact on its way, or why there is none, and what it belongs to."""

    fact: Event | Exception
    assignment: str
    effect_id: str = ""


class Decider:
    """Decides for one lifecycle, on whichever worker it is."""

    def __init__(self, task: Task, agent: Agent, settings: Settings, base: str) -> None:
        record = AgentLifecycle(
            agent_id=agent.agent_id, task=task.title, task_id=task.id, facts=facts_of(task, agent)
        )
        record.work = Queued()
        self.copy = WorkingCopy(record=record)
        self.drive = Drive(self.copy)
        self.settings, self.policy = settings, settings.policy(task, agent.programs)
        self.agent, self.base = agent, base
        self.assignment = ""
        self.facts: list[Event] = []
        """All that was told, also what was too late."""
        self.beats = True
        self._inbox: asyncio.Queue[Told] = asyncio.Queue()
        self._open: dict[str, PendingEffect] = {}
        """Orders that were not answered yet."""
        self._news: list[JournalEntry] = []
        self._orders: set[asyncio.Task[None]] = set()
        self._now = SystemClock().now

    @property
    def state(self) -> State:
        return self.drive.state

    def tell(self, assignment_id: str, fact: Event) -> None:
        self.facts.append(fact)
        self._inbox.put_nowait(Told(decode(on.Event, encode(fact)), assignment_id))

    async def visit(
        self, worker: Worker, name: str, until: Callable[[State], bool] = lambda _: False
    ) -> State:
        """Let a worker have the lifecycle until it rests, or until this."""
        await self.begin(worker, name)
        await self.go_on(worker, until)
        if not isinstance(self.state, UNDER_WAY):
            await worker.end(name)
        return self.state

    async def begin(self, worker: Worker, name: str) -> None:
        self.assignment = name
        await worker.begin(decode(Assignment, encode(await self.given(name))))
        self._news.clear()
        work = self.state
        if isinstance(work, (Spawning, Working, Stopping)):  # of a worker that was lost
            lost = on.RunnerRestarted(at=self._now(), attempt=work.tally.attempt)
            self._inbox.put_nowait(Told(lost, name))
        elif isinstance(work, UNDER_WAY):  # what another one handed on
            for order in tuple(self._open.values()):
                self._send(worker, order)
        else:
            self._inbox.put_nowait(Told(on.Admitted(at=self._now() + 3600), name))

    async def given(self, name: str) -> Assignment:
        start = None if "base_commit" in self.copy.record.facts else StartingPoint(self.base)
        return Assignment(
            assignment_id=name,
            copy=self.copy,
            settings=settings_for(self.settings, Masker()),
            start=start,
            target="main",
        )

    async def go_on(self, worker: Worker, until: Callable[[State], bool]) -> None:
        beating = asyncio.create_task(self._beat(worker))
        try:
            while not until(self.state):
                told = await self._inbox.get()
                if told.assignment != self.assignment:
                    continue
                if isinstance(told.fact, Exception):
                    raise told.fact
                self.take(worker, told.fact, told.effect_id)
                if not isinstance(self.state, UNDER_WAY):
                    return
        finally:
            beating.cancel()

    async def _beat(self, worker: Worker) -> None:
        while True:
            if self.beats:
                worker.confirmed(self.assignment)
            await asyncio.sleep(worker.lease / BEATS)

    def take(self, worker: Worker, fact: Event, effect_id: str) -> None:
        self._open.pop(effect_id, None)
        turn = self.drive.take(fact, self.policy, effect_id=effect_id)
        assert not turn.refused, turn.refused
        self.drive.committed(turn)
        self._news += turn.commit.journal if turn.commit is not None else ()
        for order in turn.orders:
            if isinstance(order.effect, ON_WORKERS):
                self._send(worker, order)
            else:
                self.drive.carried_out(order.effect_id)

    def _send(self, worker: Worker, order: PendingEffect) -> None:
        self._open[order.effect_id] = order
        task = asyncio.create_task(self._order(worker, order, self.news()))
        self._orders.add(task)
        task.add_done_callback(self._orders.discard)

    def news(self) -> News:
        row = self.copy.ledger[-1] if self.copy.ledger else None
        news = News(record=self.copy.record, journal=tuple(self._news), row=row)
        self._news.clear()
        return decode(News, encode(news))

    async def _order(self, worker: Worker, order: PendingEffect, news: News) -> None:
        name = self.assignment
        try:
            fact = await worker.perform(name, decode(PendingEffect, encode(order)), news)
        except Exception as problem:  # noqa: BLE001  # whatever it is, a test is to see it
            self._inbox.put_nowait(Told(problem, name))
            return
        if fact is None:
            self._open.pop(order.effect_id, None)
            self.drive.carried_out(order.effect_id)
        else:
            self.facts.append(fact)
            self._inbox.put_nowait(Told(decode(on.Event, encode(fact)), name, order.effect_id))

    async def aclose(self) -> None:
        for task in tuple(self._orders):
            task.cancel()
        with contextlib.suppress(Exception):
            await asyncio.gather(*self._orders, return_exceptions=True)


@asynccontextmanager
async def worker_in(
    clone: Path, name: str, decider: Decider, *, lease: float = 30.0, **settings: Any
) -> AsyncIterator[Worker]:
    """Run a worker of this name in a clone."""
    mine = Settings.model_validate({"stop_grace": 0.3, **settings})
    async with worker_machine(clone, name=name, settings=mine) as (machine, travel):
        worker = Worker(machine, tell=decider.tell, lease=lease, travel=travel)
        await worker.start()
        try:
            yield worker
        finally:
            await worker.aclose()
            await decider.aclose()
