"""Ends the runner of a repository from outside, by the signals that Ctrl-C sends.

Owns that no other process is signalled: it must hold the lock at that moment, on this machine.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lifecycle.store.lock import REQUEST, holder
from orchestrator.errors import OrchestratorError
from runtime.proc_table import read_row

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

LOOK_EVERY = 0.05
BETWEEN_SIGNALS = 0.5
"""Seconds between two signals, so that a runner takes them for two."""
REQUEST_PATIENCE = 10.0


class RunnerEndError(OrchestratorError):
    """The runner cannot be ended from here."""


@dataclass(frozen=True, slots=True)
class LiveRunner:
    """A runner that holds the lock of a state folder."""

    folder: Path
    pid: int
    said: Mapping[str, Any]

    @property
    def name(self) -> str:
        """What people call it."""
        return f"{self.said.get('who') or 'a runner'} (pid {self.pid})"

    @property
    def repositories(self) -> int:
        """How many repositories it runs."""
        count = self.said.get("repositories")
        return count if isinstance(count, int) else 1

    @property
    def lives(self) -> bool:
        """Whether its process is there, or holds the lock still."""
        return _is_same(holder(self.folder), self.said) or self._process_lives()

    def _process_lives(self) -> bool:
        row = read_row(self.pid)
        return row is not None and not row.dead and self.said.get("started") in (None, row.start)

    def signal(self) -> bool:
        """Ask it to end as Ctrl-C does, once more than before; False if it has ended."""
        if not _is_same(holder(self.folder), self.said):
            return False
        if not self._process_lives():
            raise RunnerEndError(
                f"{self.name} is not a process that can be seen from here: it runs in another "
                "container; end it there"
            )
        try:
            os.kill(self.pid, signal.SIGTERM)
        except ProcessLookupError:
            return False
        except PermissionError as problem:
            raise RunnerEndError(
                f"{self.name} belongs to another user; ask that one to end it"
            ) from problem
        return True


def live_runner(folder: Path) -> LiveRunner | None:
    """Return the runner of a state folder; who holds it for one request is waited for."""
    end = time.monotonic() + REQUEST_PATIENCE
    while (said := holder(folder)) is not None and time.monotonic() < end:
        pid = said.get("pid")
        if isinstance(pid, int) and not str(said.get("who", "")).startswith(REQUEST):
            return _on_this_machine(LiveRunner(folder, pid, said))
        time.sleep(LOOK_EVERY)
    return None


def _on_this_machine(runner: LiveRunner) -> LiveRunner:
    host = runner.said.get("host")
    if host != os.uname().nodename:
        raise RunnerEndError(f"{runner.name} runs on host {host}; end it there")
    return runner


def end(runner: LiveRunner, *, at_once: bool, wait_s: float | None) -> bool:
    """End it and wait for that; False if it is still ending after so many seconds."""
    began = time.monotonic()
    asked = runner.signal()
    again_at = began + BETWEEN_SIGNALS if at_once and asked else float("inf")
    while runner.lives:
        present = time.monotonic()
        if present >= again_at:
            again_at = float("inf")
            with suppress(RunnerEndError):  # it ended this moment
                runner.signal()
        if wait_s is not None and present >= began + wait_s:
            return False
        time.sleep(LOOK_EVERY)
    return True


def _is_same(now: Mapping[str, Any] | None, before: Mapping[str, Any]) -> bool:
    return now is not None and all(now.get(key) == before.get(key) for key in ("pid", "started"))
