"""Budgets at a start, as somebody types it: refused with the ways out, held, or told once."""

from __future__ import annotations

import json
import shlex
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.orchestrator.loopkit import DONE, SETTINGS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.orchestrator.loopkit import World

LIMITED = f"{SETTINGS}verify = []\nrequire_ci = false\ntool_server = 'off'\nbudget_usd = 2.0\n"
NO_BUDGET = "No budget is set: agents may use as much as they take"
EXEMPT = 'budget_exempt = ["codex"]\n'
PRICE = "prices = {codex = {input = 1.0, cached = 0.1, output = 10.0}}\n"


def plays(world: World, programs: Path, name: str, script: object) -> None:
    """Let a known agent program do as a script says."""
    command = world.script(name, script)
    (programs / name).write_text(f"#!/bin/sh\nexec {shlex.quote(sys.executable)} -P {command}\n")
    (programs / name).chmod(0o755)


def uses(tokens: int, *, cached: int = 0, output: int = 0) -> dict[str, str]:
    """Say as codex does what its turn used."""
    usage = {"input_tokens": tokens, "cached_input_tokens": cached, "output_tokens": output}
    return {"say": json.dumps({"type": "turn.completed", "usage": usage}, separators=(",", ":"))}


def plan(world: World, *more: str, agent: str = 'adapter = "codex"') -> str:
    tasks = "".join(f'[[tasks]]\nid = "T00{number}"\n{each}\n' for number, each in enumerate(more))
    return world.plan(f"[agents.default]\n{agent}\n{tasks}")


# --- refused ------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["run", "up", "add"])
def test_a_command_is_refused_with_a_budget_that_it_cannot_report(
    world: World, command: str
) -> None:
    agent = world.script("agent", [DONE])
    world.settings(f"{LIMITED}day_budget_tokens = 9\n")
    words = {
        "run": ("run", "Do it", "--command", agent),
        "up": ("up", plan(world, "", agent=f"command = {json.dumps(agent.split())}")),
        "add": ("add", "Do it", "--command", agent),
    }
    done = world.call(*words[command], code=2)
    assert "reports no tokens or dollars" in done.stderr
    assert "cannot be held to day_budget_tokens and budget_usd; " in done.stderr
    assert 'budget_exempt = ["command"] (a price does not help: it reports no tok' in done.stderr
    assert "budget_hours and budget_attempts hold every program" in done.stderr
    assert done.stdout == ""
    assert world.row() == {}
    assert world.branches() == ["main"]


@pytest.mark.parametrize("chain", ["codex", "claude,codex", "codex,claude"])
def test_a_chain_is_refused_for_the_one_program_that_names_no_dollars(
    world: World, programs: Path, chain: str
) -> None:
    for name in ("claude", "codex"):
        plays(world, programs, name, [DONE])
    world.settings(LIMITED)
    done = world.call("run", "Do it", "--agent", chain, code=2)
    assert "codex reports no dollars, so it cannot be held to budget_usd; " in done.stderr
    assert "prices = { codex = { input = DOLLARS, output = DOLLARS } }, or " in done.stderr
    assert 'budget_exempt = ["codex"]' in done.stderr
    assert "claude tells" not in done.stderr
    assert world.row() == {}


@pytest.mark.parametrize("of", ["task", "plan"])
def test_a_budget_of_a_plan_is_refused_alike(world: World, programs: Path, of: str) -> None:
    plays(world, programs, "codex", [DONE])
    world.settings(SETTINGS)
    given = plan(world, "budget = {usd = 1.0}" if of == "task" else "")
    if of == "plan":
        given = world.plan(f"budget = {{usd = 1.0}}\n{(world.folder / 'plan.toml').read_text()}")
    done = world.call("up", given, "--no-server", code=2)
    assert f"cannot be held to usd in the budget of the {of}; " in done.stderr
    assert world.row() == {}


@pytest.mark.parametrize("command", ["up", "serve"])
def test_a_start_is_refused_for_a_recorded_task_whose_program_is_not_held_any_more(
    world: World, programs: Path, command: str
) -> None:
    plays(world, programs, "codex", [DONE])
    world.settings(SETTINGS)
    world.call("add", "Do it", "--agent", "codex")
    world.settings(LIMITED)
    done = world.call(command, *(("--port", "0") if command == "serve" else ()), code=2)
    assert "codex reports no dollars, so it cannot be held to budget_usd; " in done.stderr
    assert world.row()["attempt"] == 1
    assert world.row()["work_kind"] == "Queued"


# --- held ---------------------------------------------------------------------------------------


