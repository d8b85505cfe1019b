"""A server, a coordinator and workers, each a real process behind a network of its own.

    python -m tests.orchestrator.engines.temporal.faults.fleet FOLDER LEASE WORKER...

As a script it takes the calls of its `Fleet` from standard input, one a line (`name words...`), and
answers each with a line. So the processes that a test begins anew are not the test's children.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tests.begun import begun
from tests.lifecycle.world import ROOT, git
from tests.orchestrator.engines.temporal.cut import Network
from tests.orchestrator.engines.temporal.dev_server import PROGRAM, free_port, listens
from tests.runtime.processes.watchdog.watchdogs import kill_with_watchdogs, watchdogs_of
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAM_OF_ROLES = Path(__file__).with_name("fleet_roles.py")
WORKERS = ("a", "b")
PATIENCE = 60.0


class Fleet:
    """All machines of a story; what they say is in `ROLE.out` and `ROLE.log` of the folder."""

    def __init__(self, folder: Path, lease: float, workers: Sequence[str]) -> None:
        """Have the clones and the networks; nothing is begun yet."""
        self.folder, self.lease, self.port = folder, lease, free_port()
        self._roles = (*workers, "coordinator")
        bare = folder / "bare.git"
        if not bare.exists():
            begun(folder / "repo", {"a.txt": "a\n"})
            git(folder, "clone", "-q", "--bare", str(folder / "repo"), str(bare))
            for role in self._roles:
                git(folder, "clone", "-q", str(bare), str(folder / role))
        self._networks = {role: self.network_of(role) for role in self._roles}
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def network_of(self, role: str) -> Network:
        """Return the network between a role and the server."""
        del role
        return Network(f"127.0.0.1:{self.port}")

    def place_of(self, role: str) -> tuple[str, ...]:
        """Return the words before a command that run it where a role is."""
        del role
        return ()

    def begin(self) -> None:
        """Begin all that is not running."""
        if self._is_dead("server"):
            self.server()
        fresh = [role for role in self._roles if self._is_dead(role)]
        for role in fresh:
            self.launch(role)
        for role in fresh:
            self.up(role)

    def server(self) -> None:
        """Begin the server, with all that it knew before; it takes connections on return."""
        words = (
            *(str(PROGRAM), "server", "start-dev", "--headless", "--ip", "127.0.0.1"),
            *("--port", str(self.port), "--log-level", "error"),
            *("--db-filename", str(self.folder / "server.db")),
        )
        self._popen("server", words, {"HOME": str(self.folder)})
        wait_until(lambda: listens(self.port), (self.folder / "server.log").read_text, PATIENCE)

    def launch(self, role: str, skew: str = "0", programs: str = "") -> None:
        """Begin a role, with a worker's wall clock wrong, or with programs of its own."""
        is_worker = role != "coordinator"
        kind, named = ("worker", (role, skew)) if is_worker else (role, ())
        words = (
            *(*self.place_of(role), sys.executable, str(PROGRAM_OF_ROLES), kind),
            *(self._networks[role].address, "faults"),
            *(str(self.folder / role), str(self.lease), *named),
        )
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        if programs:
            env["PATH"] = programs + os.pathsep + env["PATH"]
        self._popen(role, words, env)

    def up(self, role: str) -> None:
        """Wait until a role is up."""
        said, log = self.folder / f"{role}.out", self.folder / f"{role}.log"
        wait_until(
            lambda: self._is_dead(role) or "up\n" in said.read_text(), log.read_text, PATIENCE
        )
        assert not self._is_dead(role), log.read_text()

    def kill(self, role: str, number: str = "SIGKILL") -> None:
        """Send a signal; a killed process is gone on return."""
        process = self._running[role]
        process.send_signal(signal.Signals[number])
        if number == "SIGKILL":
            process.wait(30)

    def kill_all_of(self, role: str) -> None:
        """Kill a role with its watchdogs."""
        kill_with_watchdogs(self._running[role].pid)
        self._running[role].wait(30)

    def kill_watchdogs(self, role: str) -> None:
        """Kill what watches a role, and nothing else."""
        for pid in watchdogs_of(self._running[role].pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def pids(self) -> str:
        """Return the process of each role, as `ROLE=PID`."""
        return " ".join(f"{role}={process.pid}" for role, process in self._running.items())

    def watched(self, role: str) -> None:
        """Wait until a role is watched."""
        wait_until(lambda: watchdogs_of(self._running[role].pid), "no watchdog", PATIENCE)

    def cut(self, role: str, ways: str = "there+back") -> None:
        """Cut a role off the server, for what goes there, comes back, or both."""
        for way in ways.split("+"):
            getattr(self._networks[role], way).set()

    def mend(self, role: str) -> None:
        """Join a role to the server again."""
        self._networks[role].mend()

    def run(self, *words: str) -> None:
        """Have the coordinator run a lifecycle."""
        given = self._running["coordinator"].stdin
        assert given is not None
        given.write((" ".join(words) + "\n").encode())
        given.flush()

    def close(self) -> None:
        """End everything."""
        for role in (*self._roles, "server"):
            if not self._is_dead(role):
                self.kill(role)

    def _is_dead(self, role: str) -> bool:
        process = self._running.get(role)
        return process is None or process.poll() is not None

    def _popen(self, role: str, words: tuple[str, ...], env: dict[str, str]) -> None:
        out, log = self.folder / f"{role}.out", self.folder / f"{role}.log"
        with out.open("wb") as said, log.open("ab") as told:
            self._running[role] = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=said, stderr=told, env=env, cwd=ROOT
            )


def main(kind: type[Fleet], folder: str, lease: str, *workers: str) -> None:
    """Do what is asked for until nobody asks any more."""
    fleet = kind(Path(folder), float(lease), workers)
    try:
        for line in sys.stdin:
            name, *words = line.split()
            told = getattr(fleet, name)(*words) or ""
            print(time.time(), told, flush=True)  # noqa: T201, TID251  # when it was done, as agents write it
    finally:
        fleet.close()


if __name__ == "__main__":
    main(Fleet, *sys.argv[1:])
