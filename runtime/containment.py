"""Ending whole process trees: whom to signal, in which order, and the proof that nothing is left.

It never signals a process by its bare number: every signal names (pid, start time), is checked
against the kernel, and goes through a pidfd where there is one. It must not start processes and
must not decide when one has to end.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from runtime import proctable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from runtime.proctree import Row

_PR_SET_CHILD_SUBREAPER = 36
_KILL_PATIENCE = 5.0
"""Seconds of repeated SIGKILL after which what still lives is reported as a survivor."""
_KILL_STEP = 0.05
_STEP = 0.005
_LOOKS = 2


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process beyond doubt: number, start time and boot, and the mark it was started with."""

    pid: int
    start_time: int
    boot_id: str
    mark: str


def become_subreaper() -> bool:
    """Make this process the parent of its orphaned descendants; False where that is impossible.

    It holds for the whole process and for good: also orphans of processes that other code of this
    process started become its children.
    """
    if sys.platform != "linux" or not Path("/proc/thread-self/children").exists():
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def open_pidfd(pid: int) -> int | None:
    """Open a handle on a process; None where the kernel, or a filter in front of it, has none."""
    if sys.platform != "linux":
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def send(row: Row, number: signal.Signals) -> bool:
    """Signal that very process; False when it is gone, is another one by now, or may not be."""
    handle = open_pidfd(row.pid)
    try:
        now = proctable.read_row(row.pid)
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


class Quarry(Protocol):
    """What is to be ended, whatever belongs to it at the moment."""

    def find(self) -> Mapping[int, Row]:
        """Find what is alive of it.

        Only dead ones mean: something is alive, but was gone whenever it was looked at.
        """
        ...

    def strike(self) -> set[int]:
        """Kill at once whatever can be met, and tell whom."""
        ...


async def end(quarry: Quarry, grace: float, killed: set[tuple[int, int]]) -> tuple[int, ...]:
    """End the quarry: TERM, CONT, grace, then KILL until nothing is found any more.

    It is looked for again and again, because a tree may grow while it is being ended. Who had to
    be killed is added to `killed`, who survived is returned.
    """
    loop = asyncio.get_running_loop()
    last_call = loop.time() + grace
    give_up = last_call + _KILL_PATIENCE
    told: set[tuple[int, int, int]] = set()
    while members := quarry.find():
        left = last_call - loop.time()
        # Who ends and starts itself anew for ever hears no TERM and needs no grace.
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
            killed.update((pid, 0) for pid in quarry.strike() if restless or pid not in met)
        await _some_gone(members.values(), left)
    return ()


async def hold(find: Callable[[], Mapping[int, Row]], held: set[tuple[int, int]]) -> bool:
    """Stop all that `find` finds, until two looks in a row find nobody running; False in vain.

    Whom it stopped is added to `held`: who was stopped before is not ours to wake.
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


def _is_held(row: Row, held: set[tuple[int, int]]) -> bool:
    # Who was told while it waits in the kernel stops before it does anything else. A shell may
    # wait there for its child to exec, and that child be stopped just before.
    return row.stopped or row.dead or (row.waiting and (row.pid, row.start) in held)


def release(rows: Collection[Row], held: set[tuple[int, int]]) -> None:
    """Wake those that were held; parents first, as with every signal."""
    for row in sorted(rows, key=lambda row: (row.start, row.pid)):
        if (row.pid, row.start) in held:
            send(row, signal.SIGCONT)
    held.clear()


def _tell(rows: Collection[Row], told: set[tuple[int, int, int]]) -> None:
    # Parents first: an agent is to hear of its end before its tools fail under it.
    for row in sorted(rows, key=lambda row: (row.start, row.pid)):
        # Who loses its parent is told again: TERM gets lost between a shell's fork and exec.
        telling = (row.pid, row.start, row.ppid)
        if telling not in told:
            told.add(telling)
            send(row, signal.SIGTERM)
            # A stopped process takes no notice of TERM before it is woken.
            send(row, signal.SIGCONT)


async def _some_gone(rows: Collection[Row], timeout: float) -> None:  # noqa: ASYNC109  # not an error
    """Wait until all have ended, or shortly after the first did, at most `timeout` seconds."""
    loop = asyncio.get_running_loop()
    with ExitStack() as handles:
        waiting: set[int] = set()
        for row in rows:
            if (handle := open_pidfd(row.pid)) is None:
                continue
            handles.callback(os.close, handle)
            waiting.add(handle)
        if len(waiting) < len(rows):
            # Some are gone already, or there are no handles: look again soon.
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
    """Take a dead child off the process table, if it still is there."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return
