"""The sentence that says why, where a limit, a budget, trouble or the breaker holds a lifecycle."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lifecycle.machine import events as on
from lifecycle.machine.states import AwaitingHuman, BackingOff, Rejected
from runtime.agents.outcome import Ending
from tests.orchestrator.wording.test_why import POLICY, Life

LIMITED = on.AgentReport(ended=Ending.RATE_LIMIT, detail="weekly limit reached", reset_at=5000.0)
BROKEN = on.AgentReport(
    ended=Ending.AUTH, detail="not signed in", advice="Run `claude` and log in."
)


def after(report: on.AgentReport, life: Life | None = None, attempt: int = 1) -> Life:
    """Let an attempt end as its program reports, on a tree that stays as it is."""
    life = life or Life(replace(POLICY, has_gates=False)).begin()
    if isinstance(life.state, BackingOff):
        life.take(on.Admitted(at=life.state.until))
    exited = on.AgentExited(at=4, attempt=attempt, exit_code=1, report=report)
    return life.work(attempt).take(exited).captured(attempt)


def test_a_usage_limit_names_the_programs_words_the_instant_and_the_way_around() -> None:
    said = after(LIMITED).why()
    assert said.startswith("Waiting until @50")
    assert 'for attempt 2 because of "rate_limit: weekly limit reached"' in said
    assert "0 of 3 retries used" in said
    assert "`loopwright resume agent-T001` cuts the wait short" in said


def test_a_chain_names_the_program_that_rests() -> None:
    life = Life(replace(POLICY, programs=("claude", "codex"))).begin()
    assert "; claude is unavailable" in after(LIMITED, life).why()


def test_a_limit_beyond_all_patience_says_when_to_take_it_up_again() -> None:
    life = Life(replace(POLICY, limit_patience=60.0)).begin()
    said = after(LIMITED, life).why()
    assert "longer than limit_patience" in said
    assert "when it is over, `loopwright resume agent-T001` continues it" in said


def test_what_only_a_person_can_mend_comes_with_what_to_do() -> None:
    said = after(BROKEN).why()
    assert "only you can fix: auth: not signed in. Run `claude` and log in" in said
    assert "fix that, and `loopwright resume agent-T001` continues it" in said


def test_a_budget_is_named_with_how_much_is_used() -> None:
    life = Life().take(on.Admitted(at=1, over="budget of the day: $25.00 of $25.00 used"))
    assert isinstance(life.state, Rejected)
    said = life.why()
    assert "because budget of the day: $25.00 of $25.00 used" in said
    assert "raise that budget, and `loopwright resume agent-T001` continues it" in said


@pytest.fixture
def stuck() -> Life:
    life = Life(replace(POLICY, has_gates=False, stuck_limit=2)).begin()
    for attempt in (1, 2):
        after(on.AgentReport(ended=Ending.CRASH, detail="cut off"), life, attempt)
    return life


def test_the_breaker_shows_its_evidence_and_every_way_out(stuck: Life) -> None:
    assert isinstance(stuck.state, AwaitingHuman)
    said = stuck.why()
    assert "needs you since @5 because" in said.lower()
    assert "2 attempts in a row changed nothing and said nothing new" in said
    assert "the last: crash: cut off" in said
    for way in ("logs agent-T001", "guide agent-T001 TEXT", "resume agent-T001"):
        assert f"`loopwright {way}`" in said
    assert f"one more attempt at @{stuck.state.until:g}" in said
