"""Terminating whole process trees: which signals, in which order, and proof that nothing is left.

It must not signal a process by its pid alone: every signal names (pid, start time), is checked
against the kernel, and uses a pidfd where available. It must not start processes nor decide when
one has to end.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from runtime import proc_table

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from runtime.proc_tree import ProcessRow

_PR_SET_CHILD_SUBREAPER = 36
_KILL_PATIENCE = 5.0
"""Seconds of repeated SIGKILL after which what still lives is reported as a survivor."""
_KILL_STEP = 0.05
_STEP = 0.005
_LOOKS = 2


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """The unique identity of a process: pid, start time and boot, and the mark it was given."""

    pid: int
    start_time: int
    boot_id: str
    mark: str
    machine: str = field(default="", compare=False)
    """Which machine started it, where that is known."""


def become_subreaper() -> bool:
    """Make this process the parent of its orphaned descendants; False if that is impossible.

    This is permanent and for the whole process: orphans of processes that its other code started
    become its children, too.
    """
    if sys.platform != "linux" or not Path("/proc/thread-self/children").exists():
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def open_pidfd(pid: int) -> int | None:
    """Open a pidfd; None if the kernel, or a seccomp filter, does not allow it."""
    if sys.platform != "linux":
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def send(row: ProcessRow, number: signal.Signals) -> bool:
    """Signal exactly that process; False if it is gone, its pid was reused, or it is forbidden."""
    handle = open_pidfd(row.pid)
    try:
        now = proc_table.read_row(row.pid)
        if now is None or now.start != row.start or now.dead:
            return False
        if sys.platform == "linux" and handle is not None:
            signal.pidfd_send_signal(handle, number)
        else:
            os.kill(row.pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        if handle is not None:
            os.close(handle)
    return True


class Terminable(Protocol):
    """A process tree to terminate, whose members may change."""

    def find(self) -> Mapping[int, ProcessRow]:
        """Find what is alive of it.

        If all are dead, something is alive, but re-forks too fast to be read.
        """
        ...

    def strike(self) -> set[int]:
        """Kill at once whatever can be found; return the pids."""
        ...


async def end(tree: Terminable, grace: float, killed: set[tuple[int, int]]) -> tuple[int, ...]:
    """Terminate a tree: TERM, CONT, grace, then KILL until nothing is found any more.

    It is searched repeatedly, because a tree may grow meanwhile. Killed processes are added to
    `killed`, survivors are returned.
    """
    loop = asyncio.get_running_loop()
    last_call = loop.time() + grace
    give_up = last_call + _KILL_PATIENCE
    told: set[tuple[int, int, int]] = set()
    while members := tree.find():
        left = last_call - loop.time()
        # A tree that re-forks forever does not handle TERM and needs no grace.
        restless = all(row.dead for row in members.values())
        if left > 0 and not restless:
            _tell(members.values(), told)
        elif loop.time() > give_up:
            return tuple(sorted(members))
        else:
            left = _KILL_STEP
            killed.update(
                (row.pid, row.start) for row in members.values() if send(row, signal.SIGKILL)
            )
            met = {row.pid for row in members.values()}
            killed.update((pid, 0) for pid in tree.strike() if restless or pid not in met)
        await _some_gone(members.values(), left)
    return ()


async def hold(find: Callable[[], Mapping[int, ProcessRow]], held: set[tuple[int, int]]) -> bool:
    """Stop all that `find` finds, until two readings in a row find none running; False if not.

    Processes it stopped are added to `held`: only these are resumed later.
    """
    deadline = asyncio.get_running_loop().time() + _KILL_PATIENCE
    quiet = 0
    while quiet < _LOOKS:
        running = [row for row in find().values() if not _is_held(row, held)]
        quiet = 0 if running else quiet + 1
        for row in running:
            held.add((row.pid, row.start))
            send(row, signal.SIGSTOP)
        if asyncio.get_running_loop().time() > deadline:
            return False
        await asyncio.sleep(_STEP if running else 0)
    return True


def _is_held(row: ProcessRow, held: set[tuple[int, int]]) -> bool:
    # A process that is signalled while it waits in the kernel stops before it does anything
    # else. A shell may wait there for the exec of a child that was stopped just before.
    return row.stopped or row.dead or (row.waiting and (row.pid, row.start) in held)


def release(rows: Collection[ProcessRow], held: set[tuple[int, int]]) -> None:
    """Resume those that were held; parents first, as with every signal."""
    for row in sorted(rows, key=lambda row: (row.start, row.pid)):
        if (row.pid, row.start) in held:
            send(row, signal.SIGCONT)
    held.clear()


def _tell(rows: Collection[ProcessRow], told: set[tuple[int, int, int]]) -> None:
    # Parents first: an agent should get TERM before its tools fail.
    for row in sorted(rows, key=lambda row: (row.start, row.pid)):
        # Signalled again if its parent is gone: TERM gets lost between a shell's fork and exec.
        telling = (row.pid, row.start, row.ppid)
        if telling not in told:
            told.add(telling)
            send(row, signal.SIGTERM)
            # A stopped process handles TERM only after CONT.
            send(row, signal.SIGCONT)


async def _some_gone(rows: Collection[ProcessRow], timeout: float) -> None:  # noqa: ASYNC109  # not an error
    """Wait until all have ended, or shortly after the first has, at most `timeout` seconds."""
    loop = asyncio.get_running_loop()
    with ExitStack() as handles:
        waiting: set[int] = set()
        for row in rows:
            if (handle := open_pidfd(row.pid)) is None:
                continue
            handles.callback(os.close, handle)
            waiting.add(handle)
        if len(waiting) < len(rows):
            # Some are gone already, or there are no handles: search again soon.
            await asyncio.sleep(min(_STEP, timeout))
            return
        done = asyncio.Event()

        def ended(handle: int) -> None:
            loop.remove_reader(handle)
            waiting.discard(handle)
            if waiting:
                loop.call_later(_STEP, done.set)
            else:
                done.set()

        for handle in tuple(waiting):
            loop.add_reader(handle, ended, handle)
        try:
            async with asyncio.timeout(timeout):
                await done.wait()
        except TimeoutError:
            return
        finally:
            for handle in waiting:
                loop.remove_reader(handle)


def reap(pid: int) -> None:
    """Reap a dead child, if nobody has yet."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return
