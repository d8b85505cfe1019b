"""What the server asks of processes: of the coordinator to keep commits, of a worker to act.

Each shows a sign of life while it lasts. A worker's facts are sent in their order, each until the
server has it. Must not decide anything, nor know what an order does.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Protocol

from temporalio import activity
from temporalio.client import AsyncActivityCancelledError, Client
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError, RPCStatusCode

from lifecycle.json_form import decode, encode, plain
from lifecycle.worker.assignment import Assignment, News
from orchestrator.engines.temporal import options
from orchestrator.engines.temporal.payloads import (
    KeepCall,
    OrderAnswer,
    OrderCall,
    PlacedCall,
    ReclaimCall,
    ReportCall,
    VisitCall,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from lifecycle.machine.events import Event
    from lifecycle.record import PendingEffect, Transaction

    Keep = Callable[[tuple[Transaction, ...]], Awaitable[None]]

BENIGN = ApplicationErrorCategory.BENIGN
BEATS_IN_TIME = 3
"""Signs of life within the time after which one is missed."""


class Keepers:
    """Hands commits to who keeps them: the owners that this coordinator has now."""

    def __init__(self) -> None:
        self.of: dict[str, Keep] = {}

    @activity.defn(name="keep")
    async def keep(self, kept: KeepCall) -> None:
        """Have commits written; asked again where nobody here owns the lifecycle yet."""
        keep = self.of.get(kept.agent_id)
        if keep is None:
            # As at each start: nothing that a log should warn of.
            raise ApplicationError(
                f"nobody here owns {kept.agent_id} yet", type="NoOwner", category=BENIGN
            )
        async with _beating(options.KEEP):
            await keep(kept.commits)


class Acts(Protocol):
    """One machine's part of lifecycles: `lifecycle.worker.worker.Worker`."""

    async def begin(self, assignment: Assignment) -> None:
        """Take an assignment."""
        ...

    async def perform(self, assignment_id: str, order: PendingEffect, news: News) -> Event | None:
        """Carry out an order and return its result; a second delivery gets the same."""
        ...

    async def reclaim(self, assignment_id: str, attempt: int, marks: tuple[str, ...]) -> Event:
        """Make sure that nothing of a lost attempt is alive here; return what it left to say."""
        ...

    async def end(self, assignment_id: str) -> None:
        """Give an assignment back: everything is saved and pushed."""
        ...

    async def until_over(self, assignment_id: str) -> None:
        """Return once an assignment is not this worker's any more: ended, handed on or lost."""
        ...

    def confirmed(self, assignment_id: str, sent: int | None = None) -> None:
        """Note that the server has heard a beat of this assignment, which was `sent` then."""
        ...

    def now(self) -> int:
        """Return the instant by which leases are counted."""
        ...


