"""Recorded runs of real programs are judged as what they were."""

from __future__ import annotations

import pytest

from runtime.agents.outcome import Ending, RunOutcome, UsageScope
from tests.runtime.agents.recorded import ALL, CODES, FOLDER, part_of, replay

ENDINGS: dict[str, dict[str, str]] = {
    "claude": {
        "budget": "budget",
        "e_auth": "auth",
        "e_billing": "billing",
        "e_context": "context_overflow",
        "e_drop": "network",
        "e_model": "model",
        "e_overloaded": "overloaded",
        "e_rate_limit": "rate_limit",
        "e_rate_ra": "rate_limit",
        "maxturns": "max_turns",
        "netdown": "network",
        "noperm": "denied",
        "oauth_limit": "rate_limit",
        "sig_INT": "killed",
        "sig_TERM": "killed",
    },
    "codex": {
        "e_auth": "auth",
        "e_billing": "billing",
        "e_codex_limit": "rate_limit",
        "e_context": "context_overflow",
        "e_drop": "network",
        "e_model": "model",
        "e_overloaded": "overloaded",
        "e_rate_limit": "rate_limit",
        "e_usage_limit": "rate_limit",
        "netdown": "network",
        "sig_INT": "killed",
        "sig_TERM": "killed",
    },
    "gemini": {
        "e_auth": "auth",
        "e_context": "context_overflow",
        "e_drop": "network",
        "e_gemini_daily": "quota",
        "e_overloaded": "overloaded",
        "e_rate_limit": "rate_limit",
        "maxturns": "loop",
        "netdown": "network",
        "sig_TERM_group": "killed",
    },
    "opencode": {
        "e_auth": "auth",
        "e_billing": "billing",
        "e_context": "context_overflow",
        "e_model": "model",
        "e_overloaded": "overloaded",
        "e_rate_limit": "rate_limit",
        "netdown": "network",
        "sig_TERM": "killed",
    },
    "copilot": {"e_auth": "auth", "e_context": "context_overflow", "e_rate_limit": "rate_limit"},
}
"""All others were completed."""
USED = {
    # input, output, cached, total, money
    ("claude", "ok"): (2400, 68, 2000, 4468, 0.01136),
    ("claude", "budget"): (7200, 204, 0, 7404, 0.03288),
    ("claude", "res1"): (1200, 34, 0, 1234, 0.00548),
    ("claude", "res2"): (1200, 34, 0, 1234, 0.00548),
    ("claude", "e_auth"): (0, 0, 0, 0, 0.0),
    ("claude", "sig_TERM"): (1200, 1, 0, 1201, None),
    ("codex", "ok"): (2400, 68, 2000, 2468, None),
    ("gemini", "ok"): (3600, 102, 3000, 3702, None),
    ("gemini", "maxturns"): (51600, 1462, 0, 53062, None),
    ("opencode", "ok"): (400, 68, 2000, 2468, 0.000536),
    ("opencode", "res2"): (1200, 34, 0, 1234, 0.001268),
}


def test_every_recorded_run_is_listed() -> None:
    there = {(path.parent.name, path.stem) for path in FOLDER.glob("*/*.stdout")}
    assert there == set(ALL)


@pytest.mark.parametrize(("name", "case"), ALL)
def test_a_recorded_run_is_judged_as_what_it_was(name: str, case: str) -> None:
    found = replay(name, case)
    assert found.outcome == ENDINGS[name].get(case, "completed")
    if found.outcome is not Ending.COMPLETED:
        assert found.detail
    assert bool(found.what_to_do) == (found.outcome not in (Ending.COMPLETED, Ending.KILLED))


@pytest.mark.parametrize(("name", "case"), ALL)
def test_reading_for_the_outcome_alone_gives_the_same(name: str, case: str) -> None:
    assert replay(name, case, live=False) == replay(name, case)


@pytest.mark.parametrize(("name", "case"), USED)
def test_tokens_and_money_are_this_runs_and_counted_once(name: str, case: str) -> None:
    found = replay(name, case)
    assert found.usage is not None
    *tokens, cost = USED[name, case]
    assert [found.usage.input, found.usage.output, found.usage.cached, found.usage.total] == tokens
    assert found.cost_usd == (None if cost is None else pytest.approx(cost))


def test_a_program_that_does_not_tell_its_use_is_not_said_to_use_nothing() -> None:
    found = replay("copilot", "ok")
    assert (found.usage, found.cost_usd) == (None, None)
    assert found.to_json()["usage"] == {}


@pytest.mark.parametrize("name", CODES)
def test_a_good_run_is_told_with_its_session_words_and_tools(name: str) -> None:
    found = replay(name, "ok")
    assert found.last_words == "Done: wrote communications.json."
    assert found.tool_calls == 1
    assert len(found.session_id) > 20
    assert found.notes == {}


def test_the_model_is_told_where_the_program_tells_it() -> None:
    models = {name: replay(name, "ok").model for name in CODES}
    assert models == {
        "claude": "claude-opus-5-5",
        "codex": "",
        "gemini": "gemini-3.8-flash",  # it chose by itself; this one did the work
        "opencode": "",
        "copilot": "scripted-1",
    }


def test_the_codex_count_is_known_to_be_of_the_whole_session() -> None:
    assert replay("codex", "ok").usage_scope is UsageScope.SESSION
    assert replay("claude", "res2").cost_scope is UsageScope.RUN


def test_a_reset_time_belongs_to_a_limit_alone() -> None:
    assert replay("claude", "oauth_limit").reset_at == 1795000000.0
    assert replay("claude", "oauth_warn").reset_at is None
    # 11:06 AM has gone by at noon: tomorrow's.
    assert replay("codex", "e_codex_limit").reset_at == 1795086360.0
    assert replay("codex", "e_usage_limit").reset_at is None


@pytest.mark.parametrize("name", ["claude", "codex", "gemini", "opencode"])
def test_recorded_events_are_all_known(name: str) -> None:
    for case in CODES[name]:
        assert "unknown" not in replay(name, case).notes, case


def test_the_unknown_kinds_are_counted_and_kept_out() -> None:
    found: RunOutcome = replay("copilot", "ok")
    kinds = {each["type"] for each in part_of("copilot", "ok")}
    assert len(kinds) > 10
    assert found.notes == {}
