"""A repository that was moved between two runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.orchestrator.loopkit import BLOCK, DONE

if TYPE_CHECKING:
    from tests.orchestrator.loopkit import World

AGENT = "agent-T001"


def test_work_goes_on_in_a_moved_repository_and_is_accepted_there(world: World) -> None:
    world.settings("blocked_timeout = 0.2\nretry_interval = 0.1\nstop_grace = 0.3\n")
    prompt = world.folder / "prompt"
    script = world.script(
        "agent",
        {
            "attempts": {
                "1": [{"write": "a.txt"}, {"commit": "A"}, {"write": "wip.txt"}, BLOCK],
                "2": [{"read_prompt": str(prompt)}, {"commit": "B"}, DONE],
            }
        },
    )
    world.call("run", "x", "--command", script, code=3)
    world.call("unblock", AGENT, "go on")
    workspace = world.workspace()
    world.repo = world.repo.rename(world.folder / "moved")
    done = world.call("run", "--task-id", "T001", "--command", script)
    assert "could not start" not in done.stderr
    assert f"Work in `{workspace}`" in prompt.read_text()
    world.repo = world.repo.rename(world.folder / "moved again")
    world.call("accept", AGENT)
    assert world.branches() == ["main"]
    assert (world.repo / "wip.txt").exists()
    assert len(world.git("worktree", "list").splitlines()) == 1
