"""A lifecycle that is given up and taken back before that is over goes on."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, cast

import pytest

from lifecycle.clock import SystemClock
from lifecycle.drive import WorkingCopy
from lifecycle.json_form import plain
from lifecycle.machine import events as on
from lifecycle.machine.policy import Policy
from lifecycle.machine.states import Queued
from lifecycle.owner.decider import Beginning, Telling, Terms
from lifecycle.record import AgentLifecycle
from lifecycle.worker.assignment import Assignment
from orchestrator.engines.temporal import hosts
from orchestrator.engines.temporal.activities import Acting, Keepers
from orchestrator.engines.temporal.client import TemporalDecider
from orchestrator.engines.temporal.options import Queues
from tests.waiting import until

if TYPE_CHECKING:
    from temporalio.client import Client

    from lifecycle.machine.events import Event
    from lifecycle.record import PendingEffect, Transaction
    from lifecycle.worker.assignment import News
    from orchestrator.engines.temporal.activities import Acts
    from tests.orchestrator.engines.temporal.stage import Stage

AGENT, LEASE = "agent-T001", 60.0
pytestmark = pytest.mark.timeout(200)


class Busy:
    """A worker that is never done with an order, and gives an assignment back when it may."""

    def __init__(self) -> None:
        self.ordered: list[str] = []
        self.gives_back, self.may = asyncio.Event(), asyncio.Event()

    async def begin(self, assignment: Assignment) -> None:
        pass

    async def perform(self, assignment_id: str, order: PendingEffect, news: News) -> Event | None:
        del order, news
        self.ordered.append(assignment_id)
        await asyncio.Event().wait()
        return None

    async def end(self, assignment_id: str) -> None:
        del assignment_id
        self.gives_back.set()
        await self.may.wait()

    async def until_over(self, assignment_id: str) -> None:
        del assignment_id
        await asyncio.Event().wait()

    def confirmed(self, assignment_id: str, sent: int | None = None) -> None:
        pass

    def now(self) -> int:
        return 0


async def no_store(commits: tuple[Transaction, ...]) -> None:
    del commits


async def test_what_a_worker_gives_back_meanwhile_is_given_out_again(stage: Stage) -> None:
    # Where the connection of the stage lives.
    taken_back = given_up_and_taken_back(stage.client)
    await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(taken_back, stage.loop))


async def given_up_and_taken_back(client: Client) -> None:
    queues, keepers, busy = Queues(uuid.uuid4().hex[:8]), Keepers(), Busy()
    acting = Acting(client, "w")
    acting.acts = cast("Acts", busy)
    copy = WorkingCopy(record=AgentLifecycle(agent_id=AGENT, task="T", work=Queued()))
    told = plain(Assignment(assignment_id="", copy=copy, settings={}))
    work = {name: told[name] for name in told if name not in ("copy", "assignment_id")}
    beginning = Beginning(copy=copy, terms=Terms(policy=Policy(), work=work))
    decider = TemporalDecider(client, queues, keepers, LEASE)
    async with AsyncExitStack() as stack:
        for each in (
            hosts.decides(client, queues),
            hosts.keeps(client, queues, keepers),
            *hosts.acts(client, queues, acting, name="w", agents=2, lease=LEASE),
        ):
            await stack.enter_async_context(each)
        await decider.begin(beginning, no_store)
        await decider.take(AGENT, Telling(event=on.Admitted(at=SystemClock().now())))
        await until(lambda: len(busy.ordered) == 1, "a worker has it")
        given_up = asyncio.ensure_future(decider.release(AGENT))
        await busy.gives_back.wait()
        await decider.begin(beginning, no_store)
        busy.may.set()
        await until(lambda: len(set(busy.ordered)) == 2, "a worker has it once more")
        given_up.cancel()
        await client.get_workflow_handle(queues.workflow_id(AGENT)).terminate()


async def test_what_was_given_back_before_it_is_taken_back_is_given_out_again(stage: Stage) -> None:
    taken_back = taken_back_late(stage.client)
    await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(taken_back, stage.loop))


async def taken_back_late(client: Client) -> None:
    """Take it back once no worker has it any more, while its commits are still to be kept."""
    queues, keepers, busy, may_keep = (
        Queues(uuid.uuid4().hex[:8]),
        Keepers(),
        Busy(),
        asyncio.Event(),
    )

    async def slow_store(commits: tuple[Transaction, ...]) -> None:
        del commits
        await may_keep.wait()

    acting = Acting(client, "w")
    acting.acts = cast("Acts", busy)
    copy = WorkingCopy(record=AgentLifecycle(agent_id=AGENT, task="T", work=Queued()))
    told = plain(Assignment(assignment_id="", copy=copy, settings={}))
    work = {name: told[name] for name in told if name not in ("copy", "assignment_id")}
    beginning = Beginning(copy=copy, terms=Terms(policy=Policy(), work=work))
    decider = TemporalDecider(client, queues, keepers, LEASE)
    handle = client.get_workflow_handle(queues.workflow_id(AGENT))

    async def nobody_has_it() -> bool:
        pending = (await handle.describe()).raw_description.pending_activities
        return not [each for each in pending if each.activity_type.name != "keep"]

    async with AsyncExitStack() as stack:
        for each in (
            hosts.decides(client, queues),
            hosts.keeps(client, queues, keepers),
            *hosts.acts(client, queues, acting, name="w", agents=2, lease=LEASE),
        ):
            await stack.enter_async_context(each)
        await decider.begin(beginning, slow_store)
        await decider.take(AGENT, Telling(event=on.Admitted(at=SystemClock().now())))
        await until(lambda: len(busy.ordered) == 1, "a worker has it")
        given_up = asyncio.ensure_future(decider.release(AGENT))
        busy.may.set()
        await until(nobody_has_it, "it is given back")
        await decider.begin(beginning, slow_store)
        await until(lambda: len(set(busy.ordered)) == 2, "a worker has it once more")
        given_up.cancel()
        may_keep.set()
        await handle.terminate()
