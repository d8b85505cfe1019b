"""`--detach` and `down`: a runner that goes on without its terminal, and its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.orchestrator.background.background_kit import (
    LOOPWRIGHT,
    lives,
    nothing_left,
    of_world,
    run,
    runner,
)
from tests.orchestrator.loopkit import ASK, DONE, SETTINGS, until
from tests.orchestrator.ptykit import Terminal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.orchestrator.loopkit import World

pytestmark = pytest.mark.timeout(240)
ASKS = {"attempts": {"1": [ASK], "default": [DONE]}}
HANGS = [{"write": {"path": "half.txt", "text": "half\n"}}, {"sleep": 600}]


@pytest.fixture(autouse=True)
def _nothing_left(world: World) -> Iterator[None]:
    with nothing_left(world):
        yield


def _starts(world: World, *args: str) -> int:
    """Start it in the background; returns its process."""
    found = json.loads(run(world, *args, "--detach", "--json").out)
    assert found["ready"]
    return int(found["pid"])


def test_it_goes_on_when_its_terminal_is_closed_and_down_ends_it_with_work_saved(
    world: World,
) -> None:
    plan = world.plan_of({"Q": ASKS, "H": HANGS})
    with Terminal(world.repo, "up", plan, "--detach", "--no-server") as terminal:
        said = terminal.ends(0)
    log = world.repo / ".loopwright" / "up.log"
    assert "goes on in the background" in said
    assert str(log) in said.replace("\n", "")
    world.comes_to("AwaitingHuman", "agent-Q")
    until((world.workspace("agent-H") / "half.txt").exists, "the other one is at work")
    there = runner(world)
    assert there is not None
    assert os.getsid(there["pid"]) == there["pid"], "no terminal can end it"
    shown = world.call("ps")
    assert f"Run by loopwright up (pid {there['pid']})" in shown.stderr
    assert str(log) in shown.stderr
    assert world.json("ps")["runner"]["log"] == str(log)
    assert (log.stat().st_mode & 0o777, "agent-Q" in log.read_text()) == (0o600, True)

    refused = run(world, "up", plan, "--detach", code=75)
    assert f"loopwright up (pid {there['pid']}) is at work" in refused.err

    world.call("answer", "Q", "Blue")
    world.comes_to("Completed", "agent-Q")
    ended = world.call("down")
    assert ended.stdout.startswith(f"ended: loopwright up (pid {there['pid']})")
    assert (runner(world), lives(there["pid"])) == (None, False)
    saved = world.git("stash", "list") + world.git("for-each-ref")
    assert saved, "what was half done is kept"
    assert "nothing is running" in world.call("down").stdout


def test_down_now_kills_agents_that_do_not_end_and_up_goes_on(world: World) -> None:
    world.settings("retry_interval = 0.1\nstop_grace = 60\n")
    deaf = world.folder / "deaf"
    hangs = f"[ -e {deaf} ] && exit; trap '' TERM INT; touch {deaf}; while :; do sleep 0.1; done"
    plan = world.plan_of({"D": [{"run": ["sh", "-c", hangs]}, DONE]})
    pid = _starts(world, "up", plan, "--no-server")
    until(deaf.exists, "it does not hear")
    assert world.call("down", "--wait", "0.3", code=4).stdout.startswith("still ending")
    assert world.json("down", "--now")["ended"]
    assert not lives(pid)
    run(world, "up", "--detach", "--no-server")
    world.comes_to("Completed", "agent-D")
    until(lambda: runner(world) is None, "all is done, so it ends by itself")


def test_a_killed_runner_leaves_nothing_that_runs_and_another_starts(world: World) -> None:
    plan = world.plan_of({"H": HANGS})
    pid = _starts(world, "up", plan, "--no-server")
    until((world.workspace("agent-H") / "half.txt").exists, "it is at work")
    os.kill(pid, signal.SIGKILL)
    until(lambda: not of_world(world), lambda: f"left: {of_world(world)}")
    assert "No runner is alive" in world.call("ps").stderr
    assert "nothing is running" in world.call("down").stdout
    _starts(world, "up", "--no-server")
    assert world.json("down")["ended"]


def test_what_cannot_start_says_why_and_ends_with_its_own_code(world: World) -> None:
    lacks = run(world, "up", "no.toml", "--detach", code=2)
    assert "no.toml" in lacks.err
    assert not (world.repo / ".loopwright").exists(), "nothing began"
    world.settings(f"{SETTINGS}nonsense = 1\n")
    assert "nonsense" in run(world, "up", "--detach", code=2).err
    world.settings(SETTINGS)
    assert "no.md" in run(world, "up", "--detach", "--", "no.md", code=2).err
    nothing = run(world, "up", "--detach", "--")
    assert "Nothing to do" in nothing.out
    (world.repo / ".loopwright" / "up.log").unlink()
    (world.repo / ".loopwright" / "up.log").symlink_to("/dev/full")
    full = run(world, "up", world.plan_of({"A": [DONE]}), "--detach", code=2)
    assert "up.log" in full.err
    assert "Traceback" not in full.err


def test_a_log_on_a_full_disk_loses_lines_and_ends_nothing(world: World) -> None:
    plan = world.plan_of({"A": [DONE]})
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [LOOPWRIGHT, "up", plan, "--no-server"],
            cwd=world.repo, stdin=subprocess.DEVNULL, stdout=full, stderr=full, check=False,
        )  # fmt: skip
    assert (done.returncode, world.row("agent-A")["work_kind"]) == (0, "Completed")


def test_serve_goes_on_too_and_answers(world: World) -> None:
    found = json.loads(run(world, "serve", "--port", "0", "--detach", "--json").out)
    assert httpx.get(f"{found['url']}/healthz", trust_env=False).status_code == 200
    assert f"at {found['url']}" in world.call("ps").stderr
    assert found["url"] in world.call("serve", "--link").stdout
    log = (world.repo / ".loopwright" / "serve.log").read_text()
    assert "login?token" not in log
    assert "loopwright serve --link" in log
    assert world.json("down")["ended"]
    with pytest.raises(httpx.TransportError):
        httpx.get(f"{found['url']}/healthz", trust_env=False)


def test_an_agent_cannot_end_the_runner_that_runs_it(world: World) -> None:
    place = world.folder / "said"
    steps = [{"run": ["sh", "-c", f"loopwright down >{place} 2>&1; echo $? >>{place}"]}, DONE]
    found = world.json("run", "Do it", "--command", world.script("agent", steps))
    assert found["result_type"] == "task_complete"
    said = place.read_text()
    assert "only a person may end the runner" in said
    assert said.endswith("2\n")


def test_down_ends_a_server_of_several_repositories_only_if_that_is_meant(world: World) -> None:
    args = ("serve", "--repo", ".", "--repo", str(_second(world)), "--port", "0")
    pid = _starts(world, *args)
    until(lambda: (runner(world) or {}).get("repositories"), "it has opened the first")
    refused = world.call("down", code=2)
    assert "2 repositories" in refused.stderr
    assert lives(pid)
    world.call("down", "--all")
    assert not lives(pid)


def _second(world: World) -> str:
    other = world.folder / "other"
    world.git("clone", "-q", ".", str(other))
    return str(other)
