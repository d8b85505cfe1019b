"""Work that a worker pushed is brought here before anything is done with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lifecycle.base_commits import BaseCommits, bring_work
from lifecycle.machine import states as st
from lifecycle.plan import Task
from lifecycle.record import AgentLifecycle, AttemptRow, Transaction, placed, worker_of
from lifecycle.store.sqlite.store import SqliteStore
from tests.lifecycle.every_state import EVERY

if TYPE_CHECKING:
    from collections.abc import Sequence

BLOCKED = next(state for state, _, _ in EVERY if type(state) is st.Blocked)
WORKING = next(state for state, _, _ in EVERY if type(state) is st.Working)
ON_A: dict[str, Any] = {"branch": "agent/agent-T1", "worker": "a"}


class Asked:
    """Notes what is to be brought."""

    def __init__(self) -> None:
        self.branches: list[tuple[str, str]] = []

    async def __call__(self, branch: str, commit: str) -> None:
        self.branches.append((branch, commit))


def record(work: st.State, facts: dict[str, Any]) -> AgentLifecycle:
    return AgentLifecycle(
        agent_id="agent-T1", task_id="T1", task="x", state=st.coarse(work), work=work, facts=facts
    )


@pytest.mark.parametrize(
    ("work", "facts", "commit"),
    [
        (st.Completed(summary="s", head="c1"), ON_A, "c1"),
        (st.Suspended(inner=st.Completed(summary="s", head="c1"), since=1.0), ON_A, "c1"),
        (WORKING, ON_A, "c2"),
        (st.Accepted(commit="c9"), ON_A, ""),
        (st.Completed(summary="s", head="c1"), {**ON_A, "worker": ""}, ""),
        (st.Completed(summary="s", head="c1"), {"worker": "a"}, ""),
    ],
)
async def test_the_newest_commit_that_the_record_knows_of_is_brought(
    work: st.State, facts: dict[str, Any], commit: str
) -> None:
    async with SqliteStore.in_memory() as store:
        asked, made = Asked(), await store.create(record(work, facts))
        ledger = AttemptRow(agent_id="agent-T1", attempt=1, head_after="c2")
        await store.commit(Transaction(record=made, attempt=ledger))
        await bring_work(store, made, asked)
        assert asked.branches == ([("agent/agent-T1", commit)] if commit else [])
        await bring_work(store, made, None)  # where one machine does all the work


class Noted:
    """Notes what is to be read for what it would loosen."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.read: list[tuple[Any, ...]] = []

    async def captured(
        self, store: SqliteStore, agent_id: str, since: Sequence[str], tips: Sequence[str]
    ) -> None:
        del store
        assert self.asked.branches  # else its commits are not here
        self.read.append((agent_id, tuple(since), tuple(tips)))

    async def against(self, store: SqliteStore, base: str, head: str) -> str:
        del store, base, head
        return ""


async def test_what_a_workers_commits_would_loosen_is_noted_once_they_are_here() -> None:
    facts = {**ON_A, "base_commit": "c0", "base_branch": "main"}
    async with SqliteStore.in_memory() as store:
        made = await store.create(record(st.Completed(summary="s", head="c1"), facts))
        noted = Noted(Asked())
        await bring_work(store, made, noted.asked, noted)
        bases = BaseCommits(store, branches=None)  # type: ignore[arg-type]  # one head is not joined
        bases.bring, bases.watch = noted.asked, noted
        await bases.start_of(Task(id="T2", dependencies=("T1",)))
    assert noted.read == 2 * [("agent-T1", ("c0", "refs/heads/main"), ("c1",))]


async def test_a_task_that_builds_on_it_starts_from_what_was_brought() -> None:
    async with SqliteStore.in_memory() as store:
        await store.create(record(st.Completed(summary="s", head="c1"), ON_A))
        bases = BaseCommits(store, branches=None)  # type: ignore[arg-type]  # one head is not joined
        bases.bring = asked = Asked()
        start = await bases.start_of(Task(id="T2", dependencies=("T1",)))
        assert (start.commit, asked.branches) == ("c1", [("agent/agent-T1", "c1")])


def test_the_record_names_the_worker_and_who_had_each_attempt() -> None:
    facts = placed({"task": {}}, "m1", "a", 1)
    facts = placed(facts, "m2", "b", 2)
    found = record(WORKING, facts)
    assert (facts["machine"], worker_of(found)) == ("m2", "b")
    assert [worker_of(found, attempt) for attempt in (1, 2, 3)] == ["a", "b", ""]
    here = record(WORKING, placed(facts, "m0"))
    assert (here.facts["machine"], worker_of(here)) == ("m0", "")
    assert worker_of(here, 1) == "a"  # it did have that one
    for attempt in range(3, 100):
        facts = placed(facts, "m2", "b", attempt)
    assert len(facts["attempt_workers"]) == 50
    assert worker_of(record(WORKING, facts), 99) == "b"
