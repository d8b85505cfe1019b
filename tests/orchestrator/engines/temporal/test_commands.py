"""What a user types: `up --engine temporal` on one machine, `worker` on another."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lifecycle.world import World, git
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(400)
PATIENCE = 150.0
AGENT = Path(__file__).with_name("lock_agent.py")
SETTINGS = """
engine = "temporal"
temporal_address = "{address}"
retry_interval = 0.0
canary = "off"
"""
PLAN = """
[[tasks]]
id = "T001"
title = "Calculator"
verify = ["true"]

[agents.default]
agent_id = "default"
command = {command}
"""


def loopwright(*words: str, log: Path) -> subprocess.Popen[str]:
    with log.open("w") as told:
        return subprocess.Popen(
            (sys.executable, "-m", "orchestrator.cli.main", *words),
            stdout=subprocess.PIPE,
            stderr=told,
            stdin=subprocess.DEVNULL,
            text=True,
        )


@pytest.fixture
def clones(world: World, temporal_address: str) -> tuple[Path, Path]:
    """Return a coordinator's clone with a plan, and a worker's."""
    folder, bare = world.folder, world.folder / "bare.git"
    (world.repo / "loopwright.toml").write_text(SETTINGS.format(address=temporal_address))
    command = json.dumps([sys.executable, str(AGENT), str(folder)])
    (world.repo / "loopwright.plan.toml").write_text(PLAN.format(command=command))
    git(world.repo, "add", ".")
    git(world.repo, "commit", "-qm", "plan")
    git(folder, "clone", "-q", "--bare", str(world.repo), str(bare))
    for name in ("coordinator", "a"):
        git(folder, "clone", "-q", str(bare), str(folder / name))
    return folder / "coordinator", folder / "a"


def test_up_on_one_machine_has_its_agents_run_by_a_worker_on_another(
    clones: tuple[Path, Path], world: World
) -> None:
    coordinator, clone = clones
    (world.folder / "starts").write_text("0 x\n0 x\n")  # so that its first process is done
    worker = loopwright(
        "worker", "--name", "a", "--repo", str(clone), log=world.folder / "worker.log"
    )
    up = loopwright(
        "up", "--repo", str(coordinator), "--no-server", "--json", log=world.folder / "up.log"
    )

    def logs() -> str:
        return "\n".join(each.read_text()[-3000:] for each in world.folder.glob("*.log"))

    with worker, up:
        try:
            wait_until(lambda: up.poll() is not None, logs, PATIENCE)
            assert up.stdout is not None
            (result,) = json.loads(up.stdout.read())["results"]
            assert result["result_type"] == "task_complete", logs()
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(60) == 0, logs()
        finally:
            up.kill()
            worker.kill()
    assert "worker a waits for work" in (world.folder / "worker.log").read_text()
    assert (world.folder / "starts").read_text().splitlines()[2].endswith("/agent-T001")
