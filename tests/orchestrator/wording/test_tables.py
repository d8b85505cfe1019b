"""The tables of words are complete, agree with each other, and stand in one place."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import orchestrator
from lifecycle.machine import events as on
from lifecycle.machine import states as st
from lifecycle.record import AgentLifecycle
from lifecycle.settings import Settings
from lifecycle.state_words import commands_for
from lifecycle.store.rows.audit import HELD
from orchestrator.terminal.text import span
from orchestrator.wording import states, why
from orchestrator.wording.facts import FACTS, clause, line
from orchestrator.wording.why_facts import WhyContext
from tests.lifecycle.every_state import EVERY

FACT_KINDS = {
    each
    for each in vars(on).values()
    if isinstance(each, type)
    and issubclass(each, on.Event)
    and each not in {on.Event, on.AttemptEvent, on.PersonEvent}
}
NO_ACTS = {
    *(on.Admitted, on.DependencySettled, on.WorkspaceReady, on.WorkspaceFailed, on.WorkJoined),
    *(on.BreakpointReached, on.MailboxInvalid, on.AgentExited, on.AttemptDoomed),
    *(on.SnapshotTaken, on.SnapshotFailed, on.GatesFinished, on.BlockersLooked, on.CiReported),
    *(on.PullRequestOpened, on.PullRequestUnknown, on.PullRequestMoved, on.Reviewed),
    on.ReviewFinished,
    *(on.DeadlinePassed, on.TurnPassed, on.AlongAccepted, on.WorkspaceRemoved),
}
"""Facts that the audit does not hold: no act of a person, no start or end of an agent. Of turns it
holds the last one of a pause."""
MOST_STATES = 6
"""States that a module may name without being a table of all of them."""


def test_every_state_is_in_words_in_every_register() -> None:
    assert set(states.STATES) == {kind.__name__ for kind in st.ALL}
    assert set(why.SENTENCES) == set(st.ALL)
    for state, _, _ in EVERY:
        kind, work = type(state).__name__, vars(state)
        states.waiting_for(kind, work, 0.0, span)
        states.entered(kind, work, "", 0.0, span)
        command, more = states.next_step(kind, work)
        over = kind == "Accepted" or work.get("reason") == "person"
        assert bool(command) is bool(more) is not over


def test_every_fact_is_in_words_in_every_register() -> None:
    assert set(FACTS) == FACT_KINDS
    assert set(HELD) == FACT_KINDS - NO_ACTS


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (on.AgentExited(at=1, attempt=2, signal=11), "attempt 2 was ended by signal 11"),
        (on.AgentExited(at=1, attempt=2), "attempt 2 ended without a signal of its own"),
        (
            on.GatesFinished(
                at=1,
                attempt=1,
                gates=(st.Gate(command="a", ok=False), st.Gate(command="b", ok=True)),
            ),
            "`a` ran out of time",
        ),
        (
            on.BlockersLooked(at=1, done=("T1",), ci="red"),
            "the blockers were checked: T1 completed, CI is red",
        ),
        (
            on.BlockersLooked(at=1, circle=("T1", "T2", "T1")),
            "the blockers were checked: they wait for each other in a circle: T1 -> T2 -> T1",
        ),
        (on.Guided(at=1, by="ada", text="use tabs"), "ada gave guidance: use tabs"),
        (on.PauseRequested(at=1), "a person asked to pause"),
    ],
)
def test_facts_are_told_in_words(event: on.Event, words: str) -> None:
    assert clause(event) == words


def test_a_fact_of_a_kind_that_nobody_knows_has_its_name_for_words() -> None:
    class Landed(on.Event):
        """A fact of tomorrow."""

    assert (clause(Landed(at=1.0)), line(Landed(at=1.0))) == ("Landed", "")


@pytest.mark.parametrize("about", st.About)
def test_what_moves_a_wait_on_is_the_same_in_the_list_of_commands_and_the_sentence(
    about: st.About,
) -> None:
    setup = "`loopwright unblock a` or `loopwright guide a TEXT`"  # as the rule itself tells
    state = st.AwaitingHuman(about=about, text=setup if about is st.About.SETUP else "x", since=1.0)
    view = WhyContext(journal=(), now=2.0, when=str, settings=Settings())
    said = why.why(AgentLifecycle(agent_id="a", task="x", work=state), view)
    for command in commands_for(about):
        assert f"`loopwright {command.format('a').removesuffix(' TEXT')}" in said


def test_only_the_tables_name_all_states() -> None:
    names = {kind.__name__ for kind in st.ALL}
    root = Path(orchestrator.__file__).parent
    found = {}
    for path in root.rglob("*.py"):
        tree = ast.walk(ast.parse(path.read_text("utf-8")))
        said = {getattr(node, "id", getattr(node, "value", None)) for node in tree} - {None}
        named = {each for each in said if isinstance(each, str)} & names
        if len(named) > MOST_STATES:
            found[path] = named
    shown = {root / "web/reading/board.py", root / "web/pages/looks.py", root / "web/pages/task.py"}
    shown |= {root / "notify/notifier.py", root / "telemetry/spans.py"}
    assert set(found) - shown == {Path(str(module.__file__)) for module in (states, why)}
