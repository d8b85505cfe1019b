"""The engine on Temporal in the simulated world: one machine is coordinator and worker at once.

Server, workflows and the SDK's workers are real and outlive every engine, in a thread of their own;
what they ask for is done in the story's event loop. Its clock is stepped: workflows have no timers.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError
from temporalio.worker import UnsandboxedWorkflowRunner

from lifecycle.engine.engine import LocalEngine
from lifecycle.mask_values import masked
from lifecycle.perform.performer import Performer
from orchestrator.engines.temporal import hosts
from orchestrator.engines.temporal.activities import Acting, Keepers
from orchestrator.engines.temporal.client import TemporalDecider
from orchestrator.engines.temporal.options import Queues
from orchestrator.engines.temporal.owners import RemoteOwners
from orchestrator.engines.temporal.payloads import (
    CONVERTER,
    ReportCall,
    VisitCall,
    WorkflowEnd,
    WorkflowStart,
)
from orchestrator.engines.temporal.workflow import LifecycleWorkflow
from tests.lifecycle.engine.simulated import CrashError
from tests.lifecycle.engine.stories import _settle

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from lifecycle.engine.port import Engine
    from lifecycle.machine.events import Event
    from lifecycle.owner.decider import Beginning, FactAnswer, Telling
    from lifecycle.record import PendingEffect, Transaction
    from lifecycle.services import MachineServices
    from lifecycle.worker.assignment import Assignment, News
    from lifecycle.working_copy import LocalCopy
    from tests.lifecycle.engine.simulated import Life as Mortal
    from tests.lifecycle.engine.stories import MortalStore

LEASE, WORKER, LONGEST = 60.0, "w1", 120.0
"""And the seconds after which a stage that does not settle is stuck."""


@dataclass(frozen=True, slots=True)
class PlayQueues(Queues):
    """The queues of the stage, with workflows of its own for each play."""

    play: str

    def workflow_id(self, agent_id: str) -> str:
        return f"{self.prefix}.{self.play}.{agent_id}"


class Watched:
    """What of the workflows can be seen from outside, while the host of workflows lives here."""

    def __init__(self) -> None:
        self.live: dict[str, StoryWorkflow] = {}
        self.awaited: set[str] = set()
        """Workflows that were begun, or begin afresh, and have not been seen since."""
        self.reported: Counter[str] = Counter()
        """Facts that workflows took, by assignment."""


WATCHED = Watched()


@workflow.defn(name="lifecycle")
class StoryWorkflow(LifecycleWorkflow):
    """The workflow in the time of a story."""

    @workflow.init
    def __init__(self, start: WorkflowStart) -> None:
        super().__init__(start)
        self.workflow_id = workflow.info().workflow_id
        WATCHED.live[self.workflow_id] = self
        WATCHED.awaited.discard(self.workflow_id)

    @workflow.run
    async def run(self, start: WorkflowStart) -> WorkflowEnd:
        done = await super().run(start)
        WATCHED.live.pop(self.workflow_id, None)
        return done

    @workflow.signal(name="report")
    def report(self, report: ReportCall) -> None:
        if not workflow.unsafe.is_replaying():
            WATCHED.reported[report.assignment_id] += 1
        super().report(report)

    def _stamped(self, event: Event) -> Event:
        return event

    def _deadline(self) -> float | None:
        return None

    def _pause(self) -> timedelta:
        return timedelta()

    def _afresh(self) -> Beginning:
        WATCHED.awaited.add(self.workflow_id)
        return super()._afresh()


class Acts:
    """The worker's part, done by a performer in the story's loop."""

    def __init__(self, machine: MachineServices) -> None:
        self._machine, self._performer = machine, Performer(machine)
        self._copies: dict[str, LocalCopy] = {}
        self._answers: dict[str, asyncio.Future[Event | None]] = {}
        self.told: Counter[str] = Counter()
        self.tell: Callable[[str, Event], None] = _to_nobody

    async def begin(self, assignment: Assignment) -> None:
        self._copies[assignment.assignment_id] = assignment.local_copy()

    async def perform(self, assignment_id: str, order: PendingEffect, news: News) -> Event | None:
        answer = self._answers.get(order.effect_id)
        if answer is None:
            work = self._act(assignment_id, order, news)
            answer = self._answers[order.effect_id] = asyncio.ensure_future(work)
        return await asyncio.shield(answer)

    async def _act(self, assignment_id: str, order: PendingEffect, news: News) -> Event | None:
        def emit(fact: Event) -> None:
            self.told[assignment_id] += 1
            self.tell(assignment_id, masked(fact, self._machine.shared.masker))

        local, name = self._copies[assignment_id], type(order.effect).__name__
        news.onto(local)
        self._machine.shared.checkpoint(f"before {name}")
        event = await self._performer.perform(local, order.effect_id, order.effect, emit)
        self._machine.shared.checkpoint(f"after {name}")
        return event

    async def reclaim(self, assignment_id: str, attempt: int, marks: tuple[str, ...]) -> Event:
        return await self._performer.reclaim(self._copies[assignment_id], attempt, marks)

    async def end(self, assignment_id: str) -> None:
        self._copies.pop(assignment_id, None)

    async def until_over(self, assignment_id: str) -> None:
        del assignment_id
        await asyncio.Event().wait()

    def confirmed(self, assignment_id: str, sent: int | None = None) -> None:
        del assignment_id, sent

    def now(self) -> int:
        return 0


def _to_nobody(assignment_id: str, fact: Event) -> None:
    del assignment_id, fact


class Life:
    """One engine's life on the stage; what is asked of a dead one fails."""

    def __init__(self, acts: Acts | None = None) -> None:
        self.acts = acts
        self.loop = asyncio.get_running_loop() if acts is not None else None
        self.over = threading.Event()
        self.under_way: Counter[str] = Counter()
        """What is being done in the story's loop, by what it is for."""

    async def here(self, name: str, work: Callable[[], Awaitable[Any]]) -> Any:
        """From the hosts' loop, have something done in the story's."""

        async def do() -> Any:
            self.under_way[name] += 1
            try:
                return await work()
            finally:
                self.under_way[name] -= 1

        if self.over.is_set() or self.loop is None or self.loop.is_closed():
            raise ApplicationError("nobody lives here")
        asked = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(do(), self.loop))
        while not asked.done() and not self.over.is_set():
            await asyncio.wait([asked], timeout=0.05)
        if not asked.done():
            raise ApplicationError("it died")
        try:
            return asked.result()
        except CrashError as crash:
            raise ApplicationError(f"it died: {crash}") from None


