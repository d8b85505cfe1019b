"""One assignment on this worker: its copy of the lifecycle, its lease, and the orders it had.

An order is carried out once, however often it is delivered. After the lease is over nothing is
told, answered or pushed. Must not decide what follows of a fact.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from lifecycle.attempt.watch import LOOK_AGAIN
from lifecycle.errors import LifecycleError
from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.mask_values import masked
from lifecycle.past import fitted_fact
from lifecycle.record import mark_of
from lifecycle.setup.agent_workspace import opened, save
from lifecycle.shortage_retry import fault_of, put_off, text_of
from lifecycle.worker.branch_travel import MovedElsewhereError
from runtime.errors import CheckedOutError, RuntimeFault, WorkspaceError

if TYPE_CHECKING:
    from lifecycle.machine.events import Event
    from lifecycle.perform.performer import Performer
    from lifecycle.record import PendingEffect
    from lifecycle.services import MachineServices
    from lifecycle.worker.assignment import Assignment, News
    from lifecycle.worker.branch_travel import BranchTravel
    from lifecycle.worker.lease import Lease

LAST_SPAWNS = "worker.last_spawns"
"""Documents: the id of the process that each agent had last on this worker, and whether what it
left may be only here."""
BY_OTHERS = (
    do.LookAtBlockers, do.LookAtPullRequest, do.MergeBranch, do.OpenPullRequest, do.PostReplies,
)  # fmt: skip
"""Orders that touch what all machines share."""


BEGINS = (do.PrepareWorkspace, do.SpawnAgent, do.RunGates, do.RunReview)
"""Orders that a worker which is drained leaves to the next one."""
OF_WHAT_IS_HERE = (do.StopAgent, do.FreezeAgent, do.ThawAgent, do.RemoveWorkspace)


class AssignmentOverError(LifecycleError):
    """The assignment is not this worker's any more, so nothing is done or answered for it."""


class Tell(Protocol):
    """Takes a fact of an assignment, without blocking."""

    def __call__(self, assignment_id: str, fact: Event, /) -> None:
        """Send it to who decides."""
        ...


