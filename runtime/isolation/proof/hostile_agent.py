"""A hostile agent: each function is one attempt to escape from a sandbox.

A script, run inside a sandbox and outside: `hostile_agent.py NAME FACTS`, the facts as JSON. It
prints what it got, and exits with 0 only if the attempt seems to have worked. It uses only the
standard library and must do no harm if it works.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_PTRACE_SEIZE, _PTRACE_DETACH = 0x4206, 17
_SECONDS = 5.0
_DAEMON_LIFE = 60
_NOWHERE = ("192.0.2.1", 9)
"""An address that nobody has; to name it as a destination sends nothing."""


def read_environment(facts: dict[str, Any]) -> bool:
    """Read the environment of every process in sight."""
    del facts
    for pid in _pids():
        try:
            _got((Path("/proc") / str(pid) / "environ").read_bytes())
        except OSError as error:
            _failed(error)
    return False


def kill(facts: dict[str, Any]) -> bool:
    """End a process of the runner."""
    os.kill(facts["pid"], signal.SIGKILL)
    return True


def trace(facts: dict[str, Any]) -> bool:
    """Attach to a process of the runner as a debugger does."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = (ctypes.c_long,) * 4
    for pid in _pids():
        try:
            command = (Path("/proc") / str(pid) / "cmdline").read_bytes()
        except OSError:  # it ended meanwhile
            continue
        if f"victim.py\0{facts['name']}\0".encode() in command:
            if libc.ptrace(_PTRACE_SEIZE, pid, 0, 0) == 0:
                libc.ptrace(_PTRACE_DETACH, pid, 0, 0)
                return True
            _failed(OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno())))
    return False


def read(facts: dict[str, Any]) -> bool:
    """Read a file."""
    _got(Path(facts["path"]).read_bytes())
    return True


def write(facts: dict[str, Any]) -> bool:
    """Write into a file."""
    with Path(facts["path"]).open("ab") as stream:
        stream.write(b"written by an attempt\n")
    return True


def network(facts: dict[str, Any]) -> bool:
    """Find a way to any other machine."""
    del facts
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        end.connect(_NOWHERE)
    return True


def loopback(facts: dict[str, Any]) -> bool:
    """Talk to a service that listens on this machine only."""
    return _talk(socket.AF_INET, ("127.0.0.1", facts["port"]))


def abstract(facts: dict[str, Any]) -> bool:
    """Talk to a service by an abstract socket."""
    return _talk(socket.AF_UNIX, "\0" + facts["name"])


def pathname(facts: dict[str, Any]) -> bool:
    """Talk to a service by a socket in a folder."""
    return _talk(socket.AF_UNIX, facts["path"])


def daemon(facts: dict[str, Any]) -> bool:
    """Become a daemon without any marks, holding a lock that proves it is alive."""
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        if os.fork() == 0:
            _live_on(Path(facts["path"]), tell)
        os._exit(0)
    os.close(tell)
    os.waitpid(child, 0)
    os.read(ready, 1)
    print("ready", flush=True)  # noqa: T201  # the starter waits for this
    time.sleep(_DAEMON_LIFE)
    return True


def privileges(facts: dict[str, Any]) -> bool:
    """Check whether a set-uid program would be effective."""
    del facts
    status = Path("/proc/self/status").read_text()
    return "\nNoNewPrivs:\t0\n" in status


def kernel(facts: dict[str, Any]) -> bool:
    """Open a kernel setting that starts programs outside of every sandbox."""
    del facts
    os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))
    return True


def _live_on(path: Path, tell: int) -> None:
    os.environ.clear()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.alarm(_DAEMON_LIFE)
    for handle in (0, 1, 2):
        os.dup2(os.open(os.devnull, os.O_RDWR), handle)
    with path.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        stream.write(f"{os.getpid()}\n")
        stream.flush()
        os.write(tell, b".")
        os.close(tell)
        while True:
            signal.pause()


def _talk(family: int, address: Any) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as end:
        end.settimeout(_SECONDS)
        end.connect(address)
        _got(end.recv(1024))
    return True


def _pids() -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            yield int(entry.name)


def _got(data: bytes) -> None:
    sys.stdout.buffer.write(data + b"\n")


def _failed(error: OSError) -> None:
    print(error.strerror, file=sys.stderr)  # noqa: T201  # a script


_ATTEMPTS = {
    each.__name__: each
    for each in (
        *(read_environment, kill, trace, read, write, network, loopback, abstract, pathname),
        *(daemon, privileges, kernel),
    )
}


def main() -> int:
    """Make the attempt that is named."""
    try:
        return 0 if _ATTEMPTS[sys.argv[1]](json.loads(sys.argv[2])) else 1
    except OSError as error:
        _failed(error)
        return 1


if __name__ == "__main__":
    sys.exit(main())
