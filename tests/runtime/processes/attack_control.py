"""The control of the attacks: each one under `subprocess`, and whether it is alive."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

from runtime import proc_table
from tests.runtime.processes import attackers
from tests.waiting import wait_until

PROGRAM = str(Path(attackers.__file__))


class Plain:
    """The control: an attack under `subprocess` and nothing else."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, attack: str) -> subprocess.Popen[bytes]:
        self.process = subprocess.Popen(
            command(attack, self.folder),
            cwd=self.folder,
            stdout=subprocess.PIPE,
        )
        return self.process

    def is_up(self) -> bool:
        return (self.folder / "up").exists()

    def wait_until_up(self) -> None:
        wait_until(self.is_up)

    def terminate_and_kill(self) -> None:
        assert self.process is not None
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(0.2)
        self.process.kill()
        self.process.wait()

    def give_up(self) -> None:
        """Have the attack end itself."""
        (self.folder / "over").touch()
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            if self.process.stdout is not None:
                self.process.stdout.close()
        wait_until(lambda: _wake(self.folder) and not held(self.folder))


def command(attack: str, folder: Path) -> tuple[str, ...]:
    return (sys.executable, "-S", PROGRAM, attack, str(folder))


def held(folder: Path) -> bool:
    """Tell whether any descendant of the attack is alive: they all hold its lock."""
    with (folder / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _wake(folder: Path) -> bool:
    """Wake what stopped itself, so that it sees that it is over."""
    for pid in proc_table.all_pids():
        with contextlib.suppress(OSError):
            if str(folder).encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGCONT)
    return True


def resident() -> int:
    row = proc_table.read_row(os.getpid())
    assert row is not None
    return row.resident
