"""What CI told around the end of an earlier runner is heard once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from ci.events import CIEvent, CIEventType
from ci.interface import EventBatch
from lifecycle.clock import SteppedClock
from lifecycle.machine import events as on
from lifecycle.machine.states import Process
from lifecycle.owner.resume import unheard
from lifecycle.plan import Agent, Task
from lifecycle.record import AgentLifecycle, JournalEntry
from lifecycle.working_copy import LocalCopy
from runtime.masking.masker import Masker
from tests.lifecycle.machine.playbook import pr_pending

if TYPE_CHECKING:
    from lifecycle.services import SharedServices

PROCESS = Process(pid=7, start_time=1, boot_id="b", spawn_id="s")


@pytest.mark.parametrize(("at", "heard"), [(890.0, 0), (910.0, 1), (995.0, 1)])
async def test_what_came_before_the_latest_agent_is_not_heard_again(at: float, heard: int) -> None:
    record = AgentLifecycle(agent_id="a", task="t", updated_at=930.0, facts={"branch": "agent/a"})
    agent = Agent(agent_id="a", command=("true",))
    local = LocalCopy(record=record, task=Task(id="T"), agent=agent)
    for event in (
        on.Reviewed(at=880.0, number=1, text="pull request 1 was reviewed"),
        on.AgentSpawned(at=900.0, attempt=1, process=PROCESS),
    ):
        local.seq += 1
        local.remember(
            JournalEntry(
                agent_id="a", seq=local.seq, at=event.at, event=event, rule="", before="Spawning",
                after="Working", late=False,
            )
        )  # fmt: skip
    review = CIEvent(
        type=CIEventType.PR_CHANGES_REQUESTED, event_id="e", at=at, branch="agent/a", pr_number=1,
        summary="pull request 1 was reviewed at last",
    )  # fmt: skip

    async def events_since(_: int) -> EventBatch:
        return EventBatch(events=(review,), cursor=1)

    ci = SimpleNamespace(events_since=events_since)
    shared = SimpleNamespace(ci=ci, clock=SteppedClock(), masker=Masker())
    facts = await unheard(local, pr_pending(), cast("SharedServices", shared))
    assert len(facts) == heard
