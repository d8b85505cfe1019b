"""What an issue shows follows from the record alone, in every state."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from ci.issues import IssueStage
from lifecycle.clock import SteppedClock
from lifecycle.engine.issue_progress import follow_issues, standing_of
from lifecycle.machine import states as st
from lifecycle.machine.values import changed
from lifecycle.record import AgentLifecycle
from lifecycle.store.sqlite.store import SqliteStore
from runtime.masking.masker import Masker
from tests.lifecycle.every_state import EVERY

if TYPE_CHECKING:
    from ci.issues import IssueStanding

SHOWN = {
    "queued": "worked_on", "starting": "worked_on", "working": "worked_on",
    "stopping": "worked_on", "verifying": "worked_on", "waiting": "worked_on",
    "paused": "rests", "stopped": "rests", "needs you": "rests", "done": "rests",
    "accepted": "over", "rejected": "over", "given up": "over",
}  # fmt: skip


def record(state: st.State, *, begun: int = 1, issue: str = "12") -> AgentLifecycle:
    work = changed(state, tally=changed(state.tally, begun=begun))
    task = {"id": "T1", "title": "Add", "issue": issue}
    return AgentLifecycle(
        agent_id="agent-T1", task="Add", task_id="T1", work=work, birth="ab12",
        facts={"task": task, "branch": "agent/agent-T1"},
    )  # fmt: skip


@pytest.mark.parametrize(("state", "word"), [(state, word) for state, word, _ in EVERY])
def test_each_state_is_shown(state: st.State, word: str) -> None:
    shown = standing_of(record(state))
    assert shown is not None
    assert (str(shown.stage), shown.key, shown.issue) == (SHOWN[word], "agent-T1.ab12", "12")
    assert bool(shown.ending) is (word in {"rejected", "given up"})


def test_nothing_is_shown_without_an_issue_or_before_the_first_attempt() -> None:
    assert standing_of(record(st.Queued(), begun=0)) is None
    assert standing_of(record(st.Queued(), issue="")) is None
    assert standing_of(replace(record(st.Queued()), work=None)) is None


def test_a_wait_that_only_a_person_ends_rests() -> None:
    blocked = st.Blocked(since=1.0, until=9e9, word=st.Signal(type="blocked"))
    shown = standing_of(record(blocked), left=True)
    assert shown is not None
    assert shown.stage is IssueStage.RESTS


def test_the_pull_request_is_known_while_it_is_waited_for() -> None:
    waits = st.PrPending(since=1.0, until=9e9, word=st.Signal(type="pr_created"), number=7)
    for state in (waits, st.Suspended(inner=waits, since=1.0)):
        shown = standing_of(record(state))
        assert shown is not None
        assert shown.number == 7


class Keeper:
    """A provider that only hears of issues."""

    def __init__(self, *followed: str) -> None:
        self.followed = followed
        self.heard: list[IssueStanding] = []

    def follow_issue(self, standing: IssueStanding) -> None:
        self.heard.append(standing)

    def followed_issues(self) -> tuple[str, ...]:
        return self.followed

    def issue_name(self, issue: str) -> str:
        raise NotImplementedError(issue)

    def issue_problem(self, issue: str) -> str:
        raise NotImplementedError(issue)


async def test_a_new_runner_tells_what_was_committed_while_nobody_could_be_told() -> None:
    store = SqliteStore.in_memory(clock=SteppedClock().now)
    over = st.Rejected(reason=st.Reason.MAX_RETRIES, text="3 of 3 used")
    waits = record(st.BackingOff(until=1.0, why="error"))
    for each, agent_id in ((record(over), "agent-T2"), (record(over), "agent-T3"), (waits, "")):
        each.agent_id = agent_id or each.agent_id
        each.derive()
        await store.create(each)
    keeper = Keeper("agent-T2.ab12", "agent-T3.other", "agent-T4.gone")
    shared: Any = SimpleNamespace(
        ci=keeper, store=store, observers=[], running={}, completed={}, masker=Masker()
    )
    await follow_issues(shared)
    told = {standing.key: str(standing.stage) for standing in keeper.heard}
    assert told == {"agent-T1.ab12": "worked_on", "agent-T2.ab12": "over"}
    shared.observers[0](SimpleNamespace(record=record(over)))
    assert str(keeper.heard[-1].stage) == "over"
    await store.aclose()
