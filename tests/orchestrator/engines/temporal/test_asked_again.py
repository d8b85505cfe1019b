"""What is asked again, because its answer was lost, is not decided on twice: not by a later run."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest

from lifecycle.clock import SystemClock
from lifecycle.drive import WorkingCopy
from lifecycle.machine import events as on
from lifecycle.machine.policy import Policy
from lifecycle.machine.states import Queued
from lifecycle.owner.decider import Beginning, Telling, Terms
from lifecycle.record import AgentLifecycle
from orchestrator.engines.temporal import hosts, options
from orchestrator.engines.temporal.activities import Keepers
from orchestrator.engines.temporal.client import TemporalDecider
from orchestrator.engines.temporal.options import Queues
from tests.waiting import until

if TYPE_CHECKING:
    from temporalio.client import Client

    from lifecycle.record import Transaction
    from tests.orchestrator.engines.temporal.stage import Stage

AGENT, LEASE = "agent-T001", 60.0
pytestmark = pytest.mark.timeout(200)


async def test_a_request_of_an_earlier_run_gets_the_answer_that_it_got(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(options, "LONG_HISTORY", 10)
    # Where the connection of the stage lives.
    asked = asked_again_in_a_later_run(stage.client)
    await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asked, stage.loop))


async def asked_again_in_a_later_run(client: Client) -> None:
    queues, keepers = Queues(uuid.uuid4().hex[:8]), Keepers()
    kept: list[Transaction] = []

    async def keep(commits: tuple[Transaction, ...]) -> None:
        kept.extend(commits)

    copy = WorkingCopy(record=AgentLifecycle(agent_id=AGENT, task="T", work=Queued()))
    decider = TemporalDecider(client, queues, keepers, LEASE)
    handle = client.get_workflow_handle(queues.workflow_id(AGENT))

    async def say(request_id: int) -> int:
        event = on.Guided(at=SystemClock().now(), text=f"word {request_id}")
        answer = await decider.take(AGENT, Telling(event=event, request_id=request_id))
        assert not answer.refused
        return answer.seq

    async with AsyncExitStack() as stack:
        for each in (hosts.decides(client, queues), hosts.keeps(client, queues, keepers)):
            await stack.enter_async_context(each)
        await decider.begin(Beginning(copy=copy, terms=Terms(policy=Policy())), keep)
        first_run = (await handle.describe()).run_id
        answers = {1: await say(1)}
        while (await handle.describe()).run_id == first_run:
            number = len(answers) + 1
            answers[number] = await say(number)
        latest = len(answers)
        assert await say(latest) == answers[latest]
        assert await say(latest - 1) == answers[latest - 1]
        await say(latest + 1)
        await until(lambda: len(kept) == latest + 1, lambda: f"{len(kept)} of {latest + 1}")
        assert [each.taken for each in kept] == [(number,) for number in range(1, latest + 2)]
        await handle.terminate()