class MortalActing(Acting):
    """The activities of a worker that dies with the engine it is part of."""

    life = Life()

    @activity.defn(name="assignment")
    async def assignment(self, visit: VisitCall) -> None:
        life = self.life
        given = asyncio.ensure_future(super().assignment(visit))
        while not given.done() and not life.over.is_set():
            await asyncio.wait([given], timeout=0.02)
        if not given.done():
            given.cancel()
            await asyncio.wait([given])
            raise ApplicationError("it died")
        given.result()


def _acts(life: Life) -> Acts:
    assert life.acts is not None
    return life.acts


class Across:
    """Acts of the present life, asked for from the hosts' loop."""

    def __init__(self) -> None:
        self.life = Life()

    async def begin(self, assignment: Assignment) -> None:
        life, name = self.life, assignment.assignment_id
        await life.here(name, lambda: _acts(life).begin(assignment))

    async def perform(self, assignment_id: str, order: PendingEffect, news: News) -> Event | None:
        life = self.life
        told: Event | None = await life.here(
            assignment_id, lambda: _acts(life).perform(assignment_id, order, news)
        )
        return told

    async def reclaim(self, assignment_id: str, attempt: int, marks: tuple[str, ...]) -> Event:
        life = self.life
        told: Event = await life.here(
            assignment_id, lambda: _acts(life).reclaim(assignment_id, attempt, marks)
        )
        return told

    async def end(self, assignment_id: str) -> None:
        life = self.life
        await life.here(assignment_id, lambda: _acts(life).end(assignment_id))

    async def until_over(self, assignment_id: str) -> None:
        del assignment_id
        await asyncio.Event().wait()

    def confirmed(self, assignment_id: str, sent: int | None = None) -> None:
        del assignment_id, sent

    def now(self) -> int:
        return 0


class StoryDecider:
    """The decider, asked from the story's loop."""

    def __init__(self, stage: Stage, decider: TemporalDecider, queues: Queues, life: Life) -> None:
        self._stage, self._decider, self._queues, self._life = stage, decider, queues, life
        self.calls = 0

    async def begin(
        self, beginning: Beginning, keep: Callable[[tuple[Transaction, ...]], Awaitable[None]]
    ) -> None:
        life, agent_id = self._life, beginning.copy.agent_id
        known = self._queues.workflow_id(agent_id)
        if known not in WATCHED.live:
            WATCHED.awaited.add(known)

        async def keep_here(commits: tuple[Transaction, ...]) -> None:
            await life.here(f"keep {agent_id}", lambda: keep(commits))

        await self._there(self._decider.begin(beginning, keep_here))

    async def take(self, agent_id: str, telling: Telling) -> FactAnswer:
        verdict: FactAnswer = await self._there(self._decider.take(agent_id, telling))
        return verdict

    async def release(self, agent_id: str) -> tuple[str, ...]:
        done: tuple[str, ...] = await self._there(self._decider.release(agent_id))
        return done

    def part(self, agent_id: str) -> None:
        if not self._life.over.is_set():
            self._stage.loop.call_soon_threadsafe(self._decider.part, agent_id)

    async def _there(self, work: Coroutine[Any, Any, Any]) -> Any:
        self.calls += 1
        try:
            return await asyncio.wrap_future(
                asyncio.run_coroutine_threadsafe(work, self._stage.loop)
            )
        finally:
            self.calls -= 1


