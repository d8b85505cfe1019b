"""Machines that die: the next agent begins elsewhere, never beside a living one."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runtime.workspaces.worktrees_dir import default_worktrees_dir
from tests.lifecycle.world import ROOT, World, git
from tests.orchestrator.engines.temporal.histories import record_histories
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(400)
HERE = ROOT / "tests/orchestrator/engines/temporal"
PROGRAM = HERE / "faults/fleet_roles.py"
AGENT = (sys.executable, str(HERE / "lock_agent.py"))
LEASE = 10.0
"""Long enough for a busy machine to show that it lives."""
PATIENCE = 150.0
RECORD = os.environ.get("LOOPWRIGHT_RECORD_HISTORIES", "")
"""The folder where the histories of the lifecycle are written to, for `test_replay`."""


@contextmanager
def running(*words: str, log: Path) -> Iterator[subprocess.Popen[str]]:
    with log.open("w") as told:
        process = subprocess.Popen(
            (sys.executable, str(PROGRAM), *words),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=told,
            text=True,
        )
    with process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == "up", log.read_text()
            yield process
        finally:
            process.kill()


def starts(folder: Path) -> list[tuple[float, Path]]:
    file = folder / "starts"
    lines = file.read_text().splitlines() if file.exists() else []
    words = [line.split(maxsplit=1) for line in lines]
    return [(float(at), Path(place)) for at, place in words]


def test_after_kill_9_of_a_worker_the_next_agent_begins_elsewhere(
    world: World, temporal_address: str, tmp_path: Path
) -> None:
    folder, bare = world.folder, world.folder / "bare.git"
    git(folder, "clone", "-q", "--bare", str(world.repo), str(bare))
    for name in ("coordinator", "a", "b"):
        git(folder, "clone", "-q", str(bare), str(folder / name))
    project, lease = tmp_path.name, str(LEASE)
    with ExitStack() as stack:
        workers = {
            name: stack.enter_context(
                running(
                    *("worker", temporal_address, project, str(folder / name), lease, name),
                    log=folder / f"{name}.log",
                )
            )
            for name in ("a", "b")
        }
        coordinator = stack.enter_context(
            running(
                *("coordinator", temporal_address, project, str(folder / "coordinator"), lease),
                log=folder / "coordinator.log",
            )
        )
        assert coordinator.stdin is not None
        print("T001", folder, *AGENT, file=coordinator.stdin, flush=True)

        def logs() -> str:
            return "\n".join(each.read_text()[-3000:] for each in folder.glob("*.log"))

        wait_until(lambda: len(starts(folder)) == 2, logs, PATIENCE)
        _, place = starts(folder)[1]
        wait_until((place / "draft").exists, logs, PATIENCE)
        (first,) = [
            name for name in workers if place.is_relative_to(default_worktrees_dir(folder / name))
        ]
        workers[first].kill()
        killed = time.time()  # noqa: TID251  # as the agent writes it
        wait_until(lambda: len(starts(folder)) == 3, logs, PATIENCE)
        at, elsewhere = starts(folder)[2]
        assert coordinator.stdout is not None
        end = next(line for line in coordinator.stdout if line.startswith("end "))
        assert end.split()[2:6] == ["task_complete", "1", "1", "3"], logs()
    assert elsewhere != place
    assert not (folder / "overlaps").exists()
    assert at - killed <= 2 * LEASE + PATIENCE / 10, "it took too long to begin elsewhere"
    assert git(bare, "show", "agent/agent-T001:one.txt") == "1"
    if RECORD:
        asyncio.run(record_histories(temporal_address, project, Path(RECORD)))
