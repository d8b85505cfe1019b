"""A worker: one machine's part of lifecycles that another process decides.

It carries out orders by the same `Performer` as a runner of one machine, tells facts, and ends its
agents by itself where it does not hear from the server. It must not decide, commit or look at what
all machines share.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from lifecycle.perform.performer import Performer, sampler_of
from lifecycle.perform.removal import remove_all
from lifecycle.record import mark_of
from lifecycle.setup.agent_workspace import save
from lifecycle.shortage_retry import text_of
from lifecycle.worker.assigned_machine import assigned
from lifecycle.worker.lease import Lease
from lifecycle.worker.visit import LAST_SPAWNS, AssignmentOverError, Visit
from runtime.errors import RuntimeFault
from runtime.processes.watchdog import client as watchdog

if TYPE_CHECKING:
    from lifecycle.machine.events import Event
    from lifecycle.record import PendingEffect
    from lifecycle.services import MachineServices
    from lifecycle.worker.assignment import Assignment, News
    from lifecycle.worker.branch_travel import BranchTravel
    from lifecycle.worker.visit import Tell

REFUSED = "refused {agent}: {why}"
LOOKS = 50
"""Looks at the leases in the time of one, at least: a machine may have slept."""


class Worker:
    """One machine's part of lifecycles that another process decides.

    Without `travel` all workers have the same clone, as in a test.
    """

    def __init__(
        self,
        machine: MachineServices,
        *,
        tell: Tell,
        lease: float,
        travel: BranchTravel | None = None,
    ) -> None:
        self._machine = machine
        self._tell = tell
        self.lease = lease
        """Seconds after which the server gives an assignment to another worker."""
        self._travel = travel
        self._sampler = sampler_of(machine)
        self._visits: dict[str, Visit] = {}
        self._beginning = asyncio.Lock()
        self._watch: asyncio.Task[None] | None = None
        self._rescuing: asyncio.Task[None] | None = None
        self._drains = False
        self.refusals: dict[str, str] = {}
        """Why this worker took a lifecycle not, in words for people, by agent."""

    @property
    def drains(self) -> bool:
        """Whether it takes nothing more."""
        return self._drains

    async def start(self) -> None:
        """End what an earlier process of this worker left alive, and of no other worker."""
        terminals, grace = self._machine.terminals, self._machine.shared.settings().stop_grace
        attended = {process.identity.mark for process in terminals.live()}
        while strays := [
            stray
            for stray in terminals.find_all_marked()
            if stray.machine == self._machine.machine_id and stray.mark not in attended
        ]:
            # Also more than once: beside one of them no agent may begin.
            report = self._machine.shared.report
            report("worker_strays_stopping", pids=[stray.pid for stray in strays])
            await asyncio.gather(*(terminals.stop_identity(stray, grace) for stray in strays))
        await self._rescue()

    async def _rescue(self) -> None:
        """Save and push what lost assignments left only here; what cannot be is tried again."""
        store = self._machine.shared.store
        for agent, noted in (await store.all(LAST_SPAWNS)).items():
            if self._travel is None or self._visited(agent) or not noted.get("only_here"):
                continue
            try:
                workspace = await self._machine.workspaces.open(agent)
                if workspace is not None:
                    attempt = int(noted.get("attempt", 0))
                    await save(self._machine, workspace, attempt, "its assignment was over")
                await self._travel.rescue(agent)
            except (RuntimeFault, OSError) as error:
                report = self._machine.shared.report
                report("worker_save_failed", agent_id=agent, reason=text_of(error))
            else:
                if not self._visited(agent):  # else that notes what it starts
                    await store.put(LAST_SPAWNS, agent, {**noted, "only_here": False})

    async def _tidy(self, over: tuple[str, ...]) -> None:
        """Bring to safety what was lost, then remove what nobody needs here any more."""
        await self._rescue()
        store = self._machine.shared.store
        for agent, noted in (await store.all(LAST_SPAWNS)).items():
            if agent not in over or self._visited(agent) or noted.get("only_here"):
                continue
            try:
                await remove_all(self._machine, agent, int(noted.get("attempt", 0)))
                if self._travel is not None:
                    await self._travel.forget(agent)
            except (RuntimeFault, OSError) as error:
                report = self._machine.shared.report
                report("worker_removal_failed", agent_id=agent, reason=text_of(error))
            else:
                await store.remove(LAST_SPAWNS, agent)

    def _visited(self, agent: str) -> bool:
        return any(each.local.agent_id == agent for each in self._visits.values())

    async def begin(self, assignment: Assignment) -> None:
        """Take an assignment; what this worker had of the same agent before is ended first."""
        if self._drains:
            raise AssignmentOverError("this worker is being drained and takes no assignment")
        since, agent = self.now(), assignment.agent_id
        async with self._beginning:
            if assignment.assignment_id in self._visits:
                return
            try:
                await self._begin(assignment, since)
            except Exception as problem:
                self.refusals[agent] = REFUSED.format(agent=agent, why=text_of(problem))
                report = self._machine.shared.report
                report("worker_assignment_refused", agent_id=agent, reason=text_of(problem))
                raise
            self.refusals.pop(agent, None)

    async def _begin(self, assignment: Assignment, since: int) -> None:
        agent = assignment.agent_id
        for former in [each for each in self._visits.values() if each.local.agent_id == agent]:
            await former.leave()
        machine = await assigned(self._machine, assignment)
        visit = Visit(
            assignment,
            machine=machine,
            performer=Performer(machine, self._sampler),
            travel=self._travel,
            lease=self._lease_of(assignment, since),
            tell=self._tell,
        )
        self._visits[assignment.assignment_id] = visit
        self._machine.shared.report(
            "worker_assignment_taken",
            agent_id=agent,
            attempt=assignment.attempt,
            title=visit.local.task.title,
            used=len(self._visits),
        )
        loop = asyncio.get_running_loop()
        if self._watch is None or self._watch.done():
            self._watch = loop.create_task(self._watch_leases(), name="leases of assignments")
        if self._rescuing is None or self._rescuing.done():
            tidying = self._tidy(assignment.over)
            self._rescuing = loop.create_task(tidying, name="what former assignments left")

    async def perform(self, assignment_id: str, order: PendingEffect, news: News) -> Event | None:
        """Carry out an order and return its result; a second delivery gets the same.

        AssignmentOverError where the assignment is not, or no longer, this worker's.
        """
        return await self._visit(assignment_id).perform(order, news)

    async def reclaim(self, assignment_id: str, attempt: int, marks: tuple[str, ...]) -> Event:
        """Return what an attempt left to say here, whose worker was lost; nothing of it lives."""
        return await self._visit(assignment_id).reclaim(attempt, marks)

    async def end(self, assignment_id: str) -> None:
        """Give an assignment back at rest: everything is saved and pushed."""
        visit = self._visits.get(assignment_id)
        if visit is not None:
            await visit.finish()
            self._visits.pop(assignment_id, None)

    def confirmed(self, assignment_id: str, sent: int | None = None) -> None:
        """Note that the server has heard a beat of this assignment, which was `sent` then.

        Without the instant it counts as sent now, which is late if the answer took long.
        """
        visit = self._visits.get(assignment_id)
        if visit is not None:
            visit.lease.confirm(self.now() if sent is None else sent)

    @staticmethod
    def now() -> int:
        """Return the instant by which leases are counted: nanoseconds since boot."""
        return watchdog.now()

    async def until_over(self, assignment_id: str) -> None:
        """Return once an assignment is not this worker's any more, and nothing of it is alive.

        So it does when the worker lost it, handed it on, or ended it: who beats for it must stop.
        """
        visit = self._visits.get(assignment_id)
        if visit is not None:
            await visit.over.wait()

    def assignments(self) -> tuple[str, ...]:
        """Return the assignments that are this worker's."""
        return tuple(name for name, each in self._visits.items() if not each.lease.is_over())

    async def drain(self, why: str = "the worker was shutting down") -> None:
        """Take nothing new, and hand on what there is; what an agent left is saved and pushed.

        Where one was alive, who decides orders that, and ends the assignment.
        """
        self._drains = True
        await asyncio.gather(*(each.drain(why) for each in self._visits.values()))

    async def aclose(self) -> None:
        """End everything, saved here; what was not ended by `end` is not pushed."""
        self._drains = True
        await asyncio.gather(*(each.leave() for each in self._visits.values()))
        for task in filter(None, (self._watch, self._rescuing)):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._visits.clear()

    def _visit(self, assignment_id: str) -> Visit:
        visit = self._visits.get(assignment_id)
        if visit is None:
            raise AssignmentOverError(f"this worker has no assignment {assignment_id}")
        return visit

    def _lease_of(self, assignment: Assignment, since: int) -> Lease:
        prefix = mark_of(assignment.agent_id, assignment.birth)
        # Of two machines with other settings, the one that takes the work away counts.
        lease = min(self.lease, float(assignment.settings.get("lease", self.lease)))
        return Lease(
            lease,
            since=since,
            now=self.now,
            hold=lambda end: watchdog.set_deadline(prefix, end),
        )

    async def _watch_leases(self) -> None:
        """End what is past its lease, for as long as there are assignments."""
        while self._visits:
            for name, visit in tuple(self._visits.items()):
                if visit.ended:
                    del self._visits[name]
                elif visit.lease.is_over() and not visit.leaves:
                    agent = visit.local.agent_id
                    report = self._machine.shared.report
                    report("worker_assignment_lost", agent_id=agent, assignment=name)
                    visit.leave()
            left = min((each.lease.left() for each in self._visits.values()), default=0.0)
            pause = self.lease / LOOKS
            await asyncio.sleep(min(max(left, pause / 10), pause))
