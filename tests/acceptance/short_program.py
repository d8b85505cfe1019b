"""The `loopwright` command on a machine that refuses some starts: PLACE ERRNO FIRST TIMES ARGS...

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
import sys
import threading
from typing import TYPE_CHECKING, Any

from lifecycle import shortfall
from orchestrator.cli import boundary
from orchestrator.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Callable

AGAIN = 0.1
"""Seconds between the first two tries."""
OPENED = {"log": "/logs/", "lock": "/runner.lock"}
STARTED = {
    "agent": b"loopwright-agent",
    "git": b"git",
    "gate": b"/bin/sh",
    "watch": b"watchhost.py",
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


def refuse(place: str, refusals: Refusals) -> None:
    """Put the refusals before the calls of a place."""
    if place in STARTED:
        _posixsubprocess.fork_exec = _started(STARTED[place], refusals)
        import subprocess  # noqa: PLC0415  # it keeps a name of its own

        subprocess._fork_exec = _posixsubprocess.fork_exec  # type: ignore[attr-defined]
    elif place in OPENED:
        os.open = _opened(OPENED[place], refusals)
    elif place == "prompt":
        os.memfd_create = _made(refusals)
    elif place == "thread":
        threading._start_new_thread = _threaded(refusals)  # type: ignore[attr-defined]
    elif place == "sqlite":
        sqlite3.connect = _connected(refusals)  # type: ignore[assignment]
    else:
        socket.socket.accept = _accepted(refusals)  # type: ignore[method-assign]


def _started(program: bytes, refusals: Refusals) -> Callable[..., Any]:
    real = _posixsubprocess.fork_exec

    def start(args: Any, *more: Any) -> Any:
        words = b"\0".join(map(os.fsencode, args))
        named = program in words if program != b"git" else words.startswith(b"git\0")
        if named and refusals.due():
            raise refusals.error()
        return real(args, *more)

    return start


def _opened(part: str, refusals: Refusals) -> Callable[..., int]:
    real = os.open

    def opened(path: Any, *more: Any, **named: Any) -> int:
        if isinstance(path, (str, os.PathLike)) and part in os.fspath(path) and refusals.due():
            raise refusals.error()
        return real(path, *more, **named)

    return opened


def _made(refusals: Refusals) -> Callable[..., int]:
    real = os.memfd_create

    def made(name: str, *more: Any) -> int:
        if name == "prompt" and refusals.due():
            raise refusals.error()
        return real(name, *more)

    return made


def _threaded(refusals: Refusals) -> Callable[..., int]:
    real = threading._start_new_thread  # type: ignore[attr-defined]

    def start(*args: Any) -> int:
        if refusals.due():
            raise RuntimeError("can't start new thread")
        started: int = real(*args)
        return started

    return start


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


def _accepted(refusals: Refusals) -> Callable[..., Any]:
    real = socket.socket.accept

    def accept(self: socket.socket) -> Any:
        if refusals.due():
            raise refusals.error()
        return real(self)

    return accept


if __name__ == "__main__":
    where, which, first, times, *words = sys.argv[1:]
    shortfall.FIRST = boundary.FIRST = AGAIN
    refuse(where, Refusals(getattr(errno, which), int(first), int(times)))
    sys.exit(main(words))
