"""The page about outcomes says what the machine and the adapters say."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

from lifecycle.machine.rules.endings import TREATMENTS, FollowUp
from lifecycle.machine.states import Reason
from lifecycle.settings import Settings
from runtime.agents.outcome import Ending

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "agents" / "outcomes.md"
MADE = runpy.run_path(str(ROOT / "docs" / "outcome_table.py"))


def test_the_tables_in_the_page_are_those_of_the_code() -> None:
    page = PAGE.read_text("utf-8")
    assert MADE["written"](page) == page, "run `python docs/outcome_table.py`"


def test_every_ending_but_the_breakpoint_has_a_row_that_says_what_to_do() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", PAGE.read_text(), flags=re.MULTILINE
    )
    assert [row[0] for row in rows] == [str(each) for each in TREATMENTS]
    assert {row[0] for row in rows} == {str(each) for each in Ending} - {
        "breakpoint",
        "completed",
    }
    assert all(cell.strip() and "{" not in cell for row in rows for cell in row)


def test_every_treatment_is_explained_once_with_settings_that_exist() -> None:
    follows = MADE["FOLLOWS"]
    assert set(follows) == set(FollowUp)
    names = {name for each in follows.values() for name in each.settings}
    assert names <= set(Settings.model_fields)


def test_every_reason_to_give_up_but_a_persons_is_one_that_an_ending_leads_to() -> None:
    reasons = {each.reason for each in MADE["FOLLOWS"].values()} - {None}
    assert reasons == set(Reason) - {Reason.PERSON}


def test_every_setting_that_the_page_names_exists() -> None:
    named = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)(?: = \d+)?`", PAGE.read_text("utf-8")))
    words = {str(each) for each in (*Ending, *Reason)} | {"task_complete", "pr_created"}
    assert named - words <= set(Settings.model_fields)
    assert "limit_patience" in named


def test_an_old_page_is_brought_in_line() -> None:
    truth = PAGE.read_text("utf-8")
    old = truth.replace("| `hang` | nothing moved", "| `hung` | it sat")
    assert old != truth
    assert MADE["written"](old) == truth
