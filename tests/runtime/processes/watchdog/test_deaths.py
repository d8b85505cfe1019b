"""However a runner dies, nothing of its agents is alive a second later."""

from __future__ import annotations

import contextlib
import functools
import os
import resource
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runtime import proc_table
from runtime.process import TerminalManager
from runtime.processes.cgroups import probe
from tests.runtime.processes.attack_control import held
from tests.runtime.processes.watchdog.runner import mark_of
from tests.runtime.processes.watchdog.watchdogs import kill_with_watchdogs, watchdogs_of
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[4]
PROGRAM = ROOT / "tests/runtime/processes/watchdog/runner.py"
MANY, AGENTS = 20, 5
LEVELS = ["process", "container"]
SOON = 1.0
PATIENCE = 40.0
MEMORY = 700 << 20


class Runner:
    """A runner of its own, with agents that try to outlive it."""

    def __init__(
        self,
        folder: Path,
        level: str,
        *,
        agents: int = AGENTS,
        joins: str = "",
        attack: str = "",
    ) -> None:
        self.folder = folder
        self.agents = agents
        joining = f"echo $$ > '{joins}/cgroup.procs' && " if joins else ""
        self.process = subprocess.Popen(
            ["/bin/sh", "-c", f'{joining}exec "$@"', "sh",
             sys.executable, str(PROGRAM), str(folder), level, str(agents), attack],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )  # fmt: skip

    def wait_until_up(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "up\n"
        assert len(self.alive()) == self.agents

    @property
    def pid(self) -> int:
        return self.process.pid

    def told(self, word: str) -> int:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()
        return self.process.wait(PATIENCE)

    def alive(self) -> list[int]:
        """List the agents of which something is alive: it holds a lock."""
        return [number for number in range(self.agents) if held(self.folder / str(number))]

    def nothing_is_left(self, since: float) -> bool:
        """Wait until nothing is alive; tell whether that was soon."""
        while self.alive():
            assert time.monotonic() < since + PATIENCE, "something lives on"
            time.sleep(0.002)
        return time.monotonic() - since <= SOON

    def close(self) -> None:
        for number in range(self.agents):
            with contextlib.suppress(OSError):
                (self.folder / str(number) / "over").touch()
        self.process.kill()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        self.process.wait()
        wait_until(lambda: not watchdogs_of(self.pid))


@pytest.fixture
def runner_of(tmp_path: Path) -> Iterator[Callable[..., Runner]]:
    made: list[Runner] = []

    def make(level: str = "process", **more: object) -> Runner:
        folder = tmp_path / f"{len(made)}"
        folder.mkdir()
        made.append(Runner(folder, level, **more))  # type: ignore[arg-type]  # its own
        made[-1].wait_until_up()
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def group() -> Iterator[Callable[[str], Path | None]]:
    """Make a control group for a runner and all it starts, where this machine lets us."""
    made: list[Path] = []

    def make(controller: str) -> Path | None:
        ability = probe.capabilities().of(probe.Control(controller))
        if ability.base is None:
            return None
        made.append(ability.base / f"watched-{uuid.uuid4().hex}")
        made[-1].mkdir()
        return made[-1]

    yield make
    for path in made:
        wait_until(functools.partial(removed, path))


def removed(path: Path) -> bool:
    for folder, _, _ in os.walk(path, topdown=False):
        with contextlib.suppress(OSError):
            Path(folder).rmdir()
    return not path.exists()


@pytest.mark.parametrize("level", LEVELS)
def test_a_killed_runner_takes_its_agents_with_it(
    runner_of: Callable[..., Runner], level: str
) -> None:
    runner = runner_of(level, agents=MANY)
    since = time.monotonic()
    os.kill(runner.pid, signal.SIGKILL)
    assert runner.nothing_is_left(since)


@pytest.mark.parametrize("attack", ["bomb", "comet", "comets"])
def test_what_forks_without_end_ends_with_a_killed_runner(
    runner_of: Callable[..., Runner], attack: str
) -> None:
    runner = runner_of(agents=1, attack=attack)
    since = time.monotonic()
    os.kill(runner.pid, signal.SIGKILL)
    assert runner.nothing_is_left(since)


@pytest.mark.parametrize("level", LEVELS)
def test_a_runner_that_aborts_takes_its_agents_with_it(
    runner_of: Callable[..., Runner], level: str
) -> None:
    runner = runner_of(level)
    assert runner.told("abort") == -signal.SIGABRT
    assert runner.nothing_is_left(time.monotonic())


def test_a_runner_that_runs_out_of_memory_takes_its_agents_with_it(
    runner_of: Callable[..., Runner], group: Callable[[str], Path | None]
) -> None:
    joins = group("memory")
    runner = runner_of(joins=str(joins or ""))
    if joins is None:
        # Killed by the kernel in another way: what a machine without such groups has.
        resource_limit_on(runner.pid)
        assert runner.told("spin") == -signal.SIGKILL
    else:
        unified = (joins / "memory.max").exists()
        name = "memory.max" if unified else "memory.limit_in_bytes"
        (joins / name).write_text(str(MEMORY))
        assert runner.told("exhaust") == -signal.SIGKILL
    assert runner.nothing_is_left(time.monotonic())


def resource_limit_on(pid: int) -> None:
    if sys.platform == "linux":
        resource.prlimit(pid, resource.RLIMIT_CPU, (0, 1))


def test_a_runner_that_dies_of_a_process_limit_takes_its_agents_with_it(
    runner_of: Callable[..., Runner], group: Callable[[str], Path | None]
) -> None:
    joins = group("processes")
    runner = runner_of(joins=str(joins or ""))
    if joins is None:
        assert runner.told("abort") == -signal.SIGABRT
    else:
        now = (joins / "pids.current").read_text()
        (joins / "pids.max").write_text(now)
        assert runner.told("threads") == -signal.SIGABRT
    assert runner.nothing_is_left(time.monotonic())


@pytest.mark.parametrize("when", ["before", "at once", "after"])
@pytest.mark.parametrize("level", LEVELS)
def test_with_its_watchdog_killed_too_a_runner_takes_its_agents_with_it(
    runner_of: Callable[..., Runner], when: str, level: str
) -> None:
    runner = runner_of(level)
    first = min(watchdogs_of(runner.pid))
    since = time.monotonic()
    for pid in (runner.pid, first) if when == "after" else (first, runner.pid):
        os.kill(pid, signal.SIGKILL)
        if when == "before":
            wait_until(lambda: first not in watchdogs_of(runner.pid))
            since = time.monotonic()
    assert runner.nothing_is_left(since)


def test_a_watchdog_that_is_stopped_keeps_nobody_alive(runner_of: Callable[..., Runner]) -> None:
    runner = runner_of()
    first = min(watchdogs_of(runner.pid))
    os.kill(first, signal.SIGSTOP)
    since = time.monotonic()
    os.kill(runner.pid, signal.SIGKILL)
    assert runner.nothing_is_left(since)
    os.kill(first, signal.SIGKILL)


@pytest.mark.parametrize("victims", ["the first", "the second", "both"])
def test_a_killed_watchdog_is_restarted_within_a_second(
    runner_of: Callable[..., Runner], victims: str
) -> None:
    runner = runner_of(agents=2)
    wait_until(lambda: len(watchdogs_of(runner.pid)) == 2)
    old = sorted(watchdogs_of(runner.pid))
    killed = {"the first": old[:1], "the second": old[1:], "both": old}[victims]
    since = time.monotonic()
    for pid in killed:
        os.kill(pid, signal.SIGKILL)

    def are_two() -> bool:
        return len({pid for pid in watchdogs_of(runner.pid) if alive(pid)} - set(killed)) == 2

    wait_until(are_two)
    assert time.monotonic() - since <= SOON
    since = time.monotonic()
    os.kill(runner.pid, signal.SIGKILL)
    assert runner.nothing_is_left(since)


def test_requests_to_end_do_not_end_a_watchdog(runner_of: Callable[..., Runner]) -> None:
    runner = runner_of(agents=1)
    wait_until(lambda: len(watchdogs_of(runner.pid)) == 2)
    old = sorted(watchdogs_of(runner.pid))
    for pid in old:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(pid, number)
    since = time.monotonic()
    os.kill(runner.pid, signal.SIGKILL)
    assert runner.nothing_is_left(since)


def test_a_runner_that_ended_all_leaves_no_watchdog(runner_of: Callable[..., Runner]) -> None:
    runner = runner_of(agents=3)
    assert runner.told("end") == 0
    since = time.monotonic()
    wait_until(lambda: not watchdogs_of(runner.pid))
    assert time.monotonic() - since <= SOON


def test_a_runner_that_ends_without_ending_its_agents_takes_them_with_it(
    runner_of: Callable[..., Runner],
) -> None:
    runner = runner_of(agents=3)
    assert runner.told("leave") == 0
    assert runner.nothing_is_left(time.monotonic())


def test_the_agents_of_the_next_runner_live_on(runner_of: Callable[..., Runner]) -> None:
    """They have the same names, and the watchdog of the first may still be at work."""
    first, second = runner_of(agents=4), runner_of(agents=4)
    since = time.monotonic()
    os.kill(first.pid, signal.SIGKILL)
    assert first.nothing_is_left(since)
    wait_until(lambda: not watchdogs_of(first.pid))
    assert len(second.alive()) == 4


async def test_the_next_start_ends_what_outlived_runner_and_watchdog(
    runner_of: Callable[..., Runner],
) -> None:
    runner = runner_of(agents=2)
    kill_with_watchdogs(runner.pid)
    runner.process.wait()
    assert len(runner.alive()) == 2
    await swept(runner.folder, agents=2)
    assert runner.alive() == []


async def swept(folder: Path, agents: int) -> None:
    terminals = TerminalManager(folder)
    for number in range(agents):
        for identity in terminals.find_marked(mark_of(folder, number)):
            assert (await terminals.stop_identity(identity, 0.1)).survivors == ()


def alive(pid: int) -> bool:
    row = proc_table.read_row(pid)
    return row is not None and not row.dead
