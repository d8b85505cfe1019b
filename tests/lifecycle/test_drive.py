"""What decides, driven through whole transcripts without an event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lifecycle.drive import Drive, Turn, WorkingCopy, broken_off
from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine.policy import Policy
from lifecycle.machine.states import (
    BackingOff,
    Blocked,
    Capturing,
    Completed,
    Process,
    Queued,
    Rejected,
    Signal,
    Spawning,
    State,
    Suspended,
    UnavailableProgram,
    Wanted,
    Working,
)
from lifecycle.record import AgentLifecycle
from runtime.agents.outcome import Ending
from tests.lifecycle.machine.playbook import (
    DONE,
    backing_off,
    blocked,
    capturing,
    completed,
    preparing,
    verifying,
    working,
)

if TYPE_CHECKING:
    from lifecycle.record import PendingEffect

POLICY = Policy(retry_interval=0.0)


class Desk:
    """Takes facts and writes down at once what is decided on them."""

    def __init__(self, state: State | None = None, policy: Policy = POLICY) -> None:
        record = AgentLifecycle(agent_id="a", task="t", task_id="T1", birth="b")
        record.work = state or Queued()
        self.copy, self.policy = WorkingCopy(record=record), policy
        self.drive = Drive(self.copy)
        self.turn: Turn | None = None

    def take(self, fact: on.Event, *, effect_id: str = "", request_id: int = 0) -> Turn:
        turn = self.drive.take(fact, self.policy, effect_id=effect_id, request_id=request_id)
        self.drive.committed(turn)
        self.turn = turn
        return turn

    def order(self) -> PendingEffect:
        assert self.turn is not None
        (order,) = self.turn.orders
        return order

    def attempt(self, at: float, word: Signal | None = None) -> Turn:
        """Let the agent that was ordered start, end and be captured."""
        order, number = self.order(), self.copy.attempt
        assert isinstance(order.effect, do.SpawnAgent)
        process = Process(pid=7, start_time=1, boot_id="b", spawn_id=order.effect_id)
        spawned = on.AgentSpawned(at=at, attempt=number, process=process)
        self.take(spawned, effect_id=order.effect_id)
        self.take(on.AgentExited(at=at + 5, attempt=number, exit_code=0, word=word))
        taken = self.order().effect_id
        snapshot = on.SnapshotTaken(at=at + 6, attempt=number, head=f"h{number}", tree=f"t{number}")
        return self.take(snapshot, effect_id=taken)


def test_a_whole_life_needs_no_event_loop() -> None:
    desk = Desk()
    desk.take(on.Admitted(at=1))
    prepared = desk.order()
    assert prepared.effect == do.PrepareWorkspace(attempt=1)
    ready = on.WorkspaceReady(at=2, attempt=1, branch="agent/a", base_commit="b0")
    desk.take(ready, effect_id=prepared.effect_id)
    desk.attempt(3, Signal(type="blocked", blocked_on=("ci",), reason="waits"))
    assert isinstance(desk.drive.state, Blocked)
    desk.take(on.CiReported(at=20, type="build_success", green=True, sha="h1"))
    desk.take(on.Admitted(at=21))
    end = desk.attempt(22, DONE)

    assert isinstance(end.state, Completed)
    copy = desk.copy
    assert (copy.record.state, copy.record.submission_summary) == ("completed", "all of it")
    assert copy.record.facts["branch"] == "agent/a"
    assert [(row.attempt, row.outcome) for row in copy.ledger] == [
        (1, "blocked"),
        (2, "task_complete"),
    ]
    assert [row.head_before for row in copy.ledger] == ["b0", "h1"]
    assert copy.ledger[0].spawn_id.startswith("a.b.2.")
    assert isinstance(copy.recent[0].event, on.AgentSpawned)
    assert copy.lasting() == [], "an attempt that signalled went on from what it was told"


def test_a_commit_holds_all_that_one_fact_means() -> None:
    desk = Desk(working(attempt=3))
    desk.copy.seq = 40
    desk.drive.carried_out("a.b.9.0", "")
    exited = on.AgentExited(at=9, attempt=3, exit_code=1)
    turn = desk.drive.take(exited, POLICY, effect_id="a.b.10.0", request_id=5)
    commit = turn.commit
    assert commit is not None
    assert (commit.done, commit.taken) == (("a.b.9.0", "a.b.10.0"), (5,))
    (entry,) = commit.journal
    assert (entry.seq, entry.rule) == (41, "exited")
    assert (entry.before, entry.after) == ("Working", "Capturing")
    assert [order.effect_id for order in commit.effects] == ["a.b.41.0"]
    assert commit.passed == (turn.state,) == (commit.record.work,)
    assert isinstance(desk.drive.state, Working), "nothing holds before it is written"

    desk.drive.committed(turn)
    assert isinstance(desk.drive.state, Capturing)
    assert (desk.copy.seq, desk.drive.settled()) == (41, ())


def test_what_the_commit_does_not_tell_the_store_is_told_once() -> None:
    desk = Desk(working())
    desk.take(on.LimitReached(at=1, attempt=7, idle=True, text=""), effect_id="one")
    desk.take(on.DeadlinePassed(at=2), effect_id="two")
    assert desk.drive.settled() == ("two",)
    assert desk.drive.settled() == ()


def test_what_nobody_expected_is_refused_and_not_written() -> None:
    desk = Desk(completed())
    turn = desk.take(on.Unblocked(at=1, by="ada"))
    assert (turn.commit, turn.orders) == (None, ())
    assert "is done; only one that is blocked" in turn.refused
    assert desk.copy.seq == 0


@pytest.mark.parametrize(
    "fact", [on.DeadlinePassed(at=1), on.DependencySettled(at=1, task_id="X", done=True)]
)
def test_what_is_no_news_is_not_written(fact: on.Event) -> None:
    desk = Desk(blocked())
    assert not desk.drive.is_news(fact, POLICY)
    turn = desk.take(fact)
    assert (turn.commit, turn.refused) == (None, "")


def test_a_fact_of_an_attempt_that_is_over_changes_nothing_but_the_journal() -> None:
    desk = Desk(blocked())
    before = desk.drive.state
    turn = desk.take(on.AgentExited(at=50, attempt=1, signal=9))
    assert turn.commit is not None
    assert [entry.late for entry in turn.commit.journal] == [True]
    assert (turn.commit.attempt, turn.commit.spending, turn.orders) == (None, None, ())
    assert desk.drive.state == before


def test_the_next_attempt_may_begin_by_the_commit_of_the_end_before_it() -> None:
    desk = Desk(backing_off(until=0))
    turn = desk.drive.take(on.ResumeRequested(at=0), POLICY)
    assert turn.commit is None, "there was nothing to cut short"
    desk = Desk(capturing(Ending.ERROR))
    turn = desk.drive.take(on.SnapshotTaken(at=9, attempt=1, head="h1", tree="t1"), POLICY)
    assert isinstance(turn.state, BackingOff)
    both = desk.drive.take(on.Admitted(at=9), POLICY, onto=turn)
    assert both.commit is not None
    assert isinstance(both.state, Spawning)
    assert [type(entry.event) for entry in both.commit.journal] == [on.SnapshotTaken, on.Admitted]
    assert [entry.seq for entry in both.commit.journal] == [1, 2]
    assert [order.effect_id for order in both.orders] == ["a.b.2.0"]
    assert both.fact == turn.fact
    assert both.commit.record.work == both.state

    # What does not follow leaves the first as it was.
    assert desk.drive.take(on.MergeSucceeded(at=9, commit="m"), POLICY, onto=turn) is turn


def test_who_was_stopped_by_a_person_is_held_until_it_is_resumed() -> None:
    desk = Desk(blocked())
    desk.take(on.PauseRequested(at=1, by="ada"))
    assert not desk.drive.held
    desk = Desk(blocked())
    desk.take(on.StopRequested(at=1, by="ada", pause=True))
    assert isinstance(desk.drive.state, Suspended)
    assert desk.drive.held
    desk.take(on.ResumeRequested(at=2, by="ada"))
    assert not desk.drive.held


def test_a_limit_that_was_met_or_is_over_is_named() -> None:
    desk = Desk(backing_off(until=0), Policy(programs=("x", "y")))
    rests = (UnavailableProgram(program="x", why="limit", until=99.0),)
    assert desk.take(on.Admitted(at=1, resting=rests)).found_limits == rests
    desk = Desk(backing_off(until=90, resting=rests))
    assert desk.take(on.ResumeRequested(at=1)).found_limits == ()
    assert desk.take(on.Guided(at=2, text="so")).found_limits is None


def test_only_what_a_person_ended_is_broken_off() -> None:
    assert broken_off(verifying(), 5) is None
    assert broken_off(preparing(wanted=Wanted.PAUSE), 5) is None
    assert broken_off(working(wanted=Wanted.REJECT), 5) is None
    for state in (verifying(wanted=Wanted.REJECT), preparing(wanted=Wanted.REJECT)):
        desk, fact = Desk(state), broken_off(state, 5)
        assert fact is not None
        assert isinstance(desk.take(fact).state, Rejected)
    stopped = preparing(wanted=Wanted.STOP)
    fact = broken_off(stopped, 5)
    assert fact is not None
    assert isinstance(Desk(stopped).take(fact).state, BackingOff)


def test_a_record_that_no_loop_drives_is_not_driven() -> None:
    copy = WorkingCopy(record=AgentLifecycle(agent_id="a", task="t"))
    with pytest.raises(ValueError, match="no loop drives"):
        Drive(copy).take(on.Admitted(at=1), POLICY)
