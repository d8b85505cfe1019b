"""Starts `loopwright` in a process of its own that need not import it: most of what a start costs.

The process is forked from one that has everything loaded, one for each worker; all else is as ever:
the same `main`, its own folder, variables, streams and signals. Whoever tests the start itself or
its limits starts the program.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from multiprocessing import forkserver, reduction, resource_tracker
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from multiprocessing.process import BaseProcess
    from pathlib import Path

_forking = multiprocessing.get_context("forkserver")


def begin() -> None:
    """Start the process that others are forked from; it ends with this one."""
    _forking.set_forkserver_preload(["tests.warm_modules"])
    forkserver.ensure_running()
    resource_tracker.ensure_running()


class _Handed:
    """A descriptor that the forked process gets a copy of."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __reduce__(self) -> tuple[Callable[[Any], int], tuple[Any]]:
        return _received, (reduction.DupFd(self._number),)


def _received(copy: Any) -> int:
    number: int = copy.detach()
    return number


@dataclass
class _Start:
    """What the forked process is to be."""

    args: list[str]
    cwd: str
    env: dict[str, str]
    streams: list[Any]
    first: Callable[[], object] | None


class Process:
    """A running `loopwright`; used as those of `subprocess` are."""

    def __init__(
        self,
        args: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        streams: tuple[int | None, int, int],
        first: Callable[[], object] | None = None,
    ) -> None:
        """`streams` are descriptors; without one for standard input there is nothing to read.

        `first` is called in the process before the program begins.
        """
        self.args = list(args)
        self.returncode: int | None = None
        self._asked = threading.Lock()
        nothing = os.open(os.devnull, os.O_RDONLY)
        try:
            given = [_Handed(nothing if each is None else each) for each in streams]
            start = _Start(self.args, str(cwd), dict(env), given, first)
            self._process: BaseProcess = _forking.Process(target=_play, args=(start,))
            self._process.start()
        finally:
            os.close(nothing)
        self.pid: int = self._process.pid or 0

    def poll(self) -> int | None:
        """Return the exit code, once it has ended."""
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end; returns the exit code, or less than 0 for a signal."""
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return code

    def _ended(self, timeout: float | None) -> int | None:
        if not self._asked.acquire(blocking=timeout != 0):
            return None  # another thread waits for it
        try:
            if self.returncode is None:
                self._process.join(timeout)
                self.returncode = self._process.exitcode
                if self.returncode is not None:
                    self._process.close()
        finally:
            self._asked.release()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it."""
        self.send_signal(signal.SIGKILL)


def _play(start: _Start) -> None:
    """Be the program, in the forked process."""
    from orchestrator.cli.main import main  # noqa: PLC0415  # loaded there, and slow to load here

    os.chdir(start.cwd)
    os.environ.clear()
    os.environ.update(start.env)
    for number, copy in enumerate(start.streams):
        os.dup2(copy, number)
    for copy in {*start.streams}:
        os.close(copy)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115  # until it ends, as the next ones
    sys.stdout = open(1, "w", buffering=1 if os.isatty(1) else -1, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.argv = ["loopwright", *start.args]
    if start.first is not None:
        start.first()
    try:
        code = main()
    finally:
        atexit._run_exitfuncs()
    sys.exit(code)
