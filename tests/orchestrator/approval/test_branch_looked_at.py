"""A person has the branch of an agent checked out, and looks at it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.orchestrator.loopkit import BLOCK, DONE

if TYPE_CHECKING:
    from tests.orchestrator.loopkit import World

AGENT = "agent-T001"
BRANCH = f"agent/{AGENT}"


def _blocked(world: World) -> str:
    """Leave a blocked run behind, and its branch in the hands of a person."""
    world.settings("blocked_timeout = 0.2\nretry_interval = 0.1\nstop_grace = 0.3\n")
    first = [{"write": "a.txt"}, {"commit": "A"}, BLOCK]
    script = world.script("agent", {"attempts": {"1": first, "default": [DONE]}})
    world.call("run", "x", "--command", script, code=3)
    world.git("worktree", "remove", "--force", str(world.workspace(AGENT)))
    world.git("checkout", "-q", BRANCH)
    return script


@pytest.mark.parametrize("records", ["kept", "lost"])
def test_a_branch_that_a_person_has_checked_out_is_waited_for_and_that_is_told(
    world: World, records: str
) -> None:
    script = _blocked(world)
    if records == "kept":
        world.call("unblock", AGENT, "go on")
        again = ["run", "--task-id", "T001", "--command", script]
    else:
        shutil.rmtree(world.repo / ".loopwright")
        world.call("init", "--begin-anew")
        again = ["run", "x", "--command", world.script("agent", [DONE])]
    with world.live(*again) as live:
        live.says(f"branch {BRANCH} is checked out at ")
        live.says("; tried again in ")
        world.git("checkout", "-q", "main")
        live.ends(0)
    assert world.row()["work_kind"] == "Completed"


def test_reject_tells_that_a_branch_somebody_has_checked_out_was_kept(world: World) -> None:
    _blocked(world)
    for code in (0, 2):  # the first time it is rejected, then only its removal is tried again
        done = world.call("reject", AGENT, code=code)
        assert f"branch {BRANCH} is checked out at {world.repo} and was kept" in str(done)
        assert "are removed" not in str(done)
    assert f"{BRANCH} is checked out" in world.call("events", AGENT).stdout
    world.git("checkout", "-q", "main")
    assert "workspace and branch are removed" in world.call("reject", AGENT).stdout
    assert world.branches() == ["main"]


def test_accept_tells_that_a_branch_somebody_has_checked_out_was_kept(world: World) -> None:
    script = world.script("agent", [{"write": "a"}, {"commit": "A"}, DONE])
    world.call("run", "x", "--command", script)
    world.git("worktree", "remove", "--force", str(world.workspace(AGENT)))
    world.git("checkout", "-q", BRANCH)
    done = world.call("accept", AGENT)
    assert "accepted, merged into main as" in done.stdout
    assert f"branch {BRANCH} is checked out at {world.repo} and was kept" in done.stdout
    assert "retention_hours" in done.stderr
    assert world.branches() == [BRANCH, "main"]
