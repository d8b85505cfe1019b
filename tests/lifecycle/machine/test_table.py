"""The table as a whole: every pair is decided on purpose, every line is walked by a transcript."""

from __future__ import annotations

import importlib
import inspect
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine import states
from lifecycle.machine.policy import Policy
from lifecycle.machine.states import (
    About,
    Accepted,
    AgentState,
    Reason,
    Rejected,
    RemarkReply,
    Signal,
    Suspended,
    coarse,
    next_instant,
)
from lifecycle.machine.table import (
    HEARD_WHILE_SUSPENDED,
    RULES,
    TABLE,
    IllegalTransition,
    decide,
)
from runtime.agents.outcome import Ending
from tests.lifecycle.machine import playbook
from tests.lifecycle.machine.playbook import (
    PROCESS,
    WALKED,
    awaiting,
    backing_off,
    blocked,
    capturing,
    completed,
    pr_pending,
    preparing,
    queued,
    spawning,
    stopping,
    suspended,
    verifying,
    working,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

STATES: tuple[states.State, ...] = (
    queued(),
    preparing(),
    spawning(),
    working(),
    stopping(),
    capturing(),
    verifying(),
    blocked(attempt=1),
    pr_pending(attempt=1),
    backing_off(attempt=1),
    awaiting(About.QUESTION),
    suspended(blocked(attempt=1)),
    completed(),
    Accepted(commit="m1"),
    Rejected(reason=Reason.ERROR, text="no"),
)
"""One of each."""

EVENTS: tuple[on.Event, ...] = (
    on.Admitted(at=20),
    on.DependencySettled(at=20, task_id="T000", done=True),
    on.WorkspaceReady(at=20, attempt=1, branch="agent/a", base_commit="b0"),
    on.WorkJoined(at=20, attempt=1, tasks=("T000",), head="h2", base="h0", tree="t2"),
    on.WorkspaceFailed(at=20, attempt=1, text="disk full", fault=on.Fault.ENVIRONMENT),
    on.AgentSpawned(at=20, attempt=1, process=PROCESS),
    on.SpawnFailed(at=20, attempt=1, text="no memory", fault=on.Fault.ENVIRONMENT),
    on.BreakpointReached(at=20, attempt=1, word=Signal(type="blocked")),
    on.MailboxInvalid(at=20, attempt=1, problem="torn"),
    on.AgentExited(at=20, attempt=1),
    on.LimitReached(at=20, attempt=1, idle=True, text="1800 s"),
    on.AttemptDoomed(at=20, attempt=1, ended=Ending.LOOP, text="5001 tool calls"),
    on.FreezeFailed(at=20, attempt=1, text="it forks too fast"),
    on.AgentStopped(at=20, attempt=1),
    on.RunnerRestarted(at=20, attempt=1),
    on.SnapshotTaken(at=20, attempt=1),
    on.SnapshotFailed(at=20, attempt=1, text="disk full"),
    on.GatesFinished(at=20, attempt=1, gates=()),
    on.ReviewFinished(at=20, attempt=1),
    on.BlockersLooked(at=20),
    on.CiReported(at=20, type="build_success", green=True),
    on.PullRequestOpened(at=20, number=1, url="local://pr/1"),
    on.PullRequestUnknown(at=20, text="no route", fault=on.Fault.ENVIRONMENT),
    on.PullRequestMoved(at=20, fate=on.PrFate.MERGED, number=1),
    on.Reviewed(at=20, number=1, text="changes asked for by ada"),
    on.DeadlinePassed(at=20),
    on.TurnPassed(at=20),
    on.Unblocked(at=20),
    on.Answered(at=20, text="8080"),
    on.Guided(at=20, text="mind the edges"),
    on.SummaryApproved(at=20),
    on.PauseRequested(at=20),
    on.ResumeRequested(at=20),
    on.StopRequested(at=20),
    on.AcceptRequested(at=20),
    on.RejectRequested(at=20),
    on.MergeSucceeded(at=20, commit="m1"),
    on.MergeFailed(at=20, text="conflict"),
    on.AlongAccepted(at=20, agent_id="agent-T000"),
    on.WorkspaceRemoved(at=20),
)
"""One of each, all of attempt 1."""


def concrete(module: ModuleType, base: type) -> set[type]:
    """Return the classes of a module below this base that have none below them."""
    kinds = {
        kind for kind in vars(module).values() if isinstance(kind, type) and issubclass(kind, base)
    }
    return {kind for kind in kinds if not any(kind in other.__bases__ for other in kinds)}


def kind_of(state: states.State, event: on.Event) -> str:
    """Say what the table holds for a pair of which the attempt is the present one."""
    if event.__class__.__base__ is on.AttemptEvent:
        state = states.counted(state, attempt=1)
    try:
        step = decide(state, event, Policy())
    except IllegalTransition:
        return "illegal"
    if (type(state), type(event)) in TABLE:
        return "rule"
    if isinstance(state, Suspended) and isinstance(event, HEARD_WHILE_SUSPENDED):
        return "heard"
    assert step.late
    return "late"


def test_the_samples_hold_one_of_each_state_and_event() -> None:
    assert {type(state) for state in STATES} == set(states.ALL) == concrete(states, states.State)
    assert {type(event) for event in EVENTS} == concrete(on, on.Event)


def test_every_pair_is_a_rule_or_late_or_known_to_be_illegal() -> None:
    pairs = Counter(kind_of(state, event) for state in STATES for event in EVENTS)
    # A new state or event changes these numbers: think about each of its pairs, then count again.
    assert pairs == {"rule": 133, "heard": 10, "late": 341, "illegal": 116}


def test_a_line_of_the_table_stands_there_once() -> None:
    assert len(TABLE) == len(RULES)
    assert all(len(set(line.targets)) == len(line.targets) for line in RULES)


def test_the_only_way_out_of_an_end_is_a_person_who_takes_it_up_again() -> None:
    ways_out = [
        (line.state, line.event)
        for line in RULES
        if line.state in states.TERMINAL and line.targets != (line.state,)
    ]
    assert ways_out == [(Rejected, on.ResumeRequested)]


def test_every_state_can_be_reached_from_the_queue() -> None:
    reached: set[type[states.State]] = {states.Queued}
    while (
        more := {target for line in RULES if line.state in reached for target in line.targets}
        - reached
    ):
        reached |= more
    assert reached == set(states.ALL)


def test_every_state_but_the_last_can_come_to_an_end() -> None:
    ending = set(states.TERMINAL)
    while more := {line.state for line in RULES if ending & set(line.targets)} - ending:
        ending |= more
    assert ending == set(states.ALL)


def transcripts() -> Iterator[Callable[..., None]]:
    here = Path(__file__)
    for file in sorted(here.parent.rglob("test_*.py")):
        if file == here or " play(" not in file.read_text("utf-8"):
            continue
        module = file.relative_to(here.parents[3]).with_suffix("")
        found = importlib.import_module(".".join(module.parts))
        for name, test in inspect.getmembers(found, inspect.isfunction):
            if name.startswith("test_"):
                yield test


def cases(test: Callable[..., None]) -> Iterator[dict[str, object]]:
    """Yield the arguments that pytest would call a transcript with."""
    found: list[dict[str, object]] = [{}]
    for mark in getattr(test, "pytestmark", []):
        names = mark.args[0]
        split = [names] if isinstance(names, str) else list(names)
        rows = [[row] if isinstance(names, str) else list(row) for row in mark.args[1]]
        found = [known | dict(zip(split, row, strict=True)) for known in found for row in rows]
    yield from found


@pytest.fixture(scope="module")
def walked() -> set[playbook.Walked]:
    """Perform every transcript of this folder and return the steps they took."""
    for test in transcripts():
        for arguments in cases(test):
            test(**arguments)
    return set(WALKED)


def test_every_line_was_walked_to_every_state_it_names(walked: set[playbook.Walked]) -> None:
    named = {
        playbook.Walked(line.state, line.event, target) for line in RULES for target in line.targets
    }
    assert named - walked == set(), "declared, but no transcript leads there"


def test_no_transcript_leads_where_no_line_says(walked: set[playbook.Walked]) -> None:
    strays = {step for step in walked if step.target not in TABLE[step.state, step.event].targets}
    # A fact of a previous attempt meets no rule; nothing changes, whatever the line says.
    assert all(step.target is step.state for step in strays)


ANSWERS = Signal(type="pr_created", replies=(RemarkReply(remark="r1abc", text="Done."),))


def test_every_order_is_given_by_some_rule() -> None:
    given: set[type[do.Effect]] = set()
    for state in (*STATES, completed(), awaiting(About.PR_TIMEOUT), capturing(playbook.DONE),
                  capturing(playbook.PR), capturing(ANSWERS), pr_pending(attempt=1),
                  pr_pending(number=None), working(frozen=True)):  # fmt: skip
        for event in (*EVENTS, on.PauseRequested(at=20, now=True)):
            for policy in (Policy(has_gates=True), Policy(reviews=True), Policy()):
                try:
                    step = decide(state, event, policy)
                except IllegalTransition:
                    continue
                given |= {type(effect) for effect in step.effects}
    assert given == concrete(do, do.Effect)


# --- what users query by, and what the owner must wake for ------------------------------------


def test_every_state_has_a_coarse_one() -> None:
    assert set(states.COARSE) == set(states.ALL)
    found = {type(state).__name__: coarse(state) for state in STATES}
    assert {name for name, value in found.items() if value is AgentState.RUNNING} == {
        "Preparing", "Spawning", "Working", "Stopping", "Capturing", "Verifying",
        "Blocked", "PrPending", "BackingOff", "AwaitingHuman", "Suspended",
    }  # fmt: skip
    assert repr(AgentState.QUEUED) == "<AgentState.QUEUED: 'queued'>"
    assert found["Queued"] is AgentState.QUEUED
    assert found["Completed"] is AgentState.COMPLETED
    assert found["Accepted"] is AgentState.ACCEPTED
    assert found["Rejected"] is AgentState.REJECTED


def test_a_state_is_active_or_a_wait_or_at_rest() -> None:
    parts = [*states.ACTIVE, *states.WAITS, Suspended, states.Completed, *states.TERMINAL]
    assert len(parts) == len(set(parts))
    assert set(parts) == set(states.ALL)


def test_the_owner_is_told_when_to_wake_it() -> None:
    assert next_instant(blocked()) == 100
    assert next_instant(pr_pending()) == 100
    assert next_instant(awaiting(About.QUESTION, until=50)) == 50
    assert next_instant(awaiting(About.REVIEW)) is None
    assert next_instant(suspended(blocked())) is None
    assert next_instant(capturing()) is None
    assert next_instant(working()) is None
