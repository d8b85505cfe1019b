"""The folder that agents work in is theirs alone, and nobody is told to delete live work."""

from __future__ import annotations

from runtime.worktrees_dir import default_worktrees_dir
from tests.orchestrator.loopkit import BLOCK, World
from tests.orchestrator.test_outside import QUICK, findings


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
