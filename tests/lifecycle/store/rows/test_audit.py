"""Which facts the audit holds: every act of people and each start and end, nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from lifecycle.json_form import encode
from lifecycle.machine import events as on
from lifecycle.machine import states as st
from lifecycle.record import JournalEntry, Transaction
from lifecycle.store.rows.audit import audit_rows, refused_row
from runtime.agents.outcome import Ending
from tests.lifecycle.store.samples import PROCESS, WORKING, lifecycle

SUSPENDED = st.Suspended(inner=st.BackingOff(until=1.0, why="x"), since=1.0)
CAPTURING = st.Capturing(outcome=st.AttemptOutcome(ended=Ending.INTERRUPTED, text="stopped by ada"))


def commit(event: on.Event, after: st.State, before: str = "Working", **more: Any) -> Transaction:
    """Return a decision with one fact."""
    entry = JournalEntry(
        agent_id="agent-1",
        seq=1,
        at=event.at,
        event=event,
        rule="rule",
        before=before,
        after=type(after).__name__,
        **more,
    )
    return Transaction(record=lifecycle(work=after, task_id="T001"), journal=(entry,))


def held(*args: Any, **more: Any) -> list[tuple[str, str, str, str]]:
    """Return actor, action, outcome and reason of what is held."""
    acts = audit_rows(commit(*args, **more))
    assert {act.subject for act in acts} <= {"agent-1"}
    return [(act.actor, act.action, act.outcome, act.reason) for act in acts]


def test_a_spawn_is_held_with_its_process() -> None:
    (act,) = audit_rows(commit(on.AgentSpawned(at=5.0, attempt=3, process=PROCESS), WORKING))
    assert (act.actor, act.action, act.subject, act.outcome) == (
        "runner", "spawn", "agent-1", "done",
    )  # fmt: skip
    assert (act.at, act.reason) == (5.0, "attempt 3 of task T001")
    assert act.details == {"attempt": 3, "pid": 41, "spawn_id": "spawn-1", "containment": ""}


def test_a_spawn_that_was_given_weaker_than_asked_says_so() -> None:
    spawned = on.AgentSpawned(
        at=5.0, attempt=3, process=PROCESS, containment="level process", weaker=("no docker",)
    )
    (act,) = audit_rows(commit(spawned, WORKING))
    assert act.reason == "attempt 3 of task T001; no docker"
    assert act.details["weaker"] == ("no docker",)


def test_a_spawn_that_failed_is_held_with_the_reason() -> None:
    failed = on.SpawnFailed(at=1.0, attempt=2, text="no such file", fault=on.Fault.USER)
    assert held(failed, WORKING) == [("runner", "spawn", "failed", "no such file")]


def test_a_stop_is_held_when_it_is_asked_for_and_when_it_is_done() -> None:
    asked = on.StopRequested(at=1.0, by="ada", pause=True)
    assert held(asked, WORKING) == [("ada", "stop", "asked", "")]
    stopped = on.AgentStopped(at=2.0, attempt=1, forced=True, swept=2)
    (act,) = audit_rows(commit(stopped, CAPTURING, before="Stopping"))
    assert (act.actor, act.action, act.outcome, act.reason) == (
        "runner", "stop", "done", "stopped by ada",
    )  # fmt: skip
    assert act.details == {"attempt": 1, "forced": True, "swept": 2}
    limit = on.LimitReached(at=1.0, attempt=1, idle=False, text="ran for 4 h")
    assert held(limit, CAPTURING) == [("runner", "stop", "asked", "ran for 4 h")]
    lost = on.RunnerRestarted(at=1.0, attempt=1)
    assert held(lost, CAPTURING) == [
        ("runner", "stop", "done", "the runner that attended it is gone")
    ]


def test_a_pause_is_asked_for_while_an_attempt_is_under_way_and_done_at_its_end() -> None:
    asked = on.PauseRequested(at=1.0, by="ada")
    assert held(asked, WORKING) == [("ada", "suspend", "asked", "")]
    assert held(asked, SUSPENDED, before="Blocked") == [("ada", "suspend", "done", "")]
    taken = on.SnapshotTaken(at=2.0, attempt=1)
    assert held(taken, SUSPENDED, before="Capturing") == [
        ("runner", "suspend", "done", "its attempt has ended")
    ]


def test_a_pause_that_freezes_is_held_as_such_and_so_is_its_failure() -> None:
    (act,) = audit_rows(commit(on.PauseRequested(at=1.0, by="ada", now=True), WORKING))
    assert (act.action, act.outcome, act.details) == (
        "suspend", "asked", {"while": "Working", "now": True},
    )  # fmt: skip
    failed = on.FreezeFailed(at=1.0, attempt=1, text="no freezer")
    assert held(failed, WORKING) == [("runner", "suspend", "failed", "no freezer")]


def test_an_accept_is_held_with_the_commit_or_the_conflict() -> None:
    completed = st.Completed(summary="s", merging=True)
    assert held(on.AcceptRequested(at=1.0, by="eve"), completed, before="Completed") == [
        ("eve", "accept", "asked", "")
    ]
    merged = on.MergeSucceeded(at=1.0, commit="c0ffee")
    (act,) = audit_rows(commit(merged, st.Accepted(commit="c0ffee"), before="Completed"))
    assert (act.action, act.outcome, act.details) == ("accept", "done", {"commit": "c0ffee"})
    failed = on.MergeFailed(at=1.0, text="conflict in a.py")
    assert held(failed, completed, before="Completed") == [
        ("runner", "accept", "failed", "conflict in a.py")
    ]


def test_a_reject_is_held_with_who_and_why_also_when_the_rules_gave_up() -> None:
    asked = on.RejectRequested(at=1.0, by="eve", why="too late")
    rejected = st.Rejected(reason=st.Reason.PERSON, text="rejected by eve: too late")
    assert held(asked, WORKING) == [("eve", "reject", "asked", "too late")]
    assert held(asked, rejected, before="Blocked") == [("eve", "reject", "done", "too late")]
    gone = st.Rejected(reason=st.Reason.MAX_RETRIES, text="3 of 3 retries used")
    taken = on.SnapshotTaken(at=2.0, attempt=1)
    assert held(taken, gone, before="Capturing") == [
        ("runner", "reject", "done", "max_retries: 3 of 3 retries used")
    ]


@pytest.mark.parametrize(
    ("event", "action", "reason"),
    [
        (on.ResumeRequested(at=1.0, by="ada"), "resume", ""),
        (on.Unblocked(at=1.0, by="ada", note="key is there"), "unblock", "key is there"),
        (on.Answered(at=1.0, by="ada", text="blue"), "answer", "blue"),
        (on.Guided(at=1.0, by="ada", text="use ints"), "guide", "use ints"),
        (on.SummaryApproved(at=1.0, by="ada"), "approve", ""),
    ],
)
def test_whatever_people_say_is_held(event: on.PersonEvent, action: str, reason: str) -> None:
    waits = st.BackingOff(until=1.0, why="x")
    assert held(event, waits, before="Blocked") == [("ada", action, "done", reason)]


def test_the_last_turn_of_a_pause_is_held_as_a_resumption_and_no_other_is() -> None:
    turn = on.TurnPassed(at=1.0)
    waits = st.BackingOff(until=1.0, why="x")
    assert held(turn, waits, before="Suspended") == [
        ("auto-resume", "resume", "done", "the turns of its pause have passed")
    ]
    assert held(turn, SUSPENDED, before="Suspended") == []
    asked = st.counted(waits, wanted=st.Wanted.PAUSE)
    assert held(turn, asked, before="BackingOff") == []


def test_what_came_too_late_is_held_as_such() -> None:
    spawned = on.AgentSpawned(at=5.0, attempt=3, process=PROCESS)
    assert held(spawned, WORKING, late=True)[0][2] == "late"


def test_ordinary_facts_are_not_held() -> None:
    for event in (
        on.AgentExited(at=1.0, attempt=1, exit_code=1),
        on.SnapshotTaken(at=1.0, attempt=1),
        on.Admitted(at=1.0),
        on.BreakpointReached(at=1.0, attempt=1, word=st.Signal(type="blocked")),
    ):
        assert held(event, WORKING) == []


def test_a_refused_request_is_held_with_who_asked_and_why_not() -> None:
    body = encode(on.AcceptRequested(at=1.0, by="ada"))
    act = refused_row("agent-1", body, 9.0, "only completed work can be accepted")
    assert (act.actor, act.action, act.subject, act.outcome, act.reason) == (
        "ada", "accept", "agent-1", "refused", "only completed work can be accepted",
    )  # fmt: skip


def test_why_an_agent_was_stopped_is_held_also_where_more_was_committed_with_that() -> None:
    stopped = commit(on.AgentStopped(at=5.0, attempt=1), CAPTURING, before="Stopping")
    after = st.BackingOff(until=9.0, why="interrupted")
    snapshot = commit(on.SnapshotTaken(at=6.0, attempt=1), after, before="Capturing")
    both = Transaction(
        record=snapshot.record,
        journal=(*stopped.journal, *snapshot.journal),
        passed=(CAPTURING, after),
    )
    assert [(act.action, act.reason) for act in audit_rows(both)] == [("stop", "stopped by ada")]
