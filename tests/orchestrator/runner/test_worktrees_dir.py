"""The folder that agents work in is theirs alone, and nobody is told to delete live work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runtime.workspaces.worktrees_dir import OWNERS, claim, default_worktrees_dir
from tests.orchestrator.doctor.test_providers import AGENT, QUICK, done_by, findings
from tests.orchestrator.loopkit import BLOCK, DONE, World

if TYPE_CHECKING:
    from pathlib import Path


def test_doctor_calls_no_live_workspace_of_a_moved_repository_left_over(world: World) -> None:
    world.settings(QUICK)
    blocked = world.script("agent", [{"write": "wip.txt"}, BLOCK])
    world.call("run", "x", "--command", blocked, code=3)
    old = world.repo
    place = default_worktrees_dir(old)
    world.repo = old.rename(world.folder / "moved")
    assert "warn" not in findings(world)
    # Another repository cannot know whether it was moved.
    other = world.folder / "another"
    other.mkdir()
    (found,) = findings(World(other))["warn"]
    assert f"{place} holds workspaces of {old}, which is gone or was moved" in found["found"]
    assert found["mend"].startswith("look first")


def test_doctor_names_some_of_many_leftovers_and_counts_the_rest(world: World) -> None:
    gone = [world.folder / f"gone-{number}" for number in range(9)]
    for repo in gone:
        place = default_worktrees_dir(repo)
        claim(place, repo)
        (place / "agent-T1").mkdir()
    found = [each["found"] for each in findings(world)["warn"]]
    assert len(found) == 4
    assert found[-1].startswith(
        f"6 more folders in {default_worktrees_dir(gone[0]).parent} hold workspaces of"
    )


@pytest.mark.parametrize("place", ["src", "../src"])
def test_a_folder_with_other_things_in_it_is_refused_as_a_place_for_workspaces(
    world: World, place: str
) -> None:
    folder = (world.repo / place).resolve()
    folder.mkdir()
    (folder / "mine.py").write_text("mine\n")
    world.git("add", "-A")
    world.settings(f'{QUICK}worktrees_dir = "{folder}"\n')
    refused = world.call("run", "x", "--command", done_by(world), code=2)
    assert f"{folder} holds other things (mine.py): set worktrees_dir" in refused.stderr
    assert "holds other things" in findings(world)["bad"][0]["found"]
    assert [each.name for each in folder.iterdir()] == ["mine.py"]


def test_a_place_is_given_back_where_nothing_of_ours_is_left(world: World) -> None:
    folder = world.repo / "agents"
    folder.mkdir()
    world.settings(f'{QUICK}worktrees_dir = "agents"\n')
    world.call("run", "x", "--command", done_by(world))
    (folder / "notes.txt").write_text("a person's\n")
    assert (folder / OWNERS).exists()
    world.call("accept", AGENT)
    assert [each.name for each in folder.iterdir()] == ["notes.txt"]


def test_a_judging_checkout_is_removed_with_its_lifecycle_wherever_it_was_made(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.settings(f'{QUICK}verify = ["true"]\n')
    two = {"attempts": {"1": [{"write": "a"}, {"commit": "A"}, DONE], "default": [DONE]}}
    script = world.script("agent", two)
    world.call("run", "x", "--command", script)
    before = world.workspace().parent
    assert (before / ".judging" / AGENT).is_dir()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    (found,) = findings(world)["warn"]
    assert str(before / ".judging") in found["found"]
    world.call("guide", AGENT, "again")
    world.call("run", "--task-id", "T001", "--command", script)
    world.call("accept", AGENT)
    assert not before.exists()
    assert not world.workspace().parent.exists()
    assert "warn" not in findings(world)
