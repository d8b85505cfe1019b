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

from runtime import proc_table
from runtime.errors import ShortageError, WatchdogError
from runtime.processes.watchdog import client
from tests.runtime.process_fixtures import Stage, until
from tests.runtime.processes.watchdog.watchdogs import watchdogs_of

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[4]
MOST = 12 << 20
CONTAINED = """
import asyncio, os, sys
from dataclasses import replace
from pathlib import Path
from runtime.isolation.sandbox import Sandbox, SandboxEngine
from runtime.process import TerminalManager
from tests.runtime.process_fixtures import Stage

async def main(folder):
    stage = Stage(folder, TerminalManager(folder))
    docker = str(folder / "docker")
    sandbox = Sandbox(folder, engine=SandboxEngine.DOCKER, program=docker, image="none")
    await stage.terminals.spawn(replace(stage.order("work"), sandbox=sandbox))
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
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[client.Watchdog]]:
    """Give this process a watchdog of its own for the test, which is not started yet."""
    own = [client.Watchdog()]
    monkeypatch.setattr(client, "_own", own)
    yield own
    own[0].close()


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


async def test_a_watchdog_that_ends_at_once_is_told_as_that_and_not_started_without_end(
    stage: Stage, fresh: list[client.Watchdog], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = stage.folder / "tried"
    broken = _program(stage.folder / "broken", f"echo try >> {tried}; echo no library >&2; exit 1")
    monkeypatch.setattr(sys, "executable", str(broken))
    with pytest.raises(WatchdogError, match=f"{broken} exited immediately and printed: no library"):
        await stage.sh("touch started")
    assert tried.read_text().count("try") <= client._TRIES
    _program(broken, "echo 'cannot open shared object file: Too many open files' >&2; exit 127")
    with pytest.raises(ShortageError, match="EMFILE"):
        await stage.sh("touch started")
    assert not (stage.folder / "started").exists()
    assert len(fresh) == 1


async def test_an_interpreter_that_needs_a_variable_to_load_gets_it(
    stage: Stage, fresh: list[client.Watchdog], monkeypatch: pytest.MonkeyPatch
) -> None:
    needy = f'[ -n "$LD_LIBRARY_PATH" ] || exit 127; exec {sys.executable} "$@"'
    monkeypatch.setattr(sys, "executable", str(_program(stage.folder / "needy", needy)))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(stage.folder))
    await (await stage.sh("true")).sweep(1.0)
    assert len(fresh) == 1


async def test_a_start_of_the_watchdog_that_is_refused_keeps_no_descriptor(
    fresh: list[client.Watchdog], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipes = [os.pipe()]

    def pipe() -> tuple[int, int]:
        if pipes:
            return pipes.pop()
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    first = pipes[0]
    with monkeypatch.context() as patched:
        patched.setattr(os, "pipe", pipe)
        with pytest.raises(OSError, match="Too many open files"):
            await fresh[0].ready()
    for end in first:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(end)


def test_the_register_takes_no_number_of_a_standard_stream(tmp_path: Path) -> None:
    """A caller may have closed its own; the watchdog has its pipes there."""
    program = (
        "import os; os.close(0); from runtime.processes.watchdog.client import RegisterWriter; "
        "print(RegisterWriter().file)"
    )
    told = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(told.stdout) > 2


def _program(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o700)
    return path


async def test_both_of_a_watchdog_are_small(stage: Stage) -> None:
    await stage.sh("sleep 600")
    await until(lambda: len(watchdogs_of(os.getpid())) == 2)
    rows = [proc_table.read_row(pid) for pid in watchdogs_of(os.getpid())]
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
