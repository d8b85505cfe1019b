"""The coordinator's side of the server: it has lifecycles decided on, and hands commits back.

A call that the server does not answer is made again under the same id, for as long as somebody
waits for it. Must not know what a fact means.
"""

from __future__ import annotations

import asyncio
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from temporalio.client import Client, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from lifecycle.owner.decider import Beginning, DecisionLostError, FactAnswer, Telling
from orchestrator.engines.temporal import options
from orchestrator.engines.temporal.payloads import WorkflowEnd, WorkflowStart

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lifecycle.record import Transaction
    from orchestrator.engines.temporal.activities import Keepers
    from orchestrator.engines.temporal.options import Queues


class TemporalDecider:
    """Has each lifecycle decided on by a workflow of its own."""

    def __init__(
        self, client: Client, queues: Queues, keepers: Keepers, lease: float = options.LEASE
    ) -> None:
        self._client, self._queues, self._keepers = client, queues, keepers
        self._lease = lease

    async def begin(
        self, beginning: Beginning, keep: Callable[[tuple[Transaction, ...]], Awaitable[None]]
    ) -> None:
        """Begin a workflow, or go on with the one that runs."""
        agent_id = beginning.copy.agent_id
        self._keepers.of[agent_id] = keep
        start = WorkflowStart(beginning=beginning, project=self._queues.prefix, lease=self._lease)
        begun = False
        while not begun:
            with suppress(DecisionLostError):  # it ended between the two calls
                try:
                    await _until_answered(lambda: self._start(agent_id, start))
                except WorkflowAlreadyStartedError:
                    await self._update(agent_id, "renew", beginning, uuid.uuid4().hex)
                begun = True

    async def _start(self, agent_id: str, start: WorkflowStart) -> None:
        await self._client.start_workflow(
            "lifecycle",
            start,
            id=self._queues.workflow_id(agent_id),
            task_queue=self._queues.workflows,
        )

    async def take(self, agent_id: str, telling: Telling) -> FactAnswer:
        """Tell a fact as an update, whose id for a person's request is that of the request."""
        known = f"request-{telling.request_id}" if telling.request_id else uuid.uuid4().hex
        return await self._update(agent_id, "take", telling, known)

    async def _update(self, agent_id: str, name: str, value: Any, known: str) -> FactAnswer:
        handle = self._client.get_workflow_handle(self._queues.workflow_id(agent_id))

        async def ask() -> FactAnswer:
            verdict: FactAnswer = await handle.execute_update(
                name, value, id=known, result_type=FactAnswer, rpc_timeout=options.VERDICT_WITHIN
            )
            return verdict

        told: FactAnswer = await _until_answered(ask, agent_id)
        return told

    async def release(self, agent_id: str) -> tuple[str, ...]:
        """Let the workflow end; returns once all that it decided is kept."""
        handle = self._client.get_workflow_handle(
            self._queues.workflow_id(agent_id), result_type=WorkflowEnd
        )
        try:
            await _until_answered(lambda: handle.signal("release"), agent_id)
            done: WorkflowEnd = await _until_answered(handle.result, agent_id)
        except DecisionLostError:
            return ()
        return done.effects

    def part(self, agent_id: str) -> None:
        """Hand no commit of this lifecycle to this process any more."""
        self._keepers.of.pop(agent_id, None)


async def _until_answered(call: Callable[[], Awaitable[Any]], agent_id: str = "") -> Any:
    """Call until the server answers; DecisionLostError where no workflow runs any more."""
    pause = options.AGAIN_AFTER
    while True:
        try:
            return await call()
        except WorkflowUpdateRPCTimeoutOrCancelledError:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise asyncio.CancelledError from None
        except RPCError as problem:
            if problem.status is RPCStatusCode.NOT_FOUND:
                raise DecisionLostError(f"no workflow decides on {agent_id}") from problem
        await asyncio.sleep(pause)
        pause = min(2 * pause, options.AGAIN_CAP)
