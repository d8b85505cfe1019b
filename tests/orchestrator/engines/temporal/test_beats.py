"""Beats for an assignment end when they are told to, else the server waits for ever for its end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import pytest
from temporalio.testing import ActivityEnvironment

from orchestrator.engines.temporal.activities import Acting

if TYPE_CHECKING:
    from temporalio.client import Client

    from orchestrator.engines.temporal.activities import Acts
    from orchestrator.engines.temporal.payloads import VisitCall


class Server:
    """A client of a server that answers each beat a moment later."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    def get_async_activity_handle(self, *, task_token: bytes) -> Server:
        del task_token
        return self

    async def heartbeat(self) -> None:
        self.asked.set()
        await asyncio.sleep(0)


class Worker:
    """What a worker is asked while it beats."""

    def now(self) -> int:
        return 0

    def confirmed(self, assignment_id: str, sent: int | None = None) -> None:
        del assignment_id, sent

    async def until_over(self, assignment_id: str) -> None:
        del assignment_id
        await asyncio.Event().wait()


class Visit:
    """An assignment with a long lease."""

    assignment_id, lease = "a.1", 60.0


@pytest.mark.parametrize("moments", range(8))
async def test_they_end_whenever_they_are_cancelled(moments: int) -> None:
    server = Server()
    acting = Acting(cast("Client", server), "w")
    acting.acts = cast("Acts", Worker())
    visit = cast("VisitCall", Visit())
    beats = asyncio.ensure_future(ActivityEnvironment().run(acting._beat, visit))
    await server.asked.wait()
    for _ in range(moments):
        await asyncio.sleep(0)
    beats.cancel()
    done, _ = await asyncio.wait([beats], timeout=2)
    if not done:
        beats.cancel()
    assert done, "cancelled, it went on"
    assert beats.cancelled()


async def test_a_worker_that_can_tell_no_facts_any_more_does_not_keep_its_assignment() -> None:
    acting = Acting(cast("Client", Server()), "w")
    acting.acts = cast("Acts", Worker())

    async def refused() -> None:
        await asyncio.sleep(0)
        raise ValueError("may not travel")

    sending = asyncio.ensure_future(refused())
    with pytest.raises(ValueError, match="may not travel"):
        await asyncio.wait_for(acting._until_over("a.1", asyncio.Event(), sending), 2)
