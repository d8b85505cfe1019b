"""Ctrl-C, TERM and sudden death of a runner: what is kept, what is shown, how it continues."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from orchestrator.runner.signals import ONE_PRESS
from tests.orchestrator.loopkit import ASK, DONE, until

if TYPE_CHECKING:
    from tests.orchestrator.loopkit import World


def _at_work(world: World) -> int:
    """Wait until the agent has written its file; returns its pid."""
    row = world.comes_to("Working")
    until((world.workspace() / "half.txt").exists, "it is at work")
    return int(row["work"]["process"]["pid"])


def _alive(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_first_signal_saves_the_work_and_the_next_run_goes_on(
    world: World, number: int, code: int
) -> None:
    steps = {
        "attempts": {
            "1": [{"exit": 1}],
            "2": [{"write": "half.txt"}, {"wait_file": str(world.folder / "go")}, {"commit": "2"},
                  DONE],
        }
    }  # fmt: skip
    agent = world.script("agent", steps)
    with world.live("run", "x", "--command", agent, "--json") as runner:
        runner.says("attempt 2 started")
        pid = _at_work(world)
        runner.signal(number)
        out = runner.ends(code)
        assert "stopping: agents are asked to end" in runner.err
    assert '"result_type": "shutdown"' in out
    assert not _alive(pid)
    row = world.row()
    assert (row["work_kind"], row["spawn_count"], row["retry_count"]) == ("BackingOff", 2, 1)
    saved = world.git("for-each-ref", "--format=%(refname)", "refs/loopwright/saved")
    assert "half.txt" in world.git("ls-tree", "--name-only", saved)
    (world.folder / "go").touch()
    again = world.json("run", "x")
    assert again["result_type"] == "task_complete"
    assert (again["spawn_count"], again["retry_count"]) == (3, 1), "one was interrupted"


def test_a_second_signal_kills_what_does_not_listen(world: World) -> None:
    world.settings("stop_grace = 60\n")
    agent = world.script("agent", [{"ignore_term": {}}, {"write": "half.txt"}, {"hang": {}}])
    with world.live("run", "x", "--command", agent) as runner:
        pid = _at_work(world)
        runner.signal(signal.SIGINT)
        runner.signal(signal.SIGINT)  # the same signal, delivered twice as `timeout` does
        runner.says("stopping")
        began = time.monotonic()
        until(lambda: time.monotonic() > began + ONE_PRESS, "this counts as another signal")
        assert "killing" not in runner.err
        runner.signal(signal.SIGINT)
        runner.ends(130)
        assert time.monotonic() - began < 30
        assert "killing the agents" in runner.err
    assert not _alive(pid)
    assert world.row()["work_kind"] == "BackingOff"


def test_a_signal_while_everything_waits_ends_it_at_once(world: World) -> None:
    plan = world.plan_of({"A": [ASK], "B": [ASK]}, {"B": {"dependencies": ["A"]}})
    with world.live("up", plan) as up:
        world.comes_to("AwaitingHuman", "agent-A")
        up.signal(signal.SIGINT)
        assert "stopped" in up.ends(130)
    assert world.row("agent-B")["work_kind"] == "Queued"


@pytest.mark.parametrize("step", [{"exit": 1}, {"sleep": 60}])
def test_a_process_of_which_the_killed_runner_wrote_down_nothing_is_counted(
    world: World, step: dict[str, float]
) -> None:
    agent = world.script("agent", {"attempts": {"1": [step], "default": [DONE]}})
    place = "before commit of AgentSpawned"
    with world.live("run", "x", "--command", agent, LOOPWRIGHT_CRASH_AT=place) as runner:
        runner.ends(-signal.SIGKILL)
    again = world.script("again", [DONE])  # the first may not even have read its script yet
    result = world.json("run", "x", "--command", again)
    assert (result["result_type"], result["spawn_count"]) == ("task_complete", 2)
    assert world.row()["work"]["tally"]["interruptions"] == 1
    (row,) = world.json("ps", "--all")["lifecycles"]
    assert (row["attempts"], row["spawn_count"]) == (1, 2)
    assert world.call("ps", "--all").stdout.splitlines()[1].split()[3] == "1", "it is one attempt"
    assert "attempts   1, retries used: 0, interrupted: 1" in world.call("show", "T001").stdout
