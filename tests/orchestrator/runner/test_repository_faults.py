"""What happens to a repository beside the agents' own work: pipes for files, a move, a kill."""

from __future__ import annotations

import os
import signal
import tempfile
from typing import TYPE_CHECKING

import pytest

from runtime.temp_folders import sweep
from tests.orchestrator.loopkit import BLOCK, DONE, until

if TYPE_CHECKING:
    from tests.orchestrator.loopkit import World

AGENT = "agent-T001"
RULES = 'c="$(git rev-parse --git-common-dir)"; rm -f "$c/info/exclude"; mkfifo "$c/info/exclude"'


def _shell(line: str) -> dict[str, object]:
    return {"run": ["sh", "-c", line]}


def test_a_pipe_for_the_rules_of_the_repository_stops_no_loop(world: World) -> None:
    steps = [{"commit": "x"}, {"write": "wip.txt"}]
    script = {
        "attempts": {
            "1": [*steps, _shell(RULES), {"exit": 1}],
            "2": [{"commit": "y"}, DONE],
        }
    }
    plan = world.plan_of({"T001": script, "T002": script})
    found = world.json("up", plan, "--max-live", "2")
    assert [each["result_type"] for each in found["results"]] == ["task_complete"] * 2
    assert (world.repo / ".git" / "info" / "exclude").is_file()
    assert ".loopwright/" in (world.repo / ".git" / "info" / "exclude").read_text()


@pytest.mark.parametrize("name", ["config", "info/exclude"])
def test_a_pipe_in_the_repository_holds_no_command_up(world: World, name: str) -> None:
    file = world.repo / ".git" / name
    file.unlink(missing_ok=True)
    os.mkfifo(file)
    with world.live("run", "x", "--command", world.script("agent", [DONE])) as live:
        code = live.process.wait(20)
        assert code == (2 if name == "config" else 0), live.err
        assert name == "info/exclude" or "config" in live.err


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


def test_a_repository_that_is_moved_while_a_runner_works_is_told_as_moved(world: World) -> None:
    script = world.script("agent", [{"write": "wip.txt"}, {"hang": True}])
    with world.live("run", "x", "--command", script) as live:
        until((world.workspace() / "wip.txt").exists, "the agent works")
        here = world.repo
        world.repo = here.rename(world.folder / "moved")
        live.process.wait(20)
        assert "moved" in live.err, live.err
        assert "runner.lock was removed" not in live.err


def test_what_a_killed_runner_left_is_swept_at_the_next_start_and_nothing_of_a_living_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = world.folder / "tmp"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setattr(tempfile, "tempdir", None)
    slow = "truncate -s 300M big.bin; sleep 0.1"
    script = world.script(
        "agent",
        {
            "attempts": {
                "1": [_shell(slow), {"exit": 1}],
                "default": [_shell("rm -f big.bin"), DONE],
            }
        },
    )
    with world.live("run", "x", "--command", script) as live:
        until(lambda: [*scratch.glob("loopwright-*save*")], "its work is being saved")
        assert sweep() == ()
        live.signal(signal.SIGKILL)
        live.process.wait()
    assert [*scratch.iterdir()]
    world.call("run", "--task-id", "T001", "--command", script)
    assert not [each for each in scratch.iterdir() if "loopwright" in each.name]
