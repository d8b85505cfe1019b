"""What travels has the one JSON form, and is small."""

from __future__ import annotations

import pytest

from lifecycle.drive import WorkingCopy
from lifecycle.machine import events as on
from lifecycle.machine.policy import Policy
from lifecycle.owner.decider import Beginning, Telling, Terms
from lifecycle.record import AgentLifecycle
from orchestrator.engines.temporal.payloads import (
    CONVERTER,
    MOST_BYTES,
    PayloadTooLargeError,
    WorkflowStart,
)
from tests.lifecycle.every_state import EVERY


@pytest.mark.parametrize("number", range(len(EVERY)))
async def test_a_lifecycle_in_any_state_travels_as_it_is(number: int) -> None:
    record = AgentLifecycle(agent_id="agent-T001", task="T", work=EVERY[number][0])
    record.derive()
    terms = Terms(policy=Policy(programs=("a", "b")), work={"settings": {"port": 1}})
    start = WorkflowStart(
        beginning=Beginning(copy=WorkingCopy(record=record), terms=terms), project="p", lease=60.0
    )
    payloads = await CONVERTER.encode([start])
    assert await CONVERTER.decode(payloads, [WorkflowStart]) == [start]


async def test_what_is_too_large_for_a_history_is_refused_where_it_is_sent() -> None:
    fact = on.Guided(at=1.0, by="Ada", text="x" * MOST_BYTES)
    with pytest.raises(PayloadTooLargeError, match=r"a Telling of \d+ bytes may not travel"):
        await CONVERTER.encode([Telling(event=fact)])
