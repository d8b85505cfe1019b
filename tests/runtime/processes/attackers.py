"""Programs that try to outlive their end or to take more than they may; run as a script.

`attackers.py NAME FOLDER` takes an exclusive lock on FOLDER/lock, which all that descends from it
inherits and holds: nobody can take that lock while one of them is alive. It writes FOLDER/up when
the attack stands, and gives up by itself when FOLDER/over appears or its time is over.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time

LIFETIME = 60.0
MEGABYTE = 1 << 20
_END = time.monotonic() + LIFETIME


def _stand() -> None:
    os.close(os.open("up", os.O_CREAT | os.O_WRONLY))


def _is_over() -> bool:
    return time.monotonic() > _END or os.path.exists("over")  # noqa: PTH110  # asked by comets


def _stay() -> None:
    while not _is_over():
        time.sleep(0.02)
    os._exit(0)


def _child() -> bool:
    return os.fork() == 0


def _daemon() -> None:
    """Be told that it stands before going on: a sandbox ends with its first process."""
    if _child():
        os.setsid()
        if _child():
            _stand()
            _stay()
        os._exit(0)
    os.wait()
    while not (os.path.exists("up") or _is_over()):  # noqa: PTH110  # asked often
        time.sleep(0.001)


def daemon() -> None:
    """Start a daemon in a session of its own, without any environment."""
    _daemon()
    _stay()


def leaderless() -> None:
    """Leave such a daemon behind and end."""
    _daemon()


def deaf() -> None:
    """Ignore every polite signal, with a child that does too."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    if _child():
        _stay()
    _stand()
    _stay()


def stopped() -> None:
    """Be stopped, with a child that is stopped too."""
    if _child():
        while not _is_over():
            os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(0)
    _stand()
    os.kill(os.getpid(), signal.SIGSTOP)
    _stay()


def bomb() -> None:
    """Start two hundred processes, half of them in sessions of their own; take what is given."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for number in range(200):
        try:
            if _child():
                if number % 2:
                    os.setsid()
                _stay()
        except BlockingIOError:
            break
    _stand()
    _stay()


def comet() -> None:
    """Fork and end for ever, each time in a new session."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _stand()
    while not _is_over():
        try:
            child = os.fork()
        except BlockingIOError:
            continue  # as many as are allowed have not been reaped yet
        if child:
            os._exit(0)
        os.setsid()


def comets() -> None:
    """Be eight comets."""
    for _ in range(3):
        os.fork()
    comet()


def hog() -> None:
    """Take 200 MB alone."""
    taken = [b"x" * MEGABYTE for _ in range(200)]
    _stand()
    _stay()
    del taken


def herd() -> None:
    """Take 200 MB by eight processes that each take little."""
    for _ in range(3):
        os.fork()
    taken = b"x" * (25 * MEGABYTE)
    os.close(os.open(f"taken-{os.getpid()}", os.O_CREAT | os.O_WRONLY))
    if len([name for name in os.listdir() if name.startswith("taken-")]) == 8:  # noqa: PTH208  # names
        _stand()
    _stay()
    del taken


def hopper() -> None:
    """Use up a core, but as another process every few milliseconds; note each piece of work."""
    work = os.open("work", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    _stand()
    while not _is_over():
        for _ in range(20):
            sum(range(5000))
            os.write(work, b".")
        if os.fork():
            os._exit(0)


def files() -> None:
    """Open a thousand files."""
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(1000)]
    _stand()
    _stay()
    del opened


def flood() -> None:
    """Write without end, in lines."""
    _write(b"x" * 127 + b"\n")


def river() -> None:
    """Write without end, and never end a line."""
    _write(b"x" * 128)


def _write(piece: bytes) -> None:
    for _ in range(int(os.environ.get("MEGABYTES", "64"))):
        os.write(1, piece * (MEGABYTE // len(piece)))
    _stand()


def holder() -> None:
    """End, and leave a daemon that keeps the output open."""
    _daemon()


def main(name: str, folder: str, *bare: str) -> None:
    """Clear the environment, take the lock, attack."""
    if not bare and name in {"daemon", "leaderless"}:
        os.execve(sys.executable, [sys.executable, "-S", *sys.argv, "bare"], {})  # noqa: S606  # the attack
    os.chdir(folder)
    lock = os.open("lock", os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    globals()[name]()


if __name__ == "__main__":
    main(*sys.argv[1:])