class Stage:
    """Server, hosts, and the engines that live one after the other."""

    def __init__(self, address: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="hosts", daemon=True)
        self._thread.start()
        self._executor = ThreadPoolExecutor(4, "workflows")
        for each in [self._executor.submit(time.sleep, 0.05) for _ in range(4)]:
            each.result()  # so that no thread begins in the middle of a test
        self.queues = Queues(uuid.uuid4().hex[:8])
        self.keepers, self.across, self.life = Keepers(), Across(), Life()
        self._deciders: list[StoryDecider] = []
        self._play = ""
        self._dies: Mortal | None = None
        self.client = self._call(self._connected(address))
        self._acting = MortalActing(self.client, WORKER)
        self._acting.acts = self.across
        self._stop = asyncio.Event()
        self._running = asyncio.run_coroutine_threadsafe(self._host(), self.loop)
        self._call(self._opened())

    async def _connected(self, address: str) -> Client:
        deadline = time.monotonic() + 120
        while True:
            try:
                return await Client.connect(address, data_converter=CONVERTER)
            except RuntimeError:
                assert time.monotonic() < deadline, "the development server does not answer"
                await asyncio.sleep(0.2)

    async def _opened(self) -> None:
        """Wait until the hosts have opened all that they need, so that no test is blamed for it."""
        before, same = -1, 0
        while same < 20:
            now = len(os.listdir("/dev/fd"))  # noqa: PTH208  # in no time
            before, same = now, (same + 1) * (now == before)
            await asyncio.sleep(0.05)

    async def _host(self) -> None:
        acting, queues = self._acting, self.queues
        workers = (
            hosts.decides(
                self.client,
                queues,
                StoryWorkflow,
                runner=UnsandboxedWorkflowRunner(),  # it is looked at from outside
                executor=self._executor,
            ),
            hosts.keeps(self.client, queues, self.keepers),
            *hosts.acts(self.client, queues, acting, name=WORKER, agents=100, lease=LEASE),
        )
        runs = [asyncio.ensure_future(each.run()) for each in workers]
        await self._stop.wait()
        await asyncio.gather(*(each.shutdown() for each in workers))
        await asyncio.gather(*runs, return_exceptions=True)

    def _call(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(150)

    def close(self) -> None:
        self.life.over.set()
        self.loop.call_soon_threadsafe(self._stop.set)
        self._running.result(60)
        self._executor.shutdown()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    # --- lives --------------------------------------------------------------------------------

    def _leave(self, play: str) -> None:
        """Have nothing to do with a play any more."""
        left = [each for each in WATCHED.live if f".{play}." in each]
        for each in left:
            del WATCHED.live[each]
            with suppress(RPCError):
                self._call(self.client.get_workflow_handle(each).terminate())
        WATCHED.awaited.clear()

    def engine(self, machine: MachineServices, play: str) -> Engine:
        """Make an engine, and with it the only worker; the one before is dead."""
        self.life.over.set()
        self._dies = cast("MortalStore", machine.shared.store)._life
        if play != self._play:
            self._leave(self._play)
            self._play = play
        self.keepers.of.clear()
        acts = Acts(machine)
        self.life = self.across.life = self._acting.life = Life(acts)

        def tell(assignment_id: str, fact: Event) -> None:
            self.loop.call_soon_threadsafe(self._acting.tell, assignment_id, fact)

        acts.tell = tell
        queues = PlayQueues(self.queues.prefix, play)
        decider = TemporalDecider(self.client, queues, self.keepers, LEASE)
        here = StoryDecider(self, decider, queues, self.life)
        self._deciders[:] = [here]
        return LocalEngine(machine, None, RemoteOwners(here))

    async def settled(self) -> None:
        """Return when nothing can go on without the world."""
        deadline = time.monotonic() + LONGEST
        while True:
            await _settle()
            if self._busy() is None:
                await asyncio.sleep(0)
                await _settle()
                if self._busy() is None:
                    return
            if time.monotonic() > deadline:
                raise AssertionError(f"the stage does not settle: {self._busy()}")
            await asyncio.sleep(0.003)

    def _busy(self) -> str | None:  # noqa: PLR0911  # one line per reason
        if self._dies is not None and self._dies.dead:
            return None
        if any(each.calls for each in self._deciders):
            return "a call"
        if WATCHED.awaited:
            return f"awaited: {WATCHED.awaited}"
        life, acts = self.life, self.life.acts
        for each in tuple(WATCHED.live.values()):
            if each._unkept and not life.under_way[f"keep {each._drive.copy.agent_id}"]:
                return f"unkept: {each._unkept}"
            visit = each._visit
            if visit is None and not each._next:
                continue
            if visit is None:
                return f"orders: {each._next}"
            name = visit.assignment_id
            if not visit.worker or visit.ending or len(visit.tasks) > life.under_way[name]:
                return f"visit: {visit}"
            if acts is not None and acts.told[name] > WATCHED.reported[name]:
                return f"facts of {name}"
        return None
