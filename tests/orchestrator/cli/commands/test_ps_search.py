"""`loopwright ps --search`: what was said and asked is found, and shown safely."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.orchestrator.filled import Cli


@pytest.fixture
def ours(filled: Cli, tmp_path: Path) -> Cli:
    """Return the command line on a copy: a search leaves its index there."""
    folder = tmp_path / "copy"
    shutil.copytree(filled.repo, folder, symlinks=True)
    filled.repo = folder
    return filled


def test_what_an_agent_asked_is_found_with_its_state_and_nothing_of_it_fools_a_terminal(
    ours: Cli,
) -> None:
    told = ours("ps", "--search", "tabs spac")
    assert ours.code == 0
    first, *places = told.splitlines()
    assert first.startswith("T001  Ask  needs you, ")
    assert any("words, attempt 2: Tabs or spaces?" in each for each in places), told
    assert "\x1b" not in told
    assert "\u202e" not in told
    assert ours("ps", "--search", "tabs", "--ids") == "agent-T001\n"
    found = json.loads(ours("ps", "--search", "tabs", "--json"))
    assert found["index"]["whole"]
    assert [each["lifecycle"]["agent_id"] for each in found["items"]] == ["agent-T001"]


def test_a_search_is_narrowed_down_by_state_and_finds_nothing_plainly(ours: Cli) -> None:
    assert ours("ps", "--search", "tabs", "--state", "done") == ""
    assert "Nothing has all of these words" in ours.err
    assert ours("ps", "--search", '") *:^', "--ids") == ""
    assert ours.code == 0


def test_a_search_does_not_go_with_what_it_cannot_do(ours: Cli) -> None:
    ours("ps", "--search", "tabs", "--watch")
    assert ours.code == 2
    assert "--search can be narrowed down with" in ours.err