def test_a_price_makes_dollars_of_tokens_and_a_raised_budget_goes_on(
    world: World, programs: Path
) -> None:
    # 1.0 for new input, 0.1 for what came out of the cache, and 0.15 for the output
    works = [uses(2_000_000, cached=1_000_000, output=15_000)]
    script = {"attempts": {"default": works, "3": [*works, DONE]}}
    plays(world, programs, "codex", script)
    world.settings(LIMITED + PRICE)
    done = world.call("run", "Do it", "--agent", "codex", code=5)
    assert "budget of the lifecycle: $2.50 of $2.00 used" in done.stdout
    spent = world.json("costs", "--by", "program")
    [line] = spent["lines"]
    assert (line["name"], line["attempts"]) == ("codex", 2)
    assert line["cost_usd"] == pytest.approx(2.5)
    assert [part["exact"] for part in spent["budgets"]] == [True]
    again = world.call("run", "--task-id", "T001", code=None)
    assert (again.code, world.row()["spawn_count"]) == (5, 2)
    assert "raise that budget" in world.call("show", "agent-T001", "--why").stdout
    world.settings(LIMITED.replace("budget_usd = 2.0", "budget_usd = 3.0") + PRICE)
    done = world.call("run", "--task-id", "T001")
    assert world.row()["spawn_count"] == 3


def test_an_attempt_is_ended_when_its_tokens_use_up_the_dollars(
    world: World, programs: Path
) -> None:
    plays(world, programs, "codex", [uses(9_000_000), {"hang": True}])
    world.settings(LIMITED + PRICE + "idle_limit = 20.0\n")
    done = world.call("run", "Do it", "--agent", "codex", code=5)
    assert "budget of the lifecycle: $9.00 of $2.00 used" in done.stdout
    assert world.row()["spawn_count"] == 1


@pytest.mark.parametrize("exempt", [EXEMPT, EXEMPT.replace("codex", "codex:mini")])
def test_an_exempt_program_works_and_that_is_told_once(
    world: World, programs: Path, exempt: str
) -> None:
    plays(world, programs, "codex", [uses(9_000_000), DONE])
    world.settings(LIMITED + exempt)
    given = plan(world, "", "", "", agent='adapter = "codex:mini"')
    done = world.call("up", given, "--no-server")
    told = "codex reports no dollars, so it cannot be held to budget_usd; it works all the same"
    assert done.stderr.count(told) == 1
    assert done.stderr.count("reports no") == 1
    [part] = [part for part in world.json("costs")["budgets"] if part["name"] == "agent-T001"]
    assert (part["used"], part["exact"]) == (0, False)


# --- said ---------------------------------------------------------------------------------------


def test_a_run_without_any_budget_says_so_once(world: World) -> None:
    done = world.call("up", world.plan_of({name: [DONE] for name in "ABC"}), "--no-server")
    assert done.stderr.count(NO_BUDGET) == 1
    assert "budget_attempts, budget_hours, budget_tokens or budget_usd" in done.stderr
    assert "No budget" not in done.stdout
    done = world.call("run", "Do it", "--command", world.script("agent", [DONE]))
    assert done.stderr.count(NO_BUDGET) == 1


@pytest.mark.parametrize("where", ["settings", "plan", "task"])
def test_a_run_with_a_budget_says_nothing_of_that(world: World, where: str) -> None:
    limit: dict[str, dict[str, object]] = {"budget": {"attempts": 9}}
    if where == "settings":
        world.settings(f"{SETTINGS}budget_hours = 2.0\n")
    of_plan: dict[str, Any] = dict(limit) if where == "plan" else {}
    given = world.plan_of(
        {"A": [DONE], "B": [DONE]}, {"A": limit} if where == "task" else None, **of_plan
    )
    assert "No budget" not in world.call("up", given, "--no-server").stderr


def test_a_budget_that_comes_while_it_runs_ends_nothing_and_is_told(
    world: World, programs: Path
) -> None:
    go = world.folder / "go"
    fails = [{"wait_file": str(go)}, {"exit": 1}]
    plays(world, programs, "codex", {"attempts": {"1": fails, "default": [DONE]}})
    world.settings(LIMITED.replace("budget_usd = 2.0", ""))
    with world.live("run", "Do it", "--agent", "codex", "--plain") as live:
        world.comes_to("Working")
        world.settings(LIMITED)
        go.touch()
        live.says("codex reports no dollars, so it cannot be held to budget_usd; ")
        live.ends(0)
        assert live.err.count("codex reports no dollars") == 1
        assert live.err.count(NO_BUDGET) == 1


def test_a_program_that_keeps_silent_goes_on_until_its_attempts_are_used_up(
    world: World, programs: Path
) -> None:
    plays(world, programs, "claude", [{"exit": 1}])
    world.settings(f"{LIMITED}budget_attempts = 5\nmax_retries = 50\nstuck_limit = 50\n")
    done = world.call("run", "Do it", "--agent", "claude", "--plain", code=5)
    assert "budget of the lifecycle: 5 of 5 attempts used" in done.stdout
    assert done.stderr.count("the last 3 attempts reported no dollars, so budgets count them") == 1
