"""Makes the `loopwright` of a process find a machine that refuses some starts.

What is refused is refused by the call that would make it, with the error that the system gives.
Between two tries there is less time than for a user.
"""

from __future__ import annotations

import _posixsubprocess  # where every start of a process comes by
import errno
import os
import resource
import signal
import socket
import sqlite3
import subprocess
import threading
from typing import TYPE_CHECKING, Any

from lifecycle import shortage_retry
from orchestrator.cli import error_boundary

if TYPE_CHECKING:
    from collections.abc import Callable

AGAIN = 0.1
"""Seconds between the first two tries."""
OPENED = {"log": "/logs/", "lock": "/runner.lock"}
STARTED = {
    "agent": b"loopwright-agent",
    "git": b"git",
    "gate": b"/bin/sh",
    "watch": b"watch_process.py",
}


class Refusals:
    """Counts the calls of one place, and fails some of them."""

    def __init__(self, number: int, first: int, times: int) -> None:
        self.number = number
        self._left_alone = first - 1
        self._left = times

    def due(self) -> bool:
        """Tell whether this call is to fail."""
        if self._left_alone:
            self._left_alone -= 1
            return False
        self._left -= 1
        return self._left >= 0

    def error(self) -> OSError:
        return OSError(self.number, os.strerror(self.number))


def refuse(place: str, number: str, first: int, times: int) -> None:
    """Let the calls of a place fail with this error, from the first on so many times."""
    shortage_retry.FIRST = error_boundary.FIRST = AGAIN
    _refuse(place, Refusals(getattr(errno, number), first, times))


def _refuse(place: str, refusals: Refusals) -> None:
    if place in STARTED:
        started = _refusing(_posixsubprocess.fork_exec, refusals, _starts(STARTED[place]))
        _posixsubprocess.fork_exec = started
        subprocess._fork_exec = started  # type: ignore[attr-defined]  # it keeps a name of its own
    elif place in OPENED:
        os.open = _refusing(os.open, refusals, _opens(OPENED[place]))
    elif place == "prompt":
        os.memfd_create = _refusing(os.memfd_create, refusals, lambda name, *_: name == "prompt")
    elif place == "thread":
        full = RuntimeError("can't start new thread")
        real = threading._start_new_thread  # type: ignore[attr-defined]
        threading._start_new_thread = _refusing(real, refusals, error=full)  # type: ignore[attr-defined]
    elif place == "sqlite":
        sqlite3.connect = _connected(refusals)  # type: ignore[assignment]
    else:
        socket.socket.accept = _refusing(socket.socket.accept, refusals)  # type: ignore[method-assign]


def _refusing(
    real: Callable[..., Any],
    refusals: Refusals,
    applies: Callable[..., bool] = lambda *_: True,
    error: Exception | None = None,
) -> Callable[..., Any]:
    """Return a call that fails when it is due, among those that it applies to."""

    def call(*args: Any, **named: Any) -> Any:
        if applies(*args) and refusals.due():
            raise error or refusals.error()
        return real(*args, **named)

    return call


def _starts(program: bytes) -> Callable[..., bool]:
    def applies(args: Any, *_: Any) -> bool:
        words = b"\0".join(map(os.fsencode, args))
        return program in words if program != b"git" else words.startswith(b"git\0")

    return applies


def _opens(part: str) -> Callable[..., bool]:
    return lambda path, *_: isinstance(path, (str, os.PathLike)) and part in os.fspath(path)


def _connected(refusals: Refusals) -> Callable[..., sqlite3.Connection]:
    real: Callable[..., sqlite3.Connection] = sqlite3.connect

    def connect(*args: Any, **named: Any) -> sqlite3.Connection:
        if not refusals.due():
            return real(*args, **named)
        if refusals.number == errno.ENOMEM:
            raise MemoryError
        # SQLite opens files by itself: there must really be no descriptor, for a while.
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, files[1]))
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        return real(*args, **named)

    files = resource.getrlimit(resource.RLIMIT_NOFILE)
    signal.signal(signal.SIGALRM, lambda *_: resource.setrlimit(resource.RLIMIT_NOFILE, files))
    return connect
