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
    world.git("worktree", "remove", "--force", f".loopwright/worktrees/{AGENT}")
    world.git("checkout", "-q", BRANCH)
    return script


@pytest.mark.parametrize("records", ["kept", "lost"])
def test_a_branch_that_a_person_has_checked_out_is_waited_for_and_that_is_told(
    world: World, records: str
) -> None:
    script = _blocked(world)
    if records == "kept":
        world.call("unblock", AGENT, "go on")
        again = ("run", "--task-id", "T001", "--command", script)
    else:
        shutil.rmtree(world.repo / ".loopwright")
        again = ("run", "x", "--command", world.script("agent", [DONE]))
    with world.live(*again) as live:
        live.says(f"branch {BRANCH} is checked out at ")
        live.says("; tried again in ")
        world.git("checkout", "-q", "main")
        live.ends(0)
    assert world.row()["work_kind"] == "Completed"
