"""Starts a runner that goes on without its terminal, and waits until it is ready.

Owns the file that its output goes to. What it runs is the same command, in a session of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.background.readiness import VARIABLE, ReadinessSocket
from orchestrator.terminal.text import now, stamp

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

CAP = 5 * 1024 * 1024
"""Bytes of a log, above which the next start begins a new one and keeps one older."""
PATIENCE = 60.0
"""Seconds for the runner to be ready; a machine short of something takes long."""
STOP_PATIENCE = 10.0
_LOOK_EVERY = 0.1
_LAST_WORDS = 16 * 1024
"""Bytes of its output that are shown when it ended at once."""


@dataclass(frozen=True, slots=True)
class DetachedStart:
    """What became of a start in the background."""

    pid: int
    status: str | None = None
    """What it says of itself; None while it is not ready."""
    exit_code: int | None = None
    """Its exit code where it has ended already."""
    output: str = ""
    """What it said, where it has ended already."""


def start(args: Sequence[str], log: Path, *, environ: Mapping[str, str]) -> DetachedStart:
    """Start `loopwright ARGS` in the background; its output is added to the log."""
    descriptor = _opened(log)
    try:
        os.write(descriptor, f"-- {stamp(now())} loopwright {args[0]}\n".encode())
        began = os.fstat(descriptor).st_size
        with ReadinessSocket() as socket:
            process = subprocess.Popen(
                (sys.executable, "-P", "-m", "orchestrator.cli.main", *args),
                stdin=subprocess.DEVNULL,
                stdout=descriptor,
                stderr=descriptor,
                env={**environ, VARIABLE: socket.address},
                start_new_session=True,
            )
            try:
                status = _ready(process, socket)
            except BaseException:
                _stop(process)
                raise
    finally:
        os.close(descriptor)
    if process.returncode is None:
        return DetachedStart(process.pid, status)
    # A program that a signal ended has the code that shells give it.
    code = process.returncode if process.returncode >= 0 else 128 - process.returncode
    return DetachedStart(process.pid, status, code, _written(log, began))


def _opened(log: Path) -> int:
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(OSError):
        if log.stat().st_size > CAP:
            log.replace(log.with_name(f"{log.name}.1"))
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(log, flags, 0o600)


def _ready(process: subprocess.Popen[bytes], socket: ReadinessSocket) -> str | None:
    end = time.monotonic() + PATIENCE
    status = None
    while status is None and process.poll() is None and time.monotonic() < end:
        status = socket.status(_LOOK_EVERY)
    return status


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End it cleanly: who starts it has changed his mind."""
    process.terminate()
    with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
        process.wait(STOP_PATIENCE)


def _written(log: Path, since: int) -> str:
    with log.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(since, size - _LAST_WORDS))
        return file.read().decode(errors="replace").strip()
