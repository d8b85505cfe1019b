"""What travels has the one JSON form, and is small."""

from __future__ import annotations

import pytest

from lifecycle.drive import WorkingCopy
from lifecycle.json_form import plain
from lifecycle.machine import events as on
from lifecycle.machine.policy import Policy
from lifecycle.owner.decider import Beginning, Telling, Terms, TooLargeToTravelError
from lifecycle.record import AgentLifecycle, Transaction
from lifecycle.worker.assignment import Assignment, fitted
from orchestrator.engines.temporal.payloads import (
    CONVERTER,
    MOST_BYTES,
    MOST_TOGETHER,
    KeepCall,
    VisitCall,
    WorkflowStart,
    together,
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
    with pytest.raises(TooLargeToTravelError, match=r"a Telling of \d+ bytes may not travel"):
        await CONVERTER.encode([Telling(event=fact)])


async def test_as_many_commits_as_may_travel_together_are_kept_by_one_call() -> None:
    def commit(text: str) -> Transaction:
        return Transaction(record=AgentLifecycle(agent_id="agent-T001", task=text))

    large, small = commit("x" * 30_000), commit("x")
    assert together([large, large, small]) == (large,)
    assert together([commit("x" * 60_000), small])[1:] == ()
    assert len(together([small] * 20)) == MOST_TOGETHER
    for first in (large, small):
        await CONVERTER.encode([KeepCall(agent_id="agent-T001", commits=together([first] * 20))])


async def test_a_lifecycle_in_a_repository_with_thousands_of_agents_travels() -> None:
    names = {f"agent-{number:05}": f"T{number:05}" for number in range(9000)}
    copy = WorkingCopy(record=AgentLifecycle(agent_id="agent-T001", task="x" * 9000))
    told = fitted(Assignment(assignment_id="", copy=copy, settings={"verify": ["x"]}, tasks=names))
    form = plain(told)
    work = {name: form[name] for name in form if name not in ("copy", "assignment_id")}
    copy.record.facts = {"told since": "y" * 9000}
    beginning = Beginning(copy=copy, terms=Terms(policy=Policy(), work=work))
    visit = VisitCall(assignment_id="a.1", copy=copy, work=work, lease=60.0)
    for value in (WorkflowStart(beginning=beginning, project="p", lease=60.0), visit):
        await CONVERTER.encode([value])
