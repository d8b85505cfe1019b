"""What a person may ask of a lifecycle is what the machine would carry out."""

from __future__ import annotations

from lifecycle.machine.states import (
    About,
    AwaitingHuman,
    Completed,
    Queued,
    Reason,
    Rejected,
    State,
)
from lifecycle.record import AgentLifecycle
from lifecycle.settings import Settings
from orchestrator.wording.possible_actions import actions_of


def _allowed(work: State | None) -> set[str]:
    record = AgentLifecycle(agent_id="agent-T1", task="x", work=work)
    told = actions_of(record, Settings())
    assert all(bool(each["why_not"]) is not each["allowed"] for each in told)
    return {each["name"] for each in told if each["allowed"]}


def test_each_state_allows_what_the_machine_would_carry_out() -> None:
    question = AwaitingHuman(about=About.QUESTION, text="Blue?", since=1.0)
    assert {"answer", "reject", "pause"} <= _allowed(question)
    assert not {"accept", "unblock"} & _allowed(question)
    assert {"accept", "guide", "reject"} <= _allowed(Completed(summary="done"))
    assert "answer" not in _allowed(Completed(summary="done"))
    assert "accept" not in _allowed(Queued())
    assert "resume" in _allowed(Rejected(reason=Reason.MAX_RETRIES, text="too many"))
    assert not _allowed(None)
