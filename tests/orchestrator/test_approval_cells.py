"""Whose change a value is: found by comparing it with what was approved, and what agents did."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from lifecycle.heldsettings import FREE, HELD, NAME_FILES, is_held
from lifecycle.judging.flags import flagged
from lifecycle.settings import Settings
from orchestrator.approval.cells import (
    Proposal,
    author_of,
    cells_of,
    plan_cells,
    plan_with,
    proposed,
)
from orchestrator.approval.work import proposals_in
from runtime.git import Git

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

VERIFY = "loopwright.toml#verify"
SHUT_IN = 'isolation = "container"\n'
LOOSE = 'isolation = "process"\n'


def test_every_setting_is_said_to_hold_agents_or_not() -> None:
    names = set(Settings.model_fields)
    assert names <= FREE | HELD, "say of a new setting whether it can loosen what holds agents"
    assert not FREE & HELD
    assert names >= FREE
    assert is_held("some_setting_of_tomorrow")
    assert set(NAME_FILES) <= HELD


@pytest.mark.parametrize(
    ("approved", "present", "whose"),
    [
        (["a"], ["true"], "agent-1"),
        (["a"], ["a", "c"], None),
        (["a"], ["a", "b", "x"], "agent-2"),  # joined from what two have added
        (["a", "test"], ["a"], "agent-3"),  # a check taken away
        (["a"], None, None),
    ],
)
def test_a_list_that_took_up_a_part_of_an_agents_is_the_agents(
    approved: list[str], present: list[str] | None, whose: str | None
) -> None:
    proposals = [
        Proposal(VERIFY, ["a"], ["true"], "agent-1"),
        Proposal(VERIFY, ["a"], ["a", "x"], "agent-2"),
        Proposal(VERIFY, ["a", "b", "test"], ["a", "b"], "agent-3"),
    ]
    assert author_of(VERIFY, approved, present, proposals) == whose


def test_of_a_file_that_cannot_be_read_every_change_is_the_agents() -> None:
    after = cells_of("loopwright.toml", b"verify = [")
    assert after is None
    found = proposed("loopwright.toml", {}, after, "agent-1")
    assert author_of(VERIFY, ["a"], ["b"], found) == "agent-1"
    assert author_of("pyproject.toml#verify", ["a"], ["b"], found) is None


def test_only_what_holds_agents_is_a_cell() -> None:
    text = b"[tool.other]\nverify = ['x']\n[tool.loopwright]\nstop_grace = 1\nnetwork = 'none'\n"
    assert cells_of("pyproject.toml", text) == {"pyproject.toml#network": "none"}


def test_a_plan_keeps_its_words_and_tasks_when_its_programs_wait() -> None:
    data = {
        "agents": {"default": {"command": ["evil"]}, "new": {"command": ["evil"]}},
        "tasks": [{"id": "A", "title": "other words", "verify": ["true"]}, {"id": "B"}],
    }
    assert set(plan_cells("p.toml", data)) == {
        "p.toml#agents.default",
        "p.toml#agents.new",
        "p.toml#tasks.A.verify",
    }
    kept = {
        "p.toml#agents.default": {"command": ["good"]},
        "p.toml#agents.new": None,
        "p.toml#tasks.A.verify": None,
    }
    assert plan_with(data, kept) == {
        "agents": {"default": {"command": ["good"]}},
        "tasks": [{"id": "A", "title": "other words"}, {"id": "B"}],
    }


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    made = tmp_path / "repo"
    made.mkdir()
    _git(made, "init", "--quiet", "-b", "main")
    (made / "loopwright.toml").write_text(SHUT_IN)
    _commit(made)
    _git(made, "checkout", "--quiet", "-b", "agent/a")
    return made


def _git(repo: Path, *args: str) -> str:
    done = subprocess.run(["git", *args], cwd=repo, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _commit(repo: Path) -> None:
    _git(repo, "add", "-A")
    _git(repo, "commit", "--quiet", "--allow-empty", "-m", "x")


def _written(repo: Path) -> None:
    (repo / "loopwright.toml").write_text(LOOSE)


def _and_taken_back(repo: Path) -> None:
    _written(repo)
    _commit(repo)
    (repo / "loopwright.toml").write_text(SHUT_IN)


def _by_a_link(repo: Path) -> None:
    (repo / "conf.toml").write_text(LOOSE)
    (repo / "loopwright.toml").unlink()
    (repo / "loopwright.toml").symlink_to("conf.toml")


def _in_a_merge(repo: Path) -> None:
    _git(repo, "checkout", "--quiet", "-b", "side")
    _commit(repo)
    _git(repo, "checkout", "--quiet", "agent/a")
    _commit(repo)
    _git(repo, "merge", "--quiet", "--no-ff", "--no-commit", "side")
    _written(repo)


def _under_another_case(repo: Path) -> None:
    (repo / "LoopWright.toml").write_text(LOOSE)


def _behind_a_graft(repo: Path) -> None:
    _written(repo)
    _commit(repo)
    planted, base = _git(repo, "rev-parse", "HEAD"), _git(repo, "rev-parse", "main")
    (repo / "other").write_text("")
    _commit(repo)
    head = _git(repo, "rev-parse", "HEAD")
    # Whoever asks for the parents of the head is told of the base alone.
    (repo / ".git" / "info" / "grafts").write_text(f"{head} {base}\n")
    assert planted not in _git(repo, "log", "--format=%H")


def _in_a_folder_that_is_a_link(repo: Path) -> None:
    """Change nothing of the file itself, but where its folder leads."""
    _git(repo, "checkout", "--quiet", "main")
    (repo / "plans").mkdir()
    (repo / "plans" / "a.toml").write_text("budget = {attempts = 3}\n")
    _commit(repo)
    _git(repo, "checkout", "--quiet", "-b", "agent/b")
    (repo / "plans").rename(repo / "others")
    (repo / "others" / "a.toml").write_text("budget = {attempts = 900}\n")
    (repo / "plans").symlink_to("others")


def test_a_folder_that_became_a_link_holds_nothing_approved(repo: Path) -> None:
    _in_a_folder_that_is_a_link(repo)
    _commit(repo)
    found = proposals_in(Git(), repo, "main", ("HEAD",), ("plans/a.toml",), "agent-1")
    before, now = {"attempts": 3}, {"attempts": 900}
    assert author_of("plans/a.toml#budget", before, now, found) == "agent-1"


PLANTING = [_written, _and_taken_back, _by_a_link, _in_a_merge, _under_another_case,
            _behind_a_graft]  # fmt: skip


@pytest.mark.parametrize("plant", PLANTING, ids=lambda each: each.__name__)
def test_what_an_agent_planted_is_found_however_it_got_there(
    repo: Path, plant: Callable[[Path], None]
) -> None:
    plant(repo)
    _commit(repo)
    _git(repo, "tag", "main", "HEAD")
    found = proposals_in(Git(), repo, "refs/heads/main", ("HEAD",), ("loopwright.toml",), "agent-1")
    isolation = "loopwright.toml#isolation"
    assert author_of(isolation, "container", "process", found) == "agent-1"


def test_what_an_agent_left_alone_is_no_change_of_its_own(repo: Path) -> None:
    (repo / "code.py").write_text("x = 1\n")
    (repo / "loopwright.toml").write_text(SHUT_IN + "stop_grace = 1\n")
    _commit(repo)
    assert not proposals_in(Git(), repo, "main", ("HEAD",), ("loopwright.toml",), "agent-1")


def test_the_verdict_names_a_changed_settings_file() -> None:
    assert flagged(("a.py", "loopwright.toml", "pyproject.toml"), ()) == (
        "loopwright.toml",
        "pyproject.toml",
    )
