"""A machine that is short of descriptors, processes, threads or memory is waited for."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
from dataclasses import dataclass
from functools import partial
from typing import IO, TYPE_CHECKING, Any

import pytest

from runtime import proc_table
from tests import warm
from tests.acceptance.short_program import refuse
from tests.crowded import limited_user
from tests.orchestrator.loopkit import BIN, DONE, World, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Started = warm.Process | subprocess.Popen[bytes]

PATIENCE = 90.0
SETTINGS = """\
retry_interval = 0.05
retry_interval_cap = 0.1
stop_grace = 0.3
breakpoint_check_interval = 0.2
max_environment_failures = 3
verify = ["test -e README.md"]
"""
MORE_THAN_FAULTS = 8
"""Refusals in a row that would have given a task up were they counted as failures."""


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.settings(SETTINGS)
    return made


class Run:
    """A runner and what came of it."""

    def __init__(self, world: World, start: Callable[[IO[bytes], IO[bytes]], Started]) -> None:
        self._said, self._told = world.folder / "said", world.folder / "told"
        with self._said.open("wb") as said, self._told.open("wb") as told:
            self.process = start(said, told)

    @property
    def told(self) -> str:
        return self._told.read_text()

    def ends(self) -> dict[str, Any]:
        """Wait for the end, with nothing left of it; returns what `--json` says."""
        assert self.process.wait(PATIENCE) == 0, self.told
        ended: dict[str, Any] = json.loads(self._said.read_text())
        return ended

    def is_gone(self) -> None:
        """End it, if it has not ended."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(PATIENCE)
            finally:
                self.process.kill()
                self.process.wait()


@pytest.fixture
def run(world: World) -> Iterator[Any]:
    runs: list[Run] = []

    def start(*command: str, **options: Any) -> Run:
        def started(said: IO[bytes], told: IO[bytes]) -> Started:
            return subprocess.Popen(
                command,
                cwd=world.repo,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=told,
                start_new_session=True,
                **options,
            )

        runs.append(Run(world, started))
        return runs[-1]

    yield start
    for each in runs:
        each.is_gone()


def plan(world: World, tasks: int, steps: list[Any]) -> str:
    return world.plan_of({f"T{number}": steps for number in range(tasks)})


def assert_all_complete(ended: dict[str, Any], tasks: int) -> None:
    kinds = [each["result_type"] for each in ended["results"]]
    assert kinds == ["task_complete"] * tasks, ended
    assert {each["retry_count"] for each in ended["results"]} == {0}, ended


# --- refused at the n-th call -------------------------------------------------------------------


@dataclass(frozen=True)
class Refusal:
    """Which calls of a machine fail, and how many tasks come to their end all the same."""

    place: str
    number: str
    first: int = 1
    times: int = MORE_THAN_FAULTS
    tasks: int = 1
    steps: tuple[Any, ...] = ({"commit": "x"}, DONE)
    served: bool = False
    says: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.place} {self.number} from {self.first}"


SHORT = "this machine is short of"
REFUSALS = (
    *(
        Refusal(place, number, says=(SHORT, number))
        for place, number in (
            *(("agent", "EMFILE"), ("agent", "EAGAIN"), ("gate", "ENOMEM")),
            *(("log", "EMFILE"), ("prompt", "ENFILE")),
        )
    ),
    Refusal("git", "EMFILE", times=3, tasks=2, says=("(EMFILE)",)),
    *(
        Refusal("git", number, first, times=3, tasks=2)
        for first, number in ((4, "EAGAIN"), (9, "EMFILE"), (16, "ENOMEM"), (25, "ENFILE"))
    ),
    # Before any loop: the runner waits, and begins.
    *(Refusal("thread", "EAGAIN", first, times=2) for first in (1, 2, 3)),
    Refusal("sqlite", "EMFILE", 1, times=2),
    Refusal("sqlite", "EMFILE", 2, times=2),
    Refusal("sqlite", "ENOMEM", 3, times=2),
    Refusal("lock", "ENFILE", times=2),
    # Without a watch, breakpoints are seen by polling.
    *(
        Refusal("watch", number, times=1000, tasks=2, steps=({"commit": "x"}, DONE, {"sleep": 30}))
        for number in ("EMFILE", "EAGAIN")
    ),
    Refusal(
        "accept", "EMFILE", times=1000, tasks=2, served=True,
        steps=({"sleep": 1}, {"commit": "x"}, DONE),
    ),
)  # fmt: skip


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_what_the_system_refuses_is_tried_again_and_all_tasks_are_done(
    world: World, refusal: Refusal
) -> None:
    refused = partial(refuse, refusal.place, refusal.number, refusal.first, refusal.times)
    server = ("--port", "0") if refusal.served else ("--no-server",)
    words = ("up", plan(world, refusal.tasks, list(refusal.steps)), *server, "--json")

    def started(said: IO[bytes], told: IO[bytes]) -> Started:
        return warm.Process(
            words,
            cwd=world.repo,
            env=os.environ,
            streams=(None, said.fileno(), told.fileno()),
            first=refused,
        )

    ran = Run(world, started)
    try:
        assert_all_complete(ran.ends(), refusal.tasks)
    finally:
        ran.is_gone()
    assert [text for text in refusal.says if text not in ran.told] == []
    assert "internal error" not in ran.told


