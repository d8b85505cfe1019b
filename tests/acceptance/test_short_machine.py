"""A machine that is short of descriptors, processes, threads or memory is waited for."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from runtime import proctable
from tests.crowded import limited_user
from tests.orchestrator.loopkit import BIN, DONE, World, until

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
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

    def __init__(self, world: World, command: list[str], **options: Any) -> None:
        self._told = world.folder / "told"
        with self._told.open("wb") as told:
            self.process = subprocess.Popen(
                command,
                cwd=world.repo,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=told,
                start_new_session=True,
                **options,
            )

    @property
    def told(self) -> str:
        return self._told.read_text()

    def ends(self) -> dict[str, Any]:
        """Wait for the end, with nothing left of it; returns what `--json` says."""
        try:
            out, _ = self.process.communicate(timeout=PATIENCE)
        finally:
            if self.process.returncode is None:
                self.process.send_signal(signal.SIGTERM)
                self.process.communicate()
        assert self.process.returncode == 0, self.told
        ended: dict[str, Any] = json.loads(out)
        return ended


@pytest.fixture
def run(world: World) -> Iterator[Any]:
    runs: list[Run] = []

    def start(*command: str, **options: Any) -> Run:
        runs.append(Run(world, list(command), **options))
        return runs[-1]

    yield start
    for each in runs:
        if each.process.poll() is None:
            each.process.kill()
            each.process.communicate()


def plan(world: World, tasks: int, steps: list[Any]) -> str:
    command = json.dumps(world.script("agent", steps).split())
    listed = "\n".join(f'[[tasks]]\nid = "T{number}"' for number in range(tasks))
    return world.plan(f"[agents.default]\ncommand = {command}\n{listed}\n")


def assert_all_complete(ended: dict[str, Any], tasks: int) -> None:
    kinds = [each["result_type"] for each in ended["results"]]
    assert kinds == ["task_complete"] * tasks, ended
    assert {each["retry_count"] for each in ended["results"]} == {0}, ended


# --- refused at the n-th call -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "number"),
    [
        ("agent", "EMFILE"),
        ("agent", "EAGAIN"),
        ("gate", "ENOMEM"),
        ("log", "EMFILE"),
        ("prompt", "ENFILE"),
    ],
)
def test_a_start_that_is_refused_is_tried_again_until_there_is_room(
    world: World, run: Any, place: str, number: str
) -> None:
    words = ("up", plan(world, 1, [{"commit": "x"}, DONE]), "--no-server", "--json")
    injected = [place, number, "1", str(MORE_THAN_FAULTS)]
    program = [sys.executable, str(ROOT / "tests/acceptance/short_program.py")]
    ran = run(*program, *injected, *words, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert_all_complete(ran.ends(), 1)
    assert "this machine is short of" in ran.told
    assert number in ran.told


@pytest.mark.parametrize(
    ("first", "number"),
    [(1, "EMFILE"), (4, "EAGAIN"), (9, "EMFILE"), (16, "ENOMEM"), (25, "ENFILE")],
)
def test_a_git_that_is_refused_is_tried_again_wherever_it_is(
    world: World, run: Any, first: int, number: str
) -> None:
    words = ("up", plan(world, 2, [{"commit": "x"}, DONE]), "--no-server", "--json")
    program = [sys.executable, str(ROOT / "tests/acceptance/short_program.py")]
    injected = ["git", number, str(first), "3"]
    ran = run(*program, *injected, *words, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert_all_complete(ran.ends(), 2)
    assert f"({number})" in ran.told or first > 1


@pytest.mark.parametrize(
    ("place", "first", "number"),
    [
        ("thread", 1, "EAGAIN"),
        ("thread", 2, "EAGAIN"),
        ("thread", 3, "EAGAIN"),
        ("sqlite", 1, "EMFILE"),
        ("sqlite", 2, "EMFILE"),
        ("sqlite", 3, "ENOMEM"),
        ("lock", 1, "ENFILE"),
    ],
)
def test_a_runner_that_cannot_begin_yet_waits_and_begins(
    world: World, run: Any, place: str, first: int, number: str
) -> None:
    words = ("up", plan(world, 1, [{"commit": "x"}, DONE]), "--no-server", "--json")
    program = [sys.executable, str(ROOT / "tests/acceptance/short_program.py")]
    injected = [place, number, str(first), "2"]
    ran = run(*program, *injected, *words, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert_all_complete(ran.ends(), 1)
    assert "internal error" not in ran.told


@pytest.mark.parametrize("number", ["EMFILE", "EAGAIN"])
def test_breakpoints_are_seen_by_polling_where_no_watch_can_be_had(
    world: World, run: Any, number: str
) -> None:
    steps = [{"commit": "x"}, DONE, {"sleep": 30}]
    words = ("up", plan(world, 2, steps), "--no-server", "--json")
    program = [sys.executable, str(ROOT / "tests/acceptance/short_program.py")]
    injected = ["watch", number, "1", "1000"]
    ran = run(*program, *injected, *words, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert_all_complete(ran.ends(), 2)


def test_a_connection_that_cannot_be_accepted_stops_nothing(world: World, run: Any) -> None:
    words = ("up", plan(world, 2, [{"sleep": 1}, {"commit": "x"}, DONE]), "--port", "0", "--json")
    program = [sys.executable, str(ROOT / "tests/acceptance/short_program.py")]
    injected = ["accept", "EMFILE", "1", "1000"]
    ran = run(*program, *injected, *words, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert_all_complete(ran.ends(), 2)


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


def _as_a_user_with(world: World, tasks: int) -> tuple[str, ...]:
    """Return what begins a command under a limit on processes and threads."""
    user, prefix = limited_user(world.folder)
    most = tasks + (0 if prefix else proctable.tasks_of(user))
    return (*prefix, "prlimit", f"--nproc={most}:", "--")


@pytest.mark.parametrize("tasks", [10, 24])
def test_few_processes_and_threads_end_no_task_and_not_the_runner(
    world: World, run: Any, tasks: int
) -> None:
    home = {"HOME": str(world.folder), "XDG_STATE_HOME": str(world.folder / "state")}
    steps = [{"commit": "x"}, DONE, {"sleep": 30}]
    words = ("up", plan(world, 6, steps), "--max-live", "6", "--json")
    limited = _as_a_user_with(world, tasks)
    env = {**os.environ, **home, "TMPDIR": str(world.folder)}
    ran = run(*limited, str(BIN / "loopwright"), *words, env=env)
    assert_all_complete(ran.ends(), 6)
    assert "internal error" not in ran.told
    assert "panicked" not in ran.told


def test_a_runner_that_runs_out_of_processes_and_threads_goes_on_when_it_has_some_again(
    world: World, run: Any
) -> None:
    home = {"HOME": str(world.folder), "XDG_STATE_HOME": str(world.folder / "state")}
    steps = [{"sleep": 0.5}, {"commit": "x"}, DONE]
    words = ("up", plan(world, 4, steps), "--max-live", "2", "--no-server", "--json")
    limited = _as_a_user_with(world, 200)
    env = {**os.environ, **home, "TMPDIR": str(world.folder)}
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
