"""A runner with many agents dies: nothing of them lives on, nothing of their work is lost."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lifecycle.plan import Agent
from lifecycle.result import LoopResultType
from lifecycle.store.sqlite.store import SqliteStore
from runtime.processes.cgroups import probe
from runtime.workspaces.worktrees_dir import default_worktrees_dir
from tests.lifecycle.engine.runner_process import started, working
from tests.lifecycle.world import DONE, PATIENCE, World, git, until
from tests.runtime.isolation.inside import given
from tests.runtime.processes.attack_control import held
from tests.runtime.processes.watchdog.watchdogs import kill_with_watchdogs, watchdogs_of

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

MANY, FEW = 8, 2
MEMORY = 128 << 20
"""More than a runner has, and less than it then asks for."""
WORK = (
    "exec 9> lock && flock 9 && echo done > committed.txt && git add committed.txt && "
    "git commit -qm done && echo 'half done' > draft.txt && "
    "(setsid sh -c 'trap \"\" TERM; while sleep 600; do :; done' < /dev/null > /dev/null 2>&1 &) "
    "&& touch up && sleep 600"
)
"""Commits, leaves a file that is not committed, and a daemon that ignores TERM; all hold a lock."""


def _kill(runner: subprocess.Popen[bytes]) -> None:
    os.kill(runner.pid, signal.SIGKILL)


def _abort(runner: subprocess.Popen[bytes]) -> None:
    assert runner.stdin is not None
    runner.stdin.write(b"abort\n")
    runner.stdin.flush()


def _run_out_of_memory(runner: subprocess.Popen[bytes]) -> None:
    """Let the kernel end it for want of memory; of processor time where no group can be made."""
    base = probe.capabilities().of(probe.Control.MEMORY).base
    if base is None:
        resource.prlimit(runner.pid, resource.RLIMIT_CPU, (0, 1))
        return
    group = base / f"dies-{runner.pid}"
    group.mkdir()
    (group / "cgroup.procs").write_text(str(runner.pid))
    unified = (group / "memory.max").exists()
    name = "memory.max" if unified else "memory.limit_in_bytes"
    (group / name).write_text(str(MEMORY))
    assert runner.stdin is not None
    runner.stdin.write(b"exhaust\n")
    runner.stdin.flush()
    assert runner.wait() == -signal.SIGKILL
    group.rmdir()


def _kill_watchdog_first(runner: subprocess.Popen[bytes]) -> None:
    for pid in (min(watchdogs_of(runner.pid)), runner.pid):
        os.kill(pid, signal.SIGKILL)


def _kill_all(runner: subprocess.Popen[bytes]) -> None:
    """Kill both of its watchdog too: then the next start ends the agents."""
    kill_with_watchdogs(runner.pid)


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("isolation", "death", "agents"),
    [
        ("process", _kill, MANY),
        ("process", _abort, FEW),
        ("process", _run_out_of_memory, FEW),
        ("process", _kill_watchdog_first, FEW),
        ("process", _kill_all, FEW),
        ("container", _kill, FEW),
        ("container", _kill_all, FEW),
    ],
)
async def test_no_agent_outlives_its_runner_and_the_next_start_goes_on_with_all_work(
    world: World, isolation: str, death: Callable[[subprocess.Popen[bytes]], None], agents: int
) -> None:
    if isolation == "container" and given() is None:
        return
    names = [f"agent-T{number:03}" for number in range(1, agents + 1)]
    folders = [default_worktrees_dir(world.repo) / name for name in names]
    (world.repo / ".git" / "info" / "exclude").write_text("lock\nup\n")
    world.settings.update(isolation=isolation, max_live_agents=agents)
    works = Agent(agent_id="agent", command=("/bin/sh", "-c", WORK))
    with started(world, works, agents) as runner:
        await until(lambda: all((folder / "up").exists() for folder in folders))
        await until(lambda: working(world) == agents)
        assert all(map(held, folders))
        death(runner)
        runner.wait()
    if death is not _kill_all:
        await until(lambda: not any(map(held, folders)))
    await _goes_on(world, names)
    assert not any(map(held, filter(Path.exists, folders)))
    for name in names:
        log = world.git("log", "--format=%s", f"agent/{name}")
        assert "done" in log.split("\n")
        saved = f"refs/loopwright/saved/{name}/1:draft.txt"
        assert git(world.repo, "show", saved) == "half done"


async def _goes_on(world: World, names: list[str]) -> None:
    world.settings.update(isolation="process")
    ends = world.agent([{"commit": "all"}, DONE])
    async with await SqliteStore.open(world.paths.database) as store:
        loop = world.loop(store=store)
        runs = (
            loop.run_agent_loop(
                Agent(agent_id=name, command=ends.command, env=ends.env),
                world.task(name.removeprefix("agent-")),
            )
            for name in names
        )
        results = await asyncio.wait_for(asyncio.gather(*runs), PATIENCE * 2)
    assert {each.result_type for each in results} == {LoopResultType.TASK_COMPLETE}
    assert {(each.spawn_count, each.retry_count) for each in results} == {(2, 0)}
