"""Finds lifecycles that no worker can take, and has people told what is missing.

Looks at what the coordinator knows of workers, and at who asks the server for work: a worker need
not know the coordinator. Must not change what becomes of a lifecycle.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest

from lifecycle.machine.states import ACTIVE, BackingOff, attempt_of
from lifecycle.record import worker_of
from orchestrator.engines.temporal.visits import label_of
from orchestrator.wording.unplaced import missing
from orchestrator.wording.workers import UNPLACED

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from temporalio.client import Client

    from lifecycle.reporting import Report
    from lifecycle.services import SharedServices
    from lifecycle.store.rows.workers import WorkerRow
    from lifecycle.working_copy import LocalCopy
    from orchestrator.engines.temporal.options import Queues

    Asking = Callable[[str], Awaitable[frozenset[str]]]

LOOK_EVERY = 2.0
"""Seconds; so long something is missing before it is said."""
LONG_POLL = 75.0
"""Seconds within which who is up asks the server again."""


class Placement:
    """What is missing, by lifecycle; kept in the store for all who show it."""

    def __init__(
        self,
        shared: SharedServices,
        live: Callable[[], Mapping[str, LocalCopy]],
        asking: Asking,
        at: Asking,
    ) -> None:
        """`asking` names who asks for work with a label, `at` who asks for orders of a worker."""
        self._shared, self._live = shared, live
        self._asking, self._at = asking, at
        self._kept: dict[str, str] = {}
        """What is in the store, by lifecycle; "" after the first look: a worker may just begin."""
        self._since: dict[str, float] = {}
        """Since when work with a label has nobody to take it."""
        self._reported: set[str] = set()

    async def begin(self) -> None:
        """Forget what a coordinator that was killed found."""
        for agent in await self._shared.store.all(UNPLACED):
            await self._shared.store.remove(UNPLACED, agent)

    async def look(self) -> None:
        """Find what is missing now, and have it told once it lasts."""
        present = self._shared.clock.now()
        wanting = {
            agent: local
            for agent, local in self._live().items()
            if isinstance(local.record.work, (*ACTIVE, BackingOff))
        }
        known = await self._shared.store.workers.all() if wanting else ()
        found: dict[str, str] = {}
        by_label: dict[str, list[LocalCopy]] = {}
        for agent, local in wanting.items():
            if text := await self._missing(local, known, present):
                found[agent] = text
                by_label.setdefault(label_of(local.record), []).append(local)
        await self._keep(found)
        for label in self._since.keys() - by_label.keys():
            self._since.pop(label)
            if label in self._reported:
                self._reported.discard(label)
                self._shared.report("worker_found", label=label)
        for label, waiting in by_label.items():
            self._announce(label, waiting, found[waiting[0].agent_id], present)

    async def _keep(self, found: Mapping[str, str]) -> None:
        for agent in [each for each in self._kept if each not in found]:
            if self._kept.pop(agent):
                await self._shared.store.remove(UNPLACED, agent)
        for agent, text in found.items():
            if self._kept.get(agent, text) != text:
                await self._shared.store.put(UNPLACED, agent, {"text": text})
                self._kept[agent] = text
            else:
                self._kept.setdefault(agent, "")

    def _announce(
        self, label: str, waiting: Sequence[LocalCopy], text: str, present: float
    ) -> None:
        """Tell of it once, where it lasts for two looks; by a notification, where for a lease."""
        since = self._since.setdefault(label, present)
        if present > since and label not in self._reported:
            self._reported.add(label)
            agent_id = waiting[0].agent_id
            self._shared.report("worker_missing", agent_id=agent_id, label=label, reason=text)
        if present - since >= self._shared.settings().lease:
            tasks = [each.task.id for each in waiting]
            self._shared.unplaced(tasks, text, f"{label} {since}")

    async def _missing(self, local: LocalCopy, known: tuple[WorkerRow, ...], present: float) -> str:
        state, label = local.record.work, label_of(local.record)
        has = worker_of(local.record, attempt_of(state)) if isinstance(state, ACTIVE) else ""
        if has and await self._is_up(has, known, present):
            return ""
        asking = await self._asking(label)
        if isinstance(state, BackingOff) and not asking:
            return ""  # it wants none yet
        if not (label or asking or known):
            asking = await self._busy()
        programs = [each.partition(":")[0] for each in local.agent.programs]
        agent_id = local.agent_id
        return missing(known, asking, present, agent_id=agent_id, label=label, programs=programs)

    async def _busy(self) -> frozenset[str]:
        """Return who works at something: with all slots in use it asks for nothing."""
        has = {
            worker_of(each.record, attempt_of(each.record.work))
            for each in self._live().values()
            if isinstance(each.record.work, ACTIVE)
        }
        return frozenset([each for each in has if each and await self._at(each)])

    async def _is_up(self, name: str, known: tuple[WorkerRow, ...], present: float) -> bool:
        heard = next((each for each in known if each.name == name), None)
        if heard is not None:
            return not heard.is_silent(present)
        return bool(await self._at(name))


async def watch(placement: Placement, report: Report) -> None:
    """Look again and again, until it is cancelled."""
    await placement.begin()
    while True:
        await asyncio.sleep(LOOK_EVERY)
        try:
            await placement.look()
        except Exception as problem:  # noqa: BLE001  # whatever it is, lifecycles go on
            report("worker_look_failed", reason=f"{type(problem).__name__}: {problem}")


class Pollers:
    """Who asked the server lately for work, by the names of workers."""

    def __init__(self, client: Client, queues: Queues) -> None:
        self._client, self._queues = client, queues

    async def with_label(self, label: str) -> frozenset[str]:
        """Return who asks for lifecycles with this label, or for any."""
        return await self._of(self._queues.agents_with(label))

    async def of_worker(self, name: str) -> frozenset[str]:
        """Return this worker, if it asks for orders."""
        return await self._of(self._queues.worker(name))

    async def _of(self, queue: str) -> frozenset[str]:
        found = await self._pollers(queue)
        # By the server's clock: this process asks it for work all the time.
        mine = await self._pollers(self._queues.coordinator)
        newest = max((at for _, at in (*found, *mine)), default=0)
        return frozenset(
            who.rpartition("@")[0] or who for who, at in found if newest - at < LONG_POLL
        )

    async def _pollers(self, queue: str) -> list[tuple[str, int]]:
        asked = DescribeTaskQueueRequest(
            namespace=self._client.namespace,
            task_queue=TaskQueue(name=queue),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
        )
        found = await self._client.workflow_service.describe_task_queue(asked)
        return [(each.identity, each.last_access_time.ToSeconds()) for each in found.pollers]
