"""Whether agent programs and settings fit: told or refused at a start, and found by the doctor."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from runtime.agents.catalogue import BUILT_IN, built_in
from tests.orchestrator.loopkit import DONE, SETTINGS
from tests.runtime.agents.recorded import ALL, replay

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.orchestrator.filled import Cli
    from tests.orchestrator.loopkit import World

NO_COST = "codex reports no dollars, so it cannot be held to"
INSTALL_TOOLS = (
    "install it with `uv tool install 'loopwright[mcp]'` or `pip install 'loopwright[mcp]'`"
)


def program(folder: Path, name: str, version: str, does: str = "exit 1") -> None:
    path = folder / name
    path.write_text(f'#!/bin/sh\nif [ "$1" = --version ]; then echo {version}; exit; fi\n{does}\n')
    path.chmod(0o755)


# --- budgets ----------------------------------------------------------------------------------


def test_an_adapter_tells_what_its_recorded_runs_tell() -> None:
    runs: dict[str, list[Any]] = {name: [] for name in BUILT_IN}
    for name, case in ALL:
        runs[name].append(replay(name, case, live=False))
    tokens = {name: any(run.usage is not None for run in runs[name]) for name in BUILT_IN}
    cost = {name: any(run.cost_usd is not None for run in runs[name]) for name in BUILT_IN}
    assert {name: built_in(name).tells_tokens for name in BUILT_IN} == tokens
    assert {name: built_in(name).tells_cost for name in BUILT_IN} == cost


# --- the tool server --------------------------------------------------------------------------


def test_a_tool_server_that_is_not_there_is_refused_where_it_is_asked_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    world.settings(f'{SETTINGS}tool_server = "on"\n')
    agent = world.script("agent", [DONE])
    for words in (
        ("run", "Do it", "--command", agent),
        ("up", world.plan_of({"T001": [DONE]}), "--no-server"),
        ("add", "Do it", "--command", agent),
    ):
        assert INSTALL_TOOLS in world.call(*words, code=2).stderr
        assert world.row() == {}


# --- the doctor -------------------------------------------------------------------------------


def found(cli: Cli, settings: str, what: str) -> list[dict[str, Any]]:
    (cli.repo / "loopwright.toml").write_text(settings)
    checks = json.loads(cli("doctor", "--json"))["checks"]
    return [check for check in checks if check["what"] == what]


def test_the_doctor_finds_the_agent_that_is_set_and_its_version(empty: Cli, programs: Path) -> None:
    [check] = found(empty, 'adapter = "codex"\n', "agent")
    assert (check["level"], empty.code) == ("bad", 2)
    assert check["found"] == "codex is not on PATH"
    assert check["mend"] == "npm install -g @openai/codex@0.169.0"
    program(programs, "codex", "codex-cli 0.169.0")
    [check] = found(empty, 'adapter = "codex"\n', "agent")
    assert check["level"] == "ok"
    assert check["found"] == f"codex 0.169.0 at {programs / 'codex'}"
    program(programs, "codex", "codex-cli 0.170.0")
    [check] = found(empty, 'adapter = "codex:o9"\n', "agent")
    assert (check["level"], empty.code) == ("warn", 0)
    assert "codex 0.170.0" in check["found"]
    assert "tested with 0.169.0" in check["found"]


def test_the_doctor_looks_at_each_program_of_a_chain(empty: Cli, programs: Path) -> None:
    program(programs, "codex", "codex-cli 0.169.0")
    checks = found(empty, 'agents = ["claude", "codex"]\n', "agent")
    assert [check["level"] for check in checks] == ["warn", "ok"]
    assert empty.code == 0
    (programs / "codex").unlink()
    checks = found(empty, 'agents = ["claude", "codex"]\n', "agent")
    assert [check["level"] for check in checks] == ["bad", "bad"]


def test_the_doctor_reads_the_plan_at_the_top(empty: Cli, programs: Path) -> None:
    plan = empty.repo / "loopwright.plan.toml"
    plan.write_text('[agents.x]\nadapter = "codex"\n[[tasks]]\nid = "A"\nbudget = {usd = 1.0}\n')
    assert found(empty, "", "agent")[0]["found"] == "codex is not on PATH"
    [check] = found(empty, "", "budget")
    assert (check["level"], empty.code) == ("bad", 2)
    assert check["found"] == f"{NO_COST} usd in the budget of the task"
    plan.write_text('[agents.x]\ncommand = ["no-such-program"]\n[[tasks]]\nid = "A"\n')
    assert found(empty, "", "agent")[0]["found"] == "no-such-program is not on PATH"
    plan.write_text('[agents.x]\nadapter = "cloude"\n[[tasks]]\nid = "A"\n')
    [check] = found(empty, "", "plan")
    assert (check["level"], empty.code) == ("bad", 2)
    assert "loopwright.plan.toml:2: agents.x: there is no agent program" in check["found"]
    del programs


def test_the_doctor_names_variables_that_are_not_set(
    empty: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_SET_KEY", "sesame")
    [check] = found(empty, 'pass_env = ["MY_SET_KEY", "MY_UNSET_KEY"]\n', "pass_env")
    assert check["level"] == "warn"
    assert check["found"] == "not set here: MY_UNSET_KEY"
    assert "sesame" not in empty.out
    assert found(empty, 'pass_env = ["MY_SET_KEY"]\n', "pass_env") == []


def test_the_doctor_tells_of_a_tool_server_that_is_not_there(
    empty: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    assert found(empty, "", "tool server") == []
    [check] = found(empty, 'tool_server = "on"\n', "tool server")
    assert (check["level"], check["mend"]) == ("bad", INSTALL_TOOLS)
    assert empty.code == 2


def test_the_doctor_refuses_a_budget_that_cannot_hold_as_a_start_does(
    empty: Cli, programs: Path
) -> None:
    program(programs, "codex", "codex-cli 0.169.0")
    [check] = found(empty, 'adapter = "codex"\nbudget_usd = 1.0\n', "budget")
    assert (check["level"], empty.code) == ("bad", 2)
    assert check["found"] == f"{NO_COST} budget_usd"
    assert "prices = { codex = " in check["mend"]
    assert 'budget_exempt = ["codex"]' in check["mend"]
    exempt = 'adapter = "codex"\nbudget_usd = 1.0\nbudget_exempt = ["codex"]\n'
    [check] = found(empty, exempt, "budget")
    assert (check["level"], empty.code) == ("ok", 0)
    assert check["found"].endswith("allowed by budget_exempt")
    priced = 'adapter = "codex"\nbudget_usd = 1.0\nprices.codex = {input = 1, output = 9}\n'
    assert found(empty, priced, "budget") == []


def test_the_doctor_names_the_settings_where_nothing_is_limited(empty: Cli, programs: Path) -> None:
    program(programs, "codex", "codex-cli 0.169.0")
    [check] = found(empty, 'adapter = "codex"\n', "budget")
    assert (check["level"], empty.code) == ("warn", 0)
    assert check["found"].startswith("No budget is set")
    assert "budget_attempts, budget_hours" in check["mend"]
    assert found(empty, 'adapter = "codex"\nbudget_attempts = 5\n', "budget") == []
