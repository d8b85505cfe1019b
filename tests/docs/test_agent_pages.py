"""What a page says of an agent program is what its adapter does and its parser finds."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from lifecycle.launch import programs
from lifecycle.plan import Agent
from lifecycle.settings import Settings
from runtime.agents.catalogue import BUILT_IN, built_in
from runtime.agents.outcome import Ending, RunOutcome, with_breakpoint
from tests.docs.agent_texts import FOLDER, PAGES, QUOTED, ROOT, TEXTS, each_adapter
from tests.runtime.agents.recorded import ALL, ran, replay

if TYPE_CHECKING:
    from pathlib import Path

ROWS = re.compile(r"^\| (.+) \| (.+) \|$", re.MULTILINE)


def endings(page: str) -> dict[str, set[str]]:
    """Return the rows of the table of endings: what happened, and its names."""
    table = TEXTS[page].split("## How it ends")[1].split("\n## ")[0]
    rows = ROWS.findall(table)
    assert rows[0][1] == "is called"
    return {what: set(QUOTED.findall(names)) for what, names in rows[1:]}


# --- facts ------------------------------------------------------------------------------------


@each_adapter
def test_the_facts_of_a_page_are_those_of_its_adapter(name: str) -> None:
    facts = PAGES["facts_of"](built_in(name))
    assert PAGES["written"](TEXTS[name], facts) == TEXTS[name], "run `make docs`"


def test_the_table_of_all_adapters_is_the_one_of_the_code() -> None:
    assert PAGES["written"](TEXTS["README"], PAGES["overview"]()) == TEXTS["README"], (
        "run `make docs`"
    )


@each_adapter
def test_no_reason_is_given_for_what_an_adapter_does_no_more(name: str) -> None:
    assert set(PAGES["ABOUT"][name]["why"]) == set(PAGES["given"](built_in(name)))


@pytest.mark.parametrize("name", [name for name in BUILT_IN if built_in(name).programs])
def test_the_command_line_on_a_page_is_the_one_that_a_loop_starts(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    launch = programs.launch(
        programs.named(name),
        Agent(agent_id="agent-T001", adapter=name),
        Settings(),
        programs.HostEnvironment(),
        config=tmp_path,
        identity={},
    )
    assert f"Started as `{' '.join(launch.argv)} < PROMPT`" in TEXTS[name]


def test_what_is_installed_for_the_tests_is_what_the_pages_call_tested() -> None:
    pinned = json.loads((ROOT / "tests" / "tools" / "agents" / "package.json").read_text("utf-8"))
    wanted = {
        built_in(name).install.rpartition(" ")[2]: built_in(name).tested[-1]
        for name in BUILT_IN
        if built_in(name).install
    }
    versions = pinned["dependencies"]
    assert {package: wanted[package] for package in versions} == versions


# --- what a program tells ---------------------------------------------------------------------

TOLD = {
    "tokens": lambda outcome: outcome.usage is not None,
    "cost": lambda outcome: outcome.cost_usd is not None,
    "denied": lambda outcome: bool(outcome.denied),
    "resets": lambda outcome: outcome.reset_at is not None,
}
UNRECORDED: dict[tuple[str, str], RunOutcome] = {
    ("codex", "denied"): ran(
        "codex",
        {
            "type": "item.completed",
            "item": {"id": "i", "type": "command_execution", "status": "declined"},
        },
        {"type": "turn.completed", "usage": {"input_tokens": 1}},
    ),
    ("opencode", "denied"): ran(
        "opencode",
        {
            "type": "tool_use",
            "sessionID": "s",
            "part": {
                "callID": "c",
                "tool": "bash",
                "state": {"status": "error", "error": "The user rejected permission to use this"},
            },
        },
    ),
    ("opencode", "resets"): ran(
        "opencode",
        {
            "type": "error",
            "sessionID": "s",
            "error": {
                "name": "APIError",
                "data": {
                    "message": "slow down",
                    "statusCode": 429,
                    "responseHeaders": {"retry-after": "600"},
                },
            },
        },
        code=1,
    ),
    ("copilot", "tokens"): ran(
        "copilot",
        {"type": "assistant.usage", "data": {"inputTokens": 5, "outputTokens": 1}},
        {"type": "result", "exitCode": 0},
    ),
}
"""What no recorded run shows, in the words of the program."""


@pytest.mark.parametrize("what", TOLD)
@each_adapter
def test_a_page_says_what_a_program_tells_and_nothing_else(name: str, what: str) -> None:
    seen = [replay(other, case) for other, case in ALL if other == name]
    more = [
        outcome for (other, kind), outcome in UNRECORDED.items() if (other, kind) == (name, what)
    ]
    assert any(map(TOLD[what], [*seen, *more])) == (what in PAGES["ABOUT"][name]["tells"])
    assert all(map(TOLD[what], more))


@each_adapter
def test_each_ending_of_a_recorded_run_is_on_the_page(name: str) -> None:
    named = set().union(*endings(name).values())
    assert named <= set(Ending)
    outcomes = [replay(other, case) for other, case in ALL if other == name]
    shown = {
        str(with_breakpoint(outcome, found=found).outcome)
        for outcome in outcomes
        for found in (False, True)
    }
    assert shown <= named


def _error(message: str, status: int | None = None, **more: Any) -> dict[str, Any]:
    data = {"message": message, "statusCode": status, **more}
    return {"type": "error", "sessionID": "s", "error": {"name": "APIError", "data": data}}


def _copilot(message: str, status: int) -> dict[str, Any]:
    data = {"errorType": "query", "message": message, "statusCode": status}
    return {"type": "session.error", "data": data}


def _failed(message: str) -> dict[str, Any]:
    return {"type": "turn.failed", "error": {"message": message}}


CLAIMED: list[tuple[str, str, RunOutcome]] = [
    ("claude", "TERM (exit code 143)", ran("claude", code=143)),
    ("codex", "Quota exceeded.", ran("codex", _failed("Quota exceeded. Check your plan"), code=1)),
    ("codex", "401, 403", ran("codex", _failed("unexpected status 403 Forbidden"), code=1)),
    ("gemini", "exit code 41", ran("gemini", code=41)),
    ("gemini", "exit codes 44 and 52", ran("gemini", code=44)),
    ("gemini", "exit codes 44 and 52", ran("gemini", code=52)),
    ("gemini", "exit code 53", ran("gemini", code=53)),
    ("opencode", "a used-up quota", ran("opencode", _error("insufficient_quota", 429), code=1)),
    ("opencode", "5xx", ran("opencode", _error("trouble", 503), code=1)),
    (
        "copilot",
        "premium requests",
        ran("copilot", _copilot("no premium requests left", 402), code=1),
    ),
    ("copilot", "5xx", ran("copilot", _copilot("trouble", 503), code=1)),
    ("copilot", "401, 403", ran("copilot", _copilot("no", 403), code=1)),
    ("copilot", "a signal", ran("copilot", code=-15)),
    ("command", "another exit code", ran("command", code=3)),
    ("command", "126 or 127", ran("command", code=127)),
    ("command", "SIGSEGV", ran("command", code=-11)),
    ("command", "another signal", ran("command", code=-15)),
]


@pytest.mark.parametrize(("name", "what", "outcome"), CLAIMED)
def test_what_a_page_claims_of_an_ending_is_so(name: str, what: str, outcome: RunOutcome) -> None:
    rows = [names for row, names in endings(name).items() if what in row]
    assert str(outcome.outcome) in set().union(*rows)


@pytest.mark.parametrize(("status", "code"), [(429, 173), (401, 145), (503, 247)])
def test_the_exit_codes_of_gemini_are_those_on_its_page(status: int, code: int) -> None:
    assert f"{status} is {code}" in TEXTS["gemini"]
    assert status & 255 == code


def test_a_sign_in_for_one_program_is_passed_on_and_tokens_for_more_are_not() -> None:
    assert "CLAUDE_CODE_OAUTH_TOKEN" in built_in("claude").passes
    assert "COPILOT_GITHUB_TOKEN" in built_in("copilot").passes
    assert {"GH_TOKEN", "GITHUB_TOKEN"} <= set(built_in("copilot").keys)


# --- the pages as pages -----------------------------------------------------------------------


def test_each_adapter_has_a_page_and_each_page_an_adapter() -> None:
    others = {"README", "outcomes", "conformance"}
    assert {path.stem for path in FOLDER.glob("*.md")} - others == set(BUILT_IN)


@each_adapter
def test_a_page_fits_two_screens_and_says_the_same_things_in_the_same_order(name: str) -> None:
    assert len(TEXTS[name].splitlines()) <= 100
    heads = re.findall(r"^## (.+)$", TEXTS[name], re.MULTILINE)
    middle = "What it must do" if name == "command" else "Unattended"
    assert heads == ["Set up", middle, "How it ends", "Known traps"]
    for link in ("outcomes.md", "../how-to/sandbox.md"):
        assert f"({link})" in TEXTS[name]
