"""Budgets read the short way are those of the settings, and refused where those are refused."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from lifecycle.settings import Settings
from orchestrator.budgetlimits import NAMES, limits_of
from orchestrator.config import load_settings
from orchestrator.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

PLAIN: tuple[tuple[str, dict[str, str]], ...] = (
    ("", {}),
    ("budget_tokens = 5_000_000\nbudget_usd = 20\nbudget_hours = 0.5\nbudget_attempts = 1\n", {}),
    ("plan_budget_usd = 1e2\nday_budget_usd = 2.5\nadapter = 'claude'\n", {}),
    ("budget_usd = 3.0\nbudget_tokens = 4\n", {"BUDGET_USD": "7", "DAY_BUDGET_ATTEMPTS": "12"}),
    ("budget_usd = '3.25'\nbudget_tokens = '4'\n", {"BUDGET_USD": " "}),
    ("budget_exempt = ['codex']\nbudget_usd = 2\n", {}),
    ("verify = 'make'\nmax_retries = 3\n", {"PLAN_BUDGET_HOURS": "1.5", "AGENT_ID": "x"}),
)
ODD: tuple[tuple[str, dict[str, str]], ...] = (
    ("budget_tokens = 5.0\n", {}),
    ("budget_usd = ' 5 '\nbudget_hours = '1e1'\n", {"BUDGET_TOKENS": "5_000"}),
    ("max_attempts = 7\nday_budget_tokens = 9\n", {}),
)
REFUSED: tuple[tuple[str, dict[str, str]], ...] = (
    ("budget_usd = 0\n", {}),
    ("budget_usd = inf\n", {}),
    ("budget_tokens = 1.5\n", {}),
    ("budget_tokens = true\n", {}),
    ("budget_attempts = 0\n", {}),
    ("budget_usd = [1]\n", {}),
    ("budget-usd = 1\n", {}),
    ("bugdet_usd = 1\n", {}),
    ("daily_budget_usd = 1\n", {}),
    ("budget_usd = \n", {}),
    ("", {"BUDGET_USD": "much"}),
    ("", {"BUDGET_TOKENS": "-5"}),
    ("", {"BUDGET_DOLLARS": "5"}),
)


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Return variables of somebody whose own file names budgets, too."""
    own = tmp_path / "loopwright" / "config.toml"
    own.parent.mkdir()
    own.write_text("budget_usd = 99.0\nday_budget_hours = 8\n")
    project = "[tool.loopwright]\nday_budget_hours = 9.5\n[tool.other]\nbudget_usd = 'none'\n"
    (tmp_path / "pyproject.toml").write_text(project)
    return {"XDG_CONFIG_HOME": str(tmp_path)}


def written(repo: Path, text: str, environ: dict[str, str], more: dict[str, str]) -> dict[str, str]:
    (repo / "loopwright.toml").write_text(text)
    return environ | {f"LOOPWRIGHT_{name}": value for name, value in more.items()}


def judged(repo: Path, environ: dict[str, str]) -> dict[str, float]:
    """Return the budgets as loops have them."""
    settings = load_settings(repo, environ=environ).model_dump()
    return {name: settings[name] for name in NAMES if settings[name] is not None}


def test_its_names_are_those_of_the_settings() -> None:
    assert sorted(NAMES) == sorted(
        name for name in Settings.model_fields if "budget_" in name and name != "budget_exempt"
    )


@pytest.mark.parametrize(("text", "more"), PLAIN)
def test_what_is_written_plainly_is_read_as_loops_read_it_without_the_other_settings(
    tmp_path: Path,
    environ: dict[str, str],
    text: str,
    more: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    variables = written(tmp_path, text, environ, more)
    wanted = judged(tmp_path, variables)
    monkeypatch.setitem(sys.modules, "orchestrator.config", None)
    found = limits_of(tmp_path, variables)
    assert found == wanted
    assert {name: type(value) for name, value in found.items()} == {
        name: type(value) for name, value in wanted.items()
    }


@pytest.mark.parametrize(("text", "more"), ODD)
def test_what_is_written_oddly_is_read_as_loops_read_it(
    tmp_path: Path, environ: dict[str, str], text: str, more: dict[str, str]
) -> None:
    variables = written(tmp_path, text, environ, more)
    assert limits_of(tmp_path, variables) == judged(tmp_path, variables)


@pytest.mark.parametrize(("text", "more"), REFUSED)
def test_a_bad_budget_and_a_slip_of_the_pen_are_refused_in_the_same_words(
    tmp_path: Path, environ: dict[str, str], text: str, more: dict[str, str]
) -> None:
    variables = written(tmp_path, text, environ, more)
    with pytest.raises(ConfigError) as theirs:
        load_settings(tmp_path, environ=variables)
    with pytest.raises(ConfigError) as mine:
        limits_of(tmp_path, variables)
    assert str(mine.value) == str(theirs.value)
