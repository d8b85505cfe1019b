"""What the runner does with its watchdog: none is started without one, and it is small."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Never

import pytest

from runtime import proctable
from runtime.errors import ShortageError, WatchdogError
from runtime.watchdog import client
from tests.runtime.process_fixtures import Stage, staged, until
from tests.runtime.watchdogs import watchdogs_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

ROOT = Path(__file__).resolve().parents[3]
MOST = 12 << 20
CONTAINED = """
import asyncio, os, sys
from dataclasses import replace
from pathlib import Path
from runtime.isolation.box import Box, Engine
from runtime.process import TerminalManager
from tests.runtime.process_fixtures import Stage

async def main(folder):
    stage = Stage(folder, TerminalManager(folder))
    box = Box(folder, engine=Engine.DOCKER, program=str(folder / "docker"), image="none")
    await stage.terminals.spawn(replace(stage.order("work"), box=box))
    print("up", flush=True)
    await asyncio.Event().wait()

asyncio.run(main(Path(sys.argv[1])))
"""
DOCKER = """#!/bin/sh
case "$1" in
run) exec sleep 600 ;;
rm) echo "$@" > {folder}/removed ;;
esac
"""


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(tmp_path) as stage:
        yield stage


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[client.Watchdog]]:
    """Give this process a watchdog of its own for the test, which is not started yet."""
    own = [client.Watchdog()]
    monkeypatch.setattr(client, "_own", own)
    yield own
    own[0].let_go()


async def test_nothing_is_started_without_a_watchdog(
    stage: Stage, fresh: list[client.Watchdog], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> Never:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    ours = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", refused)
    with pytest.raises(ShortageError, match="EAGAIN"):
        await stage.sh("touch started")
    monkeypatch.setattr(subprocess, "Popen", ours)
    monkeypatch.setattr(sys, "executable", str(stage.folder / "gone"))
    with pytest.raises(WatchdogError, match="gone"):
        await stage.sh("touch started")
    assert not (stage.folder / "started").exists()
    assert len(fresh) == 1


async def test_both_of_a_watchdog_are_small(stage: Stage) -> None:
    await stage.sh("sleep 600")
    await until(lambda: len(watchdogs_of(os.getpid())) == 2)
    rows = [proctable.read_row(pid) for pid in watchdogs_of(os.getpid())]
    assert all(row is not None and row.resident <= MOST for row in rows)


async def test_an_end_of_a_tree_frees_its_place_in_the_register(stage: Stage) -> None:
    register = client._mine().register
    for _ in range(3):
        process = await stage.sh("true")
        await process.sweep(1.0)
    used = register._count
    for _ in range(10):
        process = await stage.sh("true")
        await process.sweep(1.0)
    assert register._count == used


async def test_a_container_of_a_killed_runner_is_removed_at_once(tmp_path: Path) -> None:
    engine = tmp_path / "docker"
    engine.write_text(DOCKER.format(folder=tmp_path))
    engine.chmod(0o700)
    with subprocess.Popen(  # noqa: ASYNC220  # it only starts it
        [sys.executable, "-c", CONTAINED, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
    ) as runner:
        assert runner.stdout is not None
        await asyncio.to_thread(runner.stdout.readline)
        runner.send_signal(signal.SIGKILL)
    told = tmp_path / "removed"
    await until(lambda: told.exists() and told.read_text().endswith("\n"))
    assert told.read_text().startswith("rm --force loopwright-spawn-")
    await until(lambda: not watchdogs_of(runner.pid))
