"""Whose change a value is: found by comparing it with what was approved, and what agents did."""

from __future__ import annotations

import errno
import subprocess
from typing import TYPE_CHECKING

import pytest

from lifecycle.judging.flagged_files import flagged
from lifecycle.plan import Agent, Plan, Task
from lifecycle.settings import FORMER_NAMES, Settings
from lifecycle.store.sqlite.store import SqliteStore
from orchestrator.approval.agent_commits import (
    AgentCommitWatch,
    WatchedFiles,
    plans_in,
    proposals_in,
)
from orchestrator.approval.held_settings import FREE, FREE_OF_TASK, HELD, NAME_FILES, is_held
from orchestrator.approval.records import read_proposed
from orchestrator.approval.restricting_values import (
    ProposedChange,
    cells_of,
    origins_of,
    plan_cells,
    plan_with,
    proposed,
)
from runtime.errors import ShortageError
from runtime.git.file_history import FileHistory
from runtime.git.git import Git
from runtime.masking.masker import Masker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

VERIFY = "loopwright.toml#verify"
SHUT_IN = 'isolation = "container"\n'
LOOSE = 'isolation = "process"\n'


def author_of(
    cell: str, approved: object, present: object, proposals: Iterable[ProposedChange]
) -> str | None:
    found = origins_of(cell, approved, present, proposals)
    return found[0].agent_id if found else None


def found_in(repo: Path, *files: str, since: str = "refs/heads/main") -> tuple[ProposedChange, ...]:
    watch = WatchedFiles.of(repo, files)
    return proposals_in(FileHistory(Git(), repo), (since,), ("HEAD",), watch, "agent-1")


def test_every_setting_is_said_to_hold_agents_or_not() -> None:
    names = set(Settings.model_fields)
    assert names == FREE | HELD, "say of a new setting whether it can loosen what holds agents"
    assert not FREE & HELD
    assert is_held("some_setting_of_tomorrow")
    assert set(NAME_FILES) <= HELD
    assert all(map(is_held, FORMER_NAMES))


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
        ProposedChange(VERIFY, ["a"], ["true"], "agent-1"),
        ProposedChange(VERIFY, ["a"], ["a", "x"], "agent-2"),
        ProposedChange(VERIFY, ["a", "b", "test"], ["a", "b"], "agent-3"),
    ]
    assert author_of(VERIFY, approved, present, proposals) == whose


def test_a_file_that_cannot_be_read_is_nobodys_change() -> None:
    broken = cells_of("loopwright.toml", b"verify = [")
    assert broken is None
    before = cells_of("loopwright.toml", b'verify = ["a"]')
    assert proposed(before, broken, "agent-1") == ()
    fixed = proposed(broken, cells_of("loopwright.toml", b'verify = ["b"]'), "agent-1") or ()
    assert author_of(VERIFY, ["a"], ["b"], fixed) == "agent-1"
    assert author_of(VERIFY, ["a"], ["c"], fixed) is None


@pytest.mark.parametrize(
    ("approved", "agents", "present"),
    [
        ("sh poll.sh", "sh poll.sh; evil", "sh -x poll.sh; evil"),
        ("sh poll.sh", "sh poll.sh; evil", "sh poll.sh --all; evil"),
        (["make test"], ["make test || true"], ["make test -k || true", "more"]),
    ],
)
def test_an_edit_beside_a_change_that_waits_does_not_release_it(
    approved: object, agents: object, present: object
) -> None:
    proposals = [ProposedChange(VERIFY, approved, agents, "agent-1")]
    assert author_of(VERIFY, approved, present, proposals) == "agent-1"
    assert author_of(VERIFY, approved, "mine", proposals) is None


def test_only_what_holds_agents_is_a_cell() -> None:
    text = b"[tool.other]\nverify = ['x']\n[tool.loopwright]\nstop_grace = 1\nnetwork = 'none'\n"
    assert cells_of("pyproject.toml", text) == {"pyproject.toml#network": "none"}


def test_a_plan_keeps_its_words_and_tasks_when_its_programs_wait() -> None:
    data = {
        "agents": {"default": {"command": ["evil"]}, "new": {"command": ["evil"]}},
        "tasks": [{"id": "A", "title": "other words", "verify": ["true"]}, {"id": "B"}],
    }
    assert set(plan_cells("p.toml", data)) == {
        "p.toml#agents.default.command",
        "p.toml#agents.new.command",
        "p.toml#tasks.A.verify",
    }
    kept = {
        "p.toml#agents.default.command": ["good"],
        "p.toml#agents.new.command": None,
        "p.toml#tasks.A.verify": None,
    }
    assert plan_with(data, kept) == {
        "agents": {"default": {"command": ["good"]}},
        "tasks": [{"id": "A", "title": "other words"}, {"id": "B"}],
    }


def test_each_value_of_a_plan_is_a_cell_of_its_own_and_new_ones_are_held() -> None:
    filled = {name: {"A.b": "x"} for name in (*Task.model_fields, "novel") if name != "id"}
    data = {
        "agents": {"a.b": {name: {"V": "x"} for name in (*Agent.model_fields, "novel")}},
        **{name: {"x": 1} for name in Plan.model_fields if name not in ("agents", "tasks")},
        "tasks": [{"id": "T.1", **filled}],
    }
    cells = plan_cells("p.toml", data)
    held = {cell.split(".")[3] for cell in cells if cell.startswith("p.toml#tasks.T%2E1.")}
    assert held == {
        *("verify", "setup", "agent", "type", "base", "budget", "max_retries", "issue", "label"),
        *("review_by", "source", "novel"),
    }
    assert set(Task.model_fields) >= FREE_OF_TASK
    assert {f"p.toml#agents.a%2Eb.{name}.V" for name in Agent.model_fields} < set(cells)
    assert "p.toml#budget.x" in cells
    assert not plan_cells("p.toml", plan_with(data, dict.fromkeys(cells)))
    assert plan_cells("p.toml", plan_with({"tasks": [{"id": "T.1"}]}, cells)) == cells


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
    # A caller that asks for the parents of the head is told of the base alone.
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
    found = found_in(repo, "plans/a.toml#budget.attempts")
    before, now = {"attempts": 3}, {"attempts": 900}
    assert author_of("plans/a.toml#budget", before, now, found) == "agent-1"


