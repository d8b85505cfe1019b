"""What a provider tells becomes one fact, whoever hears it."""

from __future__ import annotations

import pytest

from ci.events import CIEvent, CIEventType
from lifecycle.machine import events as on
from lifecycle.machine.policy import Policy
from lifecycle.machine.states import Signal
from lifecycle.machine.table import decide
from lifecycle.perform.ci import fact_from
from lifecycle.plan import Agent, Task
from lifecycle.record import AgentLifecycle
from lifecycle.working_copy import LocalCopy
from tests.lifecycle.machine.playbook import blocked, pr_pending

FATES = {
    CIEventType.PR_MERGED: on.PrFate.MERGED,
    CIEventType.PR_CLOSED: on.PrFate.CLOSED,
    CIEventType.PR_CHECKS_FAILED: on.PrFate.CHECKS_FAILED,
    CIEventType.PR_CONFLICT: on.PrFate.CONFLICT,
}
ABOUT_CI = blocked(Signal(type="blocked", blocked_on=("the checks",)))


def heard(kind: CIEventType, number: int | None = 1, sha: str = "h9") -> on.Event | None:
    agent = Agent(agent_id="a", command=("true",))
    local = LocalCopy(record=AgentLifecycle(agent_id="a", task="t"), task=Task(id="T"), agent=agent)
    told = CIEvent(type=kind, event_id="e", at=1.0, branch="agent/a", pr_number=number, sha=sha)
    return fact_from(local, told, 20.0)


@pytest.mark.parametrize("kind", FATES)
def test_the_fate_of_a_pull_request_is_one_fact_that_moves_all_that_wait_for_it(
    kind: CIEventType,
) -> None:
    fact = heard(kind, sha="")
    assert isinstance(fact, on.PullRequestMoved)
    assert (fact.fate, fact.type, fact.green) == (FATES[kind], kind, kind.endswith("merged"))
    assert not decide(pr_pending(), fact, Policy()).late
    assert not decide(ABOUT_CI, fact, Policy()).late


@pytest.mark.parametrize("kind", FATES)
def test_a_fate_without_a_number_is_a_report_like_any_other(kind: CIEventType) -> None:
    fact = heard(kind, number=None)
    assert isinstance(fact, on.CiReported)
    assert fact.type == kind


@pytest.mark.parametrize("kind", [CIEventType.BUILD_STARTED, CIEventType.PR_UPDATED])
def test_what_is_not_final_is_no_fact(kind: CIEventType) -> None:
    assert heard(kind) is None