class Acting:
    """The activities of one worker."""

    acts: Acts
    """Set before the first assignment is taken: it tells its facts through this."""

    def __init__(self, client: Client, name: str, slots: int = 100) -> None:
        """Work in at most so many `slots` at once, whichever queue an assignment comes from."""
        self._client, self._name = client, name
        self._slots = asyncio.Semaphore(slots)
        self._ended: dict[str, asyncio.Event] = {}
        self._ending: set[str] = set()
        self._facts: dict[str, asyncio.Queue[Event]] = {}

    def tell(self, assignment_id: str, fact: Event) -> None:
        """Send a fact of an assignment, after those before it."""
        if (facts := self._facts.get(assignment_id)) is not None:
            facts.put_nowait(fact)

    @activity.defn(name="assignment")
    async def assignment(self, visit: VisitCall) -> None:
        """Have a lifecycle here until it is given back; its beat is the lease."""
        name, workflow_id = visit.assignment_id, activity.info().workflow_id
        ended = self._ended[name] = asyncio.Event()
        self._facts[name] = asyncio.Queue()
        beat = asyncio.create_task(self._beat(visit), name=f"beat of {name}")
        send = asyncio.create_task(self._send(name, str(workflow_id)), name=f"facts of {name}")
        try:
            told = {**visit.work, "copy": plain(visit.copy), "assignment_id": name}
            given = decode(Assignment, encode(told))
            async with self._slot():
                await self.acts.begin(given)
                handle = self._client.get_workflow_handle(str(workflow_id))
                placed = PlacedCall(assignment_id=name, worker=self._name)
                await handle.signal("placed", placed)
                await self._until_over(name, ended, send)
        except asyncio.CancelledError:
            # Taken back in the moment in which it was taken: nobody will order its end.
            if (why := activity.cancellation_details()) is not None and why.cancel_requested:
                await self.acts.end(name)
            raise
        finally:
            beat.cancel()
            send.cancel()
            await asyncio.gather(beat, send, return_exceptions=True)
            del self._ended[name], self._facts[name]
            self._ending.discard(name)

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        """Have one of our slots, or give back what came while none was free.

        Each queue gives as many as there are slots; another worker may have one.
        """
        try:
            async with asyncio.timeout(options.SLOT_WITHIN):
                await self._slots.acquire()
        except TimeoutError:
            raise ApplicationError(
                f"{self._name} has no free slot", type="Full", category=BENIGN
            ) from None
        try:
            yield
        finally:
            self._slots.release()

    async def _until_over(self, name: str, ended: asyncio.Event, send: asyncio.Task[None]) -> None:
        """Return once it was given back; ApplicationError where the worker has it no more.

        Else it would go on beating for what it lost, or of which it can tell nothing any more, and
        no other worker would get it.
        """
        waits = [asyncio.create_task(each) for each in (ended.wait(), self.acts.until_over(name))]
        try:
            await asyncio.wait([*waits, send], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        if send.done() and not send.cancelled():
            send.result()
        if not ended.is_set() and name not in self._ending:
            raise ApplicationError(
                f"{self._name} lost {name}, or hands it on", type="Over", category=BENIGN
            )

    async def _beat(self, visit: VisitCall) -> None:
        """Show the server that this worker lives, and the worker that the server heard it."""
        token = activity.info().task_token
        handle = self._client.get_async_activity_handle(task_token=token)
        every = visit.lease / options.BEATS
        while True:
            activity.heartbeat()  # so that the SDK's own timer knows
            sent = self.acts.now()
            # What was cancelled goes on beating until the SDK ends it.
            with suppress(RPCError, TimeoutError, AsyncActivityCancelledError):
                # Not `wait_for`: if it is cancelled as the answer comes, it goes on beating.
                async with asyncio.timeout(visit.lease):
                    await handle.heartbeat()
                self.acts.confirmed(visit.assignment_id, sent)
            await asyncio.sleep(every)

    async def _send(self, name: str, workflow_id: str) -> None:
        handle, facts = self._client.get_workflow_handle(workflow_id), self._facts[name]
        while True:
            report = ReportCall(assignment_id=name, event=await facts.get())
            pause = options.AGAIN_AFTER
            while True:
                try:
                    await handle.signal("report", report)
                    break
                except RPCError as problem:
                    if problem.status is RPCStatusCode.NOT_FOUND:
                        return  # it is over, and nobody wants to know
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, options.AGAIN_CAP)

    @activity.defn(name="perform")
    async def perform(self, order: OrderCall) -> OrderAnswer:
        """Carry out an order; a second delivery joins the first."""
        news = News(record=order.record, journal=order.journal, row=order.row)
        async with _beating(options.ORDER):
            return OrderAnswer(
                event=await self.acts.perform(order.assignment_id, order.order, news)
            )

    @activity.defn(name="reclaim")
    async def reclaim(self, lost: ReclaimCall) -> OrderAnswer:
        """Make sure that nothing of a lost attempt is alive here."""
        async with _beating(options.ORDER):
            told = await self.acts.reclaim(lost.assignment_id, lost.attempt, lost.marks)
        return OrderAnswer(event=told)

    @activity.defn(name="end")
    async def end(self, assignment_id: str) -> OrderAnswer:
        """Give an assignment back."""
        self._ending.add(assignment_id)
        async with _beating(options.ORDER):
            await self.acts.end(assignment_id)
        if (ended := self._ended.get(assignment_id)) is not None:
            ended.set()
        return OrderAnswer()


@asynccontextmanager
async def _beating(timeouts: options.Timeouts) -> AsyncIterator[None]:
    async def beat() -> None:
        while True:
            await asyncio.sleep(timeouts.beat.total_seconds() / BEATS_IN_TIME)
            activity.heartbeat()

    task = asyncio.create_task(beat(), name="signs of life")
    try:
        yield
    finally:
        task.cancel()