def _without_a_common_history(repo: Path) -> None:
    _git(repo, "checkout", "--quiet", "--orphan", "alone")
    _written(repo)


PLANTING = [
    *(_written, _and_taken_back, _by_a_link, _in_a_merge, _under_another_case, _behind_a_graft),
    _without_a_common_history,
]


@pytest.mark.parametrize("plant", PLANTING, ids=lambda each: each.__name__)
def test_what_an_agent_planted_is_found_however_it_got_there(
    repo: Path, plant: Callable[[Path], None]
) -> None:
    plant(repo)
    _commit(repo)
    _git(repo, "tag", "main", "HEAD")
    found = found_in(repo)
    isolation = "loopwright.toml#isolation"
    assert author_of(isolation, "container", "process", found) == "agent-1"


def test_what_an_agent_left_alone_is_no_change_of_its_own(repo: Path) -> None:
    (repo / "code.py").write_text("x = 1\n")
    (repo / "loopwright.toml").write_text(SHUT_IN + "stop_grace = 1\n")
    _commit(repo)
    assert not found_in(repo)


def test_what_a_person_changed_in_the_base_is_not_the_agents_that_took_it_up(repo: Path) -> None:
    base = _git(repo, "rev-parse", "HEAD")
    (repo / "code.py").write_text("x = 1\n")
    _commit(repo)
    _git(repo, "checkout", "--quiet", "main")
    _written(repo)
    _commit(repo)
    _git(repo, "checkout", "--quiet", "agent/a")
    _git(repo, "merge", "--quiet", "--no-ff", "-m", "Take up the base", "main")
    history, watch = FileHistory(Git(), repo), WatchedFiles.of(repo, ())
    since = (base, "refs/heads/main")
    assert not proposals_in(history, since, ("HEAD",), watch, "agent-1")
    (repo / "loopwright.toml").write_text("wall_limit = 0\n")
    _commit(repo)
    cells = {each.cell for each in proposals_in(history, since, ("HEAD",), watch, "agent-1")}
    assert cells == {"loopwright.toml#isolation", "loopwright.toml#wall_limit"}


@pytest.mark.parametrize("how", ["link above", "submodule", "in a named folder", "json"])
def test_all_ways_to_another_content_of_a_named_file_are_found(repo: Path, how: str) -> None:
    (repo / "real").mkdir()
    for name in ("poll.sh", "poll.json"):
        (repo / "real" / name).write_text("{}\n")
    (repo / "ci").symlink_to("real")
    _commit(repo)
    cell = "ci/poll.sh#"
    base = _git(repo, "rev-parse", "HEAD")
    if how == "submodule":
        (repo / "ci").unlink()
        _git(repo, "update-index", "--force-remove", "ci")
        _git(repo, "update-index", "--add", "--cacheinfo", f"160000,{base},ci")
        _git(repo, "commit", "--quiet", "-m", "x")
    elif how == "in a named folder":
        cell = "real#"
        (repo / "real" / "new.sh").write_text("id\n")
    elif how == "json":
        cell = "real/poll.json#"
        (repo / "real" / "poll.json").write_text('{"evil": 1}\n')
    else:
        (repo / "real" / "poll.sh").write_text("id\n")
    if how != "submodule":
        _commit(repo)
    found = found_in(repo, cell, since=base)
    now = next((each.after for each in found if each.cell == cell), ["other"])
    assert author_of(cell, ["before"], now, found) == "agent-1"


async def test_work_that_nobody_can_read_is_noted_as_able_to_say_anything(
    repo: Path, tmp_path: Path
) -> None:
    async with await SqliteStore.open(tmp_path / "state.db") as store:
        await AgentCommitWatch(repo, Masker()).captured(store, "agent-1", ("main",), ("0" * 40,))
    found = read_proposed(tmp_path / "state.db", {})
    assert author_of("loopwright.toml#isolation", "container", "process", found) == "agent-1"


async def test_work_that_there_is_no_room_to_read_is_noted_as_nothing_and_asked_for_again(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("runtime.git.command.subprocess.run", refused)
    watch = AgentCommitWatch(repo, Masker())
    async with await SqliteStore.open(tmp_path / "state.db") as store:
        with pytest.raises(ShortageError):
            await watch.captured(store, "agent-1", ("main",), ("HEAD",))
        with pytest.raises(ShortageError):
            await watch.against(store, "main", "HEAD")
    assert not read_proposed(tmp_path / "state.db", {})


def test_a_plan_that_an_agent_added_is_remembered_and_other_files_are_not(repo: Path) -> None:
    (repo / "new.toml").write_text('[[tasks]]\nid = "A"\n')
    (repo / "package.json").write_text('{"name": "x"}\n')
    _commit(repo)
    history, watch = FileHistory(Git(), repo), WatchedFiles.of(repo, ())
    assert [each.cell for each in plans_in(history, ("main",), ("HEAD",), watch, "agent-1")] == [
        "new.toml#*"
    ]


def test_the_verdict_names_a_changed_settings_file() -> None:
    assert flagged(("a.py", "loopwright.toml", "pyproject.toml"), ()) == (
        "loopwright.toml",
        "pyproject.toml",
    )
