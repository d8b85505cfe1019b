"""The watchdogs of a runner, found from outside as a person would find them, and killed."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

from runtime import proc_table
from runtime.processes.watchdog import program

PROGRAM = os.fsencode(program.__file__)


def watchdogs_of(runner: int) -> list[int]:
    """List the processes that watch this runner."""
    found = []
    for pid in proc_table.all_pids():
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if PROGRAM in words and words[words.index(PROGRAM) + 1] == str(runner).encode():
                found.append(pid)
    return found


def kill_with_watchdogs(runner: int) -> None:
    """Kill a runner and all that watches it, so that neither can act on the end of the other."""
    held: set[int] = set()
    if runner != os.getpid():
        os.kill(runner, signal.SIGSTOP)
    while fresh := set(watchdogs_of(runner)) - held:
        for pid in fresh:
            os.kill(pid, signal.SIGSTOP)
        held |= fresh
    for pid in (*held, runner):
        os.kill(pid, signal.SIGKILL)