# --- limits of the system -----------------------------------------------------------------------


@pytest.mark.parametrize("files", [36, 64])
def test_few_descriptors_lower_the_number_of_agents_and_end_no_task(
    world: World, run: Any, files: int
) -> None:
    words = ("up", plan(world, 8, [{"commit": "x"}, DONE]), "--max-live", "8", "--json")
    limited = ("/bin/sh", "-c", f'ulimit -n {files}; exec "$@"', "sh", str(BIN / "loopwright"))
    ran = run(*limited, *words)
    assert_all_complete(ran.ends(), 8)
    assert f"a process may open {files} files here (`ulimit -n`)" in ran.told


def test_too_few_descriptors_for_any_runner_are_named_with_what_to_do(world: World) -> None:
    words = ("up", plan(world, 2, [DONE]))
    limited = ("/bin/sh", "-c", 'ulimit -n 20; exec "$@"', "sh", str(BIN / "loopwright"))
    done = subprocess.run(
        [*limited, *words], cwd=world.repo, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "a process may open 20 files here" in done.stderr
    assert "ulimit -n 1024" in done.stderr
    assert "permissions" not in done.stderr


def _as_a_user_with(world: World, tasks: int) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return what begins a command under a limit on processes and threads, and its variables."""
    user, prefix = limited_user(world.folder)
    most = tasks + (0 if prefix else proc_table.tasks_of(user))
    folder = str(world.folder)
    home = {"HOME": folder, "XDG_STATE_HOME": f"{folder}/state", "TMPDIR": folder}
    return (*prefix, "prlimit", f"--nproc={most}:", "--"), {**os.environ, **home}


@pytest.mark.parametrize("tasks", [10, 24])
def test_few_processes_and_threads_end_no_task_and_not_the_runner(
    world: World, run: Any, tasks: int
) -> None:
    steps = [{"commit": "x"}, DONE, {"sleep": 30}]
    words = ("up", plan(world, 6, steps), "--max-live", "6", "--json")
    limited, env = _as_a_user_with(world, tasks)
    ran = run(*limited, str(BIN / "loopwright"), *words, env=env)
    assert_all_complete(ran.ends(), 6)
    assert "internal error" not in ran.told
    assert "panicked" not in ran.told


def test_a_runner_that_runs_out_of_processes_and_threads_goes_on_when_it_has_some_again(
    world: World, run: Any
) -> None:
    steps = [{"sleep": 0.5}, {"commit": "x"}, DONE]
    words = ("up", plan(world, 4, steps), "--max-live", "2", "--no-server", "--json")
    limited, env = _as_a_user_with(world, 200)
    ran = run(*limited, str(BIN / "loopwright"), *words, env=env)
    until(lambda: "attempt 1 started" in ran.told, "an agent works", PATIENCE)
    limit = ("prlimit", "--pid", str(ran.process.pid))
    # By its own user: not every root may limit the processes of others.
    subprocess.run([*limited, *limit, "--nproc=1:"], check=True)
    try:
        until(lambda: ran.told.count("(EAGAIN)") > MORE_THAN_FAULTS, "it lasts", PATIENCE)
    finally:
        subprocess.run([*limited, *limit, "--nproc=200:"], check=True)
    assert_all_complete(ran.ends(), 4)


def _times_told(world: World, ran: Run, what: str) -> int:
    """Count also what only the log tells, which is one line for each try."""
    return ran.told.count(what) + (world.repo / ".loopwright/runner.log").read_text().count(what)


def test_a_runner_that_runs_out_of_descriptors_goes_on_when_it_has_some_again(
    world: World, run: Any
) -> None:
    steps = [{"sleep": 0.5}, {"commit": "x"}, DONE]
    words = ("up", plan(world, 6, steps), "--max-live", "3", "--no-server", "--json")
    ran = run(str(BIN / "loopwright"), *words)
    until(lambda: "attempt 1 started" in ran.told, "an agent works", PATIENCE)
    soft, hard = resource.prlimit(ran.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(ran.process.pid, resource.RLIMIT_NOFILE, (8, hard))
    try:
        until(lambda: _times_told(world, ran, "(EMFILE)") > MORE_THAN_FAULTS, "it lasts", 45.0)
    finally:
        resource.prlimit(ran.process.pid, resource.RLIMIT_NOFILE, (soft, hard))
    assert_all_complete(ran.ends(), 6)
    assert "cannot be read" not in ran.told


def test_agents_get_the_limit_of_descriptors_as_it_was(world: World, run: Any) -> None:
    found = world.folder / "found"
    steps = [{"run": ["/bin/sh", "-c", f"ulimit -Sn > {found}"]}, DONE]
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    words = ("up", plan(world, 1, steps), "--no-server", "--json")
    limited = ("/bin/sh", "-c", 'ulimit -Sn 200; exec "$@"', "sh", str(BIN / "loopwright"))
    ran = run(*limited, *words)
    seen: set[int] = set()

    def raised() -> bool:
        if ran.process.poll() is None:
            seen.add(resource.prlimit(ran.process.pid, resource.RLIMIT_NOFILE)[0])
        return hard in seen

    until(raised, f"the runner may open {hard} files, not {seen}", PATIENCE)
    assert_all_complete(ran.ends(), 1)
    assert found.read_text().strip() == "200"
