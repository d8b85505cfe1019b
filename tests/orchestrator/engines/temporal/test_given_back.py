"""What a worker was given and has no room for, or that is taken back at once, it gives back."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, cast

import pytest
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.testing import ActivityEnvironment

from lifecycle.drive import WorkingCopy
from lifecycle.json_form import plain
from lifecycle.machine.states import Queued
from lifecycle.record import AgentLifecycle
from lifecycle.worker.assignment import Assignment
from orchestrator.engines.temporal import options
from orchestrator.engines.temporal.activities import Acting, Keepers
from orchestrator.engines.temporal.payloads import KeepCall, VisitCall
from tests.waiting import until

if TYPE_CHECKING:
    from temporalio.client import Client

    from orchestrator.engines.temporal.activities import Acts


class Server:
    """A client of a server that takes everything."""

    def get_async_activity_handle(self, *, task_token: bytes) -> Server:
        del task_token
        return self

    def get_workflow_handle(self, workflow_id: str) -> Server:
        del workflow_id
        return self

    async def heartbeat(self) -> None:
        pass

    async def signal(self, name: str, value: object) -> None:
        del name, value


class Worker:
    """Takes everything, and keeps it until its end is ordered."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended: list[str] = []

    async def begin(self, assignment: Assignment) -> None:
        self.begun.append(assignment.assignment_id)

    async def end(self, assignment_id: str) -> None:
        self.ended.append(assignment_id)

    async def until_over(self, assignment_id: str) -> None:
        del assignment_id
        await asyncio.Event().wait()

    def now(self) -> int:
        return 0

    def confirmed(self, assignment_id: str, sent: int | None = None) -> None:
        del assignment_id, sent


def visit(name: str) -> VisitCall:
    copy = WorkingCopy(record=AgentLifecycle(agent_id="agent-T001", task="T", work=Queued()))
    told: dict[str, Any] = plain(Assignment(assignment_id="", copy=copy, settings={}))
    work = {name: told[name] for name in told if name not in ("copy", "assignment_id")}
    return VisitCall(assignment_id=name, copy=copy, work=work, lease=60.0)


def acting(worker: Worker, slots: int = 1) -> Acting:
    made = Acting(cast("Client", Server()), "w", slots)
    made.acts = cast("Acts", worker)
    return made


async def test_a_worker_without_a_free_slot_lets_another_one_have_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(options, "SLOT_WITHIN", 0.05)
    takes = acting(worker := Worker())
    first = ActivityEnvironment()
    has = asyncio.ensure_future(first.run(takes.assignment, visit("a.1")))
    await until(lambda: worker.begun == ["a.1"])
    with pytest.raises(ApplicationError, match="w has no free slot"):
        await asyncio.wait_for(ActivityEnvironment().run(takes.assignment, visit("b.1")), 10)
    first.cancel()
    await asyncio.wait([has])
    third = ActivityEnvironment()
    goes_on = asyncio.ensure_future(third.run(takes.assignment, visit("b.2")))
    await until(lambda: worker.begun == ["a.1", "b.2"], "its slot is free again")
    third.cancel()
    await asyncio.wait([goes_on])


async def test_what_is_taken_back_right_after_it_was_taken_is_not_kept_for_a_lease() -> None:
    takes, environment = acting(worker := Worker()), ActivityEnvironment()
    has = asyncio.ensure_future(environment.run(takes.assignment, visit("a.1")))
    await until(lambda: worker.begun == ["a.1"])
    environment.cancel()
    await asyncio.wait([has])
    assert has.cancelled()
    assert worker.ended == ["a.1"]


async def test_that_a_coordinator_just_began_is_nothing_to_warn_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING), pytest.raises(ApplicationError) as none_yet:
        await ActivityEnvironment().run(Keepers().keep, KeepCall(agent_id="a", commits=()))
    assert none_yet.value.category is ApplicationErrorCategory.BENIGN
    assert not caplog.records