class Visit:
    """One assignment on this worker."""

    def __init__(  # noqa: PLR0913  # all by name
        self,
        assignment: Assignment,
        *,
        machine: MachineServices,
        performer: Performer,
        travel: BranchTravel | None,
        lease: Lease,
        tell: Tell,
    ) -> None:
        self.assignment = assignment
        self.local = assignment.local_copy()
        self.lease = lease
        self._machine, self._performer, self._travel = machine, performer, travel
        self._tell_all = tell
        self._orders: dict[str, asyncio.Task[Event | None]] = {}
        self._beginning: set[asyncio.Task[Event | None]] = set()
        self._bringing = asyncio.Lock()
        self._brought = travel is None
        self._drains = ""
        self._leaving: asyncio.Task[None] | None = None
        self.over = asyncio.Event()
        """Set once the assignment is not this worker's any more, and nothing of it is alive."""

    @property
    def prefix(self) -> str:
        """How the marks of all its processes begin."""
        return mark_of(self.local.agent_id, self.assignment.birth)

    # --- orders -------------------------------------------------------------------------------

    async def perform(self, order: PendingEffect, news: News) -> Event | None:
        """Carry out an order, once; the second delivery gets the same answer."""
        if self._drains and isinstance(order.effect, BEGINS):
            await self.finish()
        self._require()
        task = self._orders.get(order.effect_id)
        if task is None:
            news.onto(self.local)
            name = f"order {order.effect_id}"
            task = asyncio.get_running_loop().create_task(self._carry_out(order), name=name)
            self._orders[order.effect_id] = task
            if isinstance(order.effect, BEGINS):
                self._beginning.add(task)
                task.add_done_callback(self._beginning.discard)
        try:
            answer = await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():  # because it is handed on or over, not by who asked
                raise self._over() from None
            raise
        except BaseException:
            self._orders.pop(order.effect_id, None)  # delivered again, it is tried again
            raise
        self._require()
        return answer

    async def reclaim(self, attempt: int, marks: tuple[str, ...]) -> Event:
        """Make sure that nothing of a lost attempt is alive here; return what it left to say."""
        self._require()
        return self._to_tell(await self._performer.reclaim(self.local, attempt, marks))

    def _require(self) -> None:
        if self.lease.is_over():
            raise self._over()

    def _over(self) -> AssignmentOverError:
        return AssignmentOverError(
            f"assignment {self.assignment.assignment_id} of {self.local.agent_id} is over on this "
            "worker: it heard nothing from the server for too long, or gave it back"
        )

    async def _carry_out(self, order: PendingEffect) -> Event | None:
        effect = order.effect
        if isinstance(effect, BY_OTHERS):
            raise LifecycleError(
                f"{type(effect).__name__} touches what all machines share: no worker performs it"
            )
        try:
            await self._bring(effect)
            if isinstance(effect, do.SpawnAgent):
                await self._note_spawn(order.effect_id, only_here=True)
            event = await self._performer.perform(
                self.local, order.effect_id, effect, self._tell, self.assignment.afford
            )
            if isinstance(event, on.SpawnFailed) and event.fault is on.Fault.USER:
                worker = self._machine.machine_id.rpartition(".")[2]
                text = f"{event.text} (on worker {worker}; another one may have it)"
                event = replace(event, text=text, fault=on.Fault.ENVIRONMENT)
            if isinstance(event, on.SnapshotTaken):
                await self._publish()
            if isinstance(event, (on.SnapshotTaken, on.GatesFinished, on.ReviewFinished)):
                agent_id, birth = self.local.agent_id, self.assignment.birth
                self._machine.attempt_left(agent_id, birth, event.attempt)
        except (RuntimeFault, OSError) as error:
            event = self._failed(order, error)
            if event is None:
                raise
        return None if event is None else self._to_tell(event)

    def _to_tell(self, event: Event) -> Event:
        """Return a fact as it may travel: without secrets, and not too long."""
        return fitted_fact(masked(event, self._machine.shared.masker))

    def _failed(self, order: PendingEffect, error: Exception) -> Event | None:
        """Return the fact that says what the machine or the remote prevented, if there is one."""
        # Of a start it would be the fault of the agent's program.
        users = isinstance(order.effect, do.PrepareWorkspace) and (
            isinstance(error, WorkspaceError) and not isinstance(error, CheckedOutError)
        )
        fault = fault_of(error, on.Fault.USER if users else on.Fault.ENVIRONMENT)
        now = self._machine.shared.clock.now()
        return put_off(order.effect_id, order.effect, now, error, fault)

    async def _note_spawn(self, spawn_id: str, *, only_here: bool) -> None:
        noted = {"spawn_id": spawn_id, "attempt": self.local.attempt, "only_here": only_here}
        await self._machine.shared.store.put(LAST_SPAWNS, self.local.agent_id, noted)

    async def _last_spawn(self) -> str:
        noted = (await self._machine.shared.store.all(LAST_SPAWNS)).get(self.local.agent_id, {})
        return str(noted.get("spawn_id", ""))

    async def _bring(self, effect: do.Effect) -> None:
        """Have the branch and its workspace here before the first order that needs them."""
        if isinstance(effect, OF_WHAT_IS_HERE):
            return
        async with self._bringing:
            if self._brought or self._travel is None:
                return
            local = self.local
            last = local.ledger[-1].spawn_id if local.ledger else ""
            latest = bool(last) and await self._last_spawn() == last
            await self._travel.bring(self.assignment, local, latest=latest)
            self._brought = True

    async def _publish(self) -> None:
        if self._travel is not None and not self.lease.is_over():
            await self._travel.publish(self.local)

    # --- facts --------------------------------------------------------------------------------

    def _tell(self, event: Event) -> None:
        """Tell a fact, without secrets; nothing once the lease is over."""
        if self.lease.is_over():
            return
        if self._drains and isinstance(event, on.AgentExited) and event.word is None:
            event = replace(event, interrupted=self._drains)
        self._tell_all(self.assignment.assignment_id, self._to_tell(event))

    # --- ends ---------------------------------------------------------------------------------

    async def drain(self, why: str) -> None:
        """Hand on what another worker can begin anew; an agent ends as interrupted before.

        Its end is told, and the orders that follow are carried out until it rests.
        """
        self._drains = why
        beginning = tuple(self._beginning)
        for task in beginning:
            task.cancel()
        await asyncio.gather(*beginning, return_exceptions=True)
        lives = self._performer.attempt_watch(self.local.agent_id) is not None
        await self._end_processes(self._machine.shared.settings().stop_grace)
        if lives or any(not task.done() for task in self._orders.values()):
            return
        try:
            await self.finish()
        except (RuntimeFault, OSError) as error:
            self._report("worker_save_failed", error)

    def _report(self, event: str, error: Exception) -> None:
        report = self._machine.shared.report
        report(event, agent_id=self.local.agent_id, reason=text_of(error))

    async def finish(self) -> None:
        """Be at rest: nothing alive, everything saved and pushed."""
        if not self.lease.is_over():
            await self._end_processes(self._machine.shared.settings().stop_grace)
            if self._brought and self.local.record.facts.get("branch"):
                with contextlib.suppress(MovedElsewhereError):  # ours is saved there
                    await self._publish()
            if spawn_id := await self._last_spawn():
                await self._note_spawn(spawn_id, only_here=False)
            self._machine.shared.report(
                "worker_assignment_ended",
                agent_id=self.local.agent_id,
                attempt=self.local.attempt,
                commit=self._travel.pushed(self.local.agent_id) if self._travel else "",
                reason=self._drains,
            )
        await self.leave()

    @property
    def leaves(self) -> bool:
        """Whether it is being ended."""
        return self._leaving is not None

    @property
    def ended(self) -> bool:
        """Whether nothing of it is alive here."""
        return self._leaving is not None and self._leaving.done()

    def leave(self) -> asyncio.Future[None]:
        """End what is alive, and save here what it left; told, answered and pushed is nothing."""
        self.lease.cease()
        if self._leaving is None:
            name = f"end of assignment {self.assignment.assignment_id}"
            self._leaving = asyncio.get_running_loop().create_task(self._leave(), name=name)
            self._leaving.add_done_callback(lambda _: self.over.set())
        return asyncio.shield(self._leaving)

    async def _leave(self) -> None:
        under_way = [task for task in self._orders.values() if not task.done()]
        for task in under_way:
            task.cancel()
        await self._end_processes(0.0)
        await asyncio.gather(*under_way, return_exceptions=True)
        await self._end_processes(0.0)  # what an order had just started
        if self._performer.let_go(self.local.agent_id) is not None:
            await self._save()
        self.lease.release()

    async def _save(self) -> None:
        try:
            workspace = await opened(self._machine, self.local)
            if workspace is not None:
                await self._machine.workspaces.unlock(workspace)
                await save(self._machine, workspace, self.local.attempt, "its assignment was over")
        except (RuntimeFault, OSError) as error:
            self._report("worker_save_failed", error)

    async def _end_processes(self, grace: float) -> None:
        """Return only when nothing of it is alive; what hangs in the kernel is waited for."""
        ours = [
            each
            for each in self._machine.terminals.live()
            if each.identity.mark.startswith(self.prefix)
        ]
        for process in ours:
            while (await process.stop(grace)).survivors:  # noqa: ASYNC110  # the kernel tells nobody
                await asyncio.sleep(LOOK_AGAIN)
