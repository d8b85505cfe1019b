"""A real repository, real `loopwright` processes and scripted agents for the tests of commands."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from lifecycle.errors import StoreError
from lifecycle.paths import Paths
from lifecycle.store.plain_queries import read_rows
from lifecycle.store.sqlite.store import SqliteStore
from orchestrator.cli.main import main
from runtime.workspaces.worktrees_dir import default_worktrees_dir
from tests import waiting, warm
from tests.begun import begun

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping

_T = TypeVar("_T")
until, PATIENCE = waiting.wait_until, waiting.PATIENCE
BIN = Path(sys.executable).parent
SETTINGS = """\
retry_interval = 0.1
stop_grace = 0.3
breakpoint_check_interval = 0.1
"""
DONE = {"breakpoint": {"type": "task_complete", "summary": "all done"}}
ASK = {"breakpoint": {"type": "question", "question": "Blue or green?"}}
BLOCK = {"breakpoint": {"type": "blocked", "reason": "no key", "blocked_on": ["a key"]}}


def of_store(repo: Path, asked: Callable[[SqliteStore], Awaitable[_T]]) -> _T:
    """Ask the records of a repository for something, or change them, as a runner could."""

    async def ask() -> _T:
        async with await SqliteStore.open(Paths.of(repo).database) as store:
            return await asked(store)

    return asyncio.run(ask())


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    stdout: str
    stderr: str


class World:
    """One repository and what is done to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        files = {"README.md": "Hello\n", "loopwright.toml": SETTINGS}
        self.repo = begun(folder / "repo", files)

    def git(self, *args: str) -> str:
        done = subprocess.run(
            ["git", *args], cwd=self.repo, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def workspace(self, agent_id: str = "agent-T001") -> Path:
        return default_worktrees_dir(self.repo) / agent_id

    def settings(self, text: str) -> None:
        (self.repo / "loopwright.toml").write_text(text)

    def script(self, name: str, script: object) -> str:
        """Write an agent's script; returns the command that plays it."""
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(script))
        return f"{BIN / 'loopwright-agent'} {path}"

    def plan(self, text: str, name: str = "plan.toml") -> str:
        path = self.folder / name
        path.write_text(text)
        return str(path)

    def plan_of(
        self,
        scripts: Mapping[str, object],
        tasks: Mapping[str, Mapping[str, object]] | None = None,
        *,
        name: str = "plan",
        **more: object,
    ) -> str:
        """Write a plan with a task, and an agent of its own, for each script.

        `tasks` has further fields of some tasks, `more` of the plan.
        """
        commands = {each: self.script(each, script).split() for each, script in scripts.items()}
        agents = {each: {"command": command} for each, command in commands.items()}
        listed = [{"id": each, "agent": each, **(tasks or {}).get(each, {})} for each in scripts]
        text = json.dumps({**more, "agents": agents, "tasks": listed})
        return self.plan(text, f"{name}.json")

    def call(self, *args: str, code: int | None = 0) -> Done:
        """Run a command to its end, in this process for speed, and check its exit code."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.chdir(self.repo), redirect_stdout(out), redirect_stderr(err):
            ended = main(args)
        done = Done(ended, out.getvalue(), err.getvalue())
        assert code in (ended, None), f"{args}: {done}"
        return done

    def json(self, *args: str, code: int | None = 0) -> Any:
        """Run a command with --json; standard output holds nothing else."""
        return json.loads(self.call(*args, "--json", code=code).stdout)

    @contextmanager
    def live(self, *args: str, serves: bool = False, **env: str) -> Iterator[Live]:
        """Run a command beside the test; it is ended with the block.

        Loops wait for people, as on a terminal. The server is half of what `up` costs, so it is
        there only where it is wanted.
        """
        if args[0] in ("run", "up") and "--no-stay" not in args:
            args = (*args, "--stay")
        if args[0] == "up" and not serves and not {"--port", "--no-server"} & {*args}:
            args = (*args, "--no-server")
        with Live(self, args, env) as live:
            yield live

    def row(self, agent_id: str = "agent-T001") -> dict[str, Any]:
        """Return the stored lifecycle, or nothing."""
        database = self.repo / ".loopwright" / "state.db"
        try:
            rows = read_rows(database, agent_id=agent_id) if database.exists() else []
        except StoreError:
            return {}  # it is being made this moment
        return rows[0] if rows else {}

    def comes_to(self, kind: str, agent_id: str = "agent-T001") -> dict[str, Any]:
        """Wait until a lifecycle is in a work state."""

        def there() -> dict[str, Any]:
            row = self.row(agent_id)
            return row if row.get("work_kind") == kind else {}

        found: dict[str, Any] = until(there, f"{agent_id} is {kind}, not {self.row(agent_id)}")
        return found

    def branches(self) -> list[str]:
        return self.git("for-each-ref", "--format=%(refname:short)", "refs/heads").split()

    def stamps(self) -> list[tuple[str, str, float]]:
        """Return who began or ended when, as the agents themselves wrote it."""
        path = self.folder / "stamps"
        if not path.exists():
            return []
        lines = [line.split() for line in path.read_text().splitlines()]
        return sorted(((who, what, float(at)) for who, what, at in lines), key=lambda row: row[2])

    def stamp(self, what: str) -> dict[str, Any]:
        """Return the step that writes such a line."""
        python = (
            "import os, sys, time; "
            "open(sys.argv[1], 'a').write("
            "f\"{os.environ['LOOPWRIGHT_TASK_ID']} {sys.argv[2]} {time.time()}\\n\")"
        )
        return {"run": [sys.executable, "-S", "-c", python, str(self.folder / "stamps"), what]}


class Live:
    """A command that runs beside the test."""

    def __init__(self, world: World, args: tuple[str, ...], env: dict[str, str]) -> None:
        self._world, self._args, self._env = world, args, env
        self._out = world.folder / f"{args[0]}-{time.monotonic_ns()}"

    def __enter__(self) -> Self:
        env = {**os.environ, **self._env}
        with self._path("out").open("wb") as out, self._path("err").open("wb") as err:
            self.process = warm.Process(
                self._args,
                cwd=self._world.repo,
                env=env,
                streams=(None, out.fileno(), err.fileno()),
            )
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def _path(self, kind: str) -> Path:
        return self._out.with_suffix(f".{kind}")

    @property
    def out(self) -> str:
        return self._path("out").read_text()

    @property
    def err(self) -> str:
        return self._path("err").read_text()

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def ends(self, code: int) -> str:
        """Wait for the end and its exit code; returns standard output."""
        assert self.process.wait(PATIENCE) == code, self.err
        return self.out

    def says(self, text: str) -> None:
        """Wait until it told something on standard error."""
        until(lambda: text in self.err, lambda: f"{text!r} is told; told is {self.err}")
