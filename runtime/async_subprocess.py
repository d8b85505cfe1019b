"""Runs one short command to its end without a thread or a pipe.

Owns starting, awaiting and terminating commands that the runner itself runs, such as git. It must
not be used for agents, whose children need more care.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

TERM_GRACE = 2.0
"""Seconds after SIGTERM in which a command may remove its lock files, before SIGKILL."""
_LOOKS = 0.01
"""Seconds between two polls of a process without a pidfd."""


@dataclass(frozen=True, slots=True)
class CompletedRun:
    """How a command ended and what it wrote."""

    code: int
    stdout: bytes
    stderr: bytes
    timed_out: bool = False


async def run_to_end(
    command: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    data: bytes | None,
    seconds: float,
) -> CompletedRun:
    """Run the command in its own session; OSError when it cannot start.

    If the wait ends early (time limit, cancellation), the command is terminated first.
    """
    # Files instead of pipes: nothing to read meanwhile, and a process that the command left
    # behind cannot keep a pipe open.
    with _scratch(data) as stdin, _scratch() as out, _scratch() as err:
        process = subprocess.Popen(  # noqa: ASYNC220  # vfork: 0.4 ms, and no thread per child
            command,
            cwd=cwd,
            env=env,
            stdin=stdin,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        timed_out = False
        try:
            async with asyncio.timeout(seconds):
                await _exited(process)
        except TimeoutError:
            timed_out = True
            await _terminate(process)
        except BaseException:
            await _terminate(process)
            raise
        return CompletedRun(process.returncode, _content(out), _content(err), timed_out)


def _scratch(data: bytes | None = None) -> IO[bytes]:
    """Return an unnamed file; in memory if the platform supports it."""
    if sys.platform == "linux":
        handle = os.fdopen(os.memfd_create("shortrun"), "w+b", buffering=0)
    else:
        handle = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  # the caller closes it
    if data:
        handle.write(data)
        handle.seek(0)
    return handle


def _content(handle: IO[bytes]) -> bytes:
    handle.seek(0)
    return handle.read()


async def _exited(process: subprocess.Popen[bytes], *, reap: bool = True) -> None:
    """Wait for the end of the process: by pidfd if available, else by polling."""
    try:
        pidfd = os.pidfd_open(process.pid)
    except (AttributeError, OSError):  # another system, or no descriptor is left
        while process.poll() is None:  # noqa: ASYNC110  # nothing else tells of it
            await asyncio.sleep(_LOOKS)
        return
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(pidfd, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)
    if reap:
        process.wait()


async def _terminate(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        async with asyncio.timeout(TERM_GRACE):
            await _exited(process, reap=False)
    except (TimeoutError, asyncio.CancelledError):
        pass
    finally:
        # Not reaped yet, so its pid is not reused: this also kills what it started.
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
