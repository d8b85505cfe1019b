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
from typing import TYPE_CHECKING

from runtime import proctable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from runtime.proctable import Row

_PR_SET_CHILD_SUBREAPER = 36
_KILL_PATIENCE = 5.0
"""Seconds of repeated SIGKILL after which what still lives is reported as a survivor."""
_KILL_STEP = 0.05
_STEP = 0.005


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


async def end(
    find: Callable[[], Mapping[int, Row]], grace: float, killed: set[tuple[int, int]]
) -> tuple[int, ...]:
    """End all that `find` finds: TERM, CONT, grace, then KILL until nothing is found any more.

    `find` is asked again and again, because a tree may grow while it is being ended; it returns
    living processes only. Who had to be killed is added to `killed`, who survived is returned.
    """
    loop = asyncio.get_running_loop()
    last_call = loop.time() + grace
    give_up = last_call + _KILL_PATIENCE
    told: set[tuple[int, int, int]] = set()
    while members := find():
        if (left := last_call - loop.time()) > 0:
            _tell(members.values(), told)
        elif loop.time() > give_up:
            return tuple(sorted(members))
        else:
            left = _KILL_STEP
            killed.update(
                (row.pid, row.start) for row in members.values() if send(row, signal.SIGKILL)
            )
        await _some_gone(members.values(), left)
    return ()


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


class Remnant:
    """What is left of a process that an earlier runner started.

    Nothing of it is a descendant of this process, so its parts are known by the leader's identity,
    by its session while that is proved to be the old one, and by their mark.
    """

    def __init__(self, identity: ProcessIdentity) -> None:
        self._identity = identity
        self._seen: set[tuple[int, int]] = set()

    def find(self) -> dict[int, Row]:
        """Find what still lives of it; nothing when in doubt, and nothing of another boot."""
        identity = self._identity
        if identity.boot_id != proctable.boot_id():
            return {}
        table = proctable.read_table()
        marks = proctable.read_marks()
        leader = table.rows.get(identity.pid)
        genuine = (
            leader is not None
            and leader.start == identity.start_time
            and marks.get(leader.pid, identity.mark) == identity.mark
        )
        # The number of the leader, on a process that is not the leader, is proof of nothing.
        roots = [
            pid
            for pid, mark in marks.items()
            if mark == identity.mark
            and (row := table.rows.get(pid)) is not None
            and row.start >= identity.start_time
            and (pid != identity.pid or genuine)
        ]
        if genuine:
            roots.append(identity.pid)
        # A number stays taken as long as its session has a member: one proved member proves all.
        proved = genuine or any(table.rows[pid].sid == identity.pid for pid in roots)
        members = table.family(roots, identity.pid if proved else None, self._seen)
        spared = _line_of_descent(table)
        return {pid: row for pid, row in members.items() if not row.dead and pid not in spared}


def find_marked(mark: str | None = None) -> tuple[ProcessIdentity, ...]:
    """Find the living processes with this mark, or with any, this process and its parents apart."""
    table = proctable.read_table()
    spared = _line_of_descent(table)
    return tuple(
        ProcessIdentity(pid, row.start, proctable.boot_id(), found)
        for pid, found in proctable.read_marks().items()
        if mark in (None, found)
        and pid not in spared
        and (row := table.rows.get(pid)) is not None
        and not row.dead
    )


def _line_of_descent(table: proctable.Table) -> set[int]:
    """Collect this process and those it descends from: it must never end itself."""
    line: set[int] = set()
    row = table.rows.get(os.getpid())
    while row is not None and row.pid not in line:
        line.add(row.pid)
        row = table.rows.get(row.ppid)
    return line
