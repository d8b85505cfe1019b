"""The words for the states: complete, one spelling, and what a runner's absence makes of them."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from lifecycle.machine import states as st
from lifecycle.record import AgentLifecycle, AgentState
from lifecycle.state_words import RECORD_STATES, meant, spelled, word_for, word_of, word_on
from tests.lifecycle.every_state import EVERY, PROCESS


def test_every_work_state_has_a_word_with_and_without_a_runner() -> None:
    assert {type(state) for state, _, _ in EVERY} == set(st.ALL)
    for state, word, alone in EVERY:
        assert (word_for(state), word_for(state, runs=False)) == (word, alone), state
    assert {word for _, word, _ in EVERY} == set(RECORD_STATES)


def test_a_word_is_the_same_read_off_a_stored_state() -> None:
    for state, word, alone in EVERY:
        kind, stored = type(state).__name__, asdict(state)
        assert word_of(kind, stored) == word
        assert word_of(kind, stored, runs=False) == alone


def test_every_word_names_the_states_of_records_it_may_stand_for() -> None:
    for state, word, alone in EVERY:
        assert st.coarse(state).value in RECORD_STATES[word]
        assert st.coarse(state).value in RECORD_STATES[alone]


def test_a_record_that_no_loop_drives_has_a_word_too() -> None:
    words = {
        each: word_on(AgentLifecycle(agent_id="a", task="x", state=each)) for each in AgentState
    }
    assert words == {
        AgentState.QUEUED: "queued",
        AgentState.RUNNING: "working",
        AgentState.COMPLETED: "done",
        AgentState.REJECTED: "rejected",
        AgentState.ACCEPTED: "accepted",
    }


@pytest.mark.parametrize(
    "text", ["needs you", "needs-you", "needs_you", "NEEDS-You", " needs  you"]
)
def test_a_word_is_understood_in_each_spelling(text: str) -> None:
    assert meant(text) == "needs you"
    assert spelled(meant(text)) == "needs-you"


@pytest.mark.parametrize("text", ["", "running", "completed", "awaiting_human", "suspended"])
def test_what_is_not_a_word_is_not_guessed_at(text: str) -> None:
    assert meant(text) == ""


def test_what_holds_a_frozen_attempt_is_a_pause_also_without_a_runner() -> None:
    frozen = st.Working(process=PROCESS, since=1.0, frozen=True)
    assert (word_for(frozen), word_for(frozen, runs=False)) == ("paused", "paused")
