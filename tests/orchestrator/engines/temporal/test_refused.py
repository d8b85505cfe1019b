"""A lifecycle that every worker refuses is offered again after pauses: each offer is history."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING

from temporalio import activity
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

from lifecycle.drive import WorkingCopy
from lifecycle.machine import effects as do
from lifecycle.machine.policy import Policy
from lifecycle.machine.states import Preparing
from lifecycle.owner.decider import Beginning, Terms
from lifecycle.record import AgentLifecycle, PendingEffect
from orchestrator.engines.temporal import hosts
from orchestrator.engines.temporal.options import Queues, place_again_after
from orchestrator.engines.temporal.payloads import VisitCall, WorkflowStart
from tests.lifecycle.every_state import EVERY
from tests.waiting import until

if TYPE_CHECKING:
    from tests.orchestrator.engines.temporal.stage import Stage

PREPARING = next(state for state, _, _ in EVERY if type(state) is Preparing)


def test_the_pauses_grow_up_to_a_minute() -> None:
    pauses = [place_again_after(number).total_seconds() for number in (1, 2, 3, 100_000)]
    assert pauses == [1.0, 2.0, 4.0, 60.0]


async def test_a_lifecycle_that_is_refused_is_not_offered_again_at_once(
    stage: Stage,
) -> None:
    offered: list[float] = []

    @activity.defn(name="assignment")
    async def refuse(visit: VisitCall) -> None:
        del visit
        offered.append(asyncio.get_running_loop().time())
        raise ApplicationError("colour is not a setting")

    queues = Queues(uuid.uuid4().hex[:8])
    record = AgentLifecycle(agent_id="agent-T001", task="T", work=PREPARING)
    record.derive()
    order = PendingEffect(
        effect_id="e", agent_id="agent-T001", effect=do.PrepareWorkspace(attempt=1)
    )
    beginning = Beginning(
        copy=WorkingCopy(record=record),
        terms=Terms(policy=Policy(), work={"settings": {}}),
        orders=(order,),
    )
    start = WorkflowStart(beginning=beginning, project=queues.prefix, lease=60.0)
    client = stage.client

    async def offer() -> None:
        refuses = Worker(client, task_queue=queues.agents_with(""), activities=[refuse])
        async with hosts.decides(client, queues), refuses:
            handle = await client.start_workflow(
                "lifecycle", start, id=uuid.uuid4().hex, task_queue=queues.workflows
            )
            await until(lambda: len(offered) == 3)
            await handle.terminate()

    # Where the connection of the stage lives.
    await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(offer(), stage.loop))
    first, second, third = offered
    assert second - first >= 1.0
    assert third - second >= 2.0
