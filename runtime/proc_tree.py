"""Processes as plain values: one row each, and a table to find process trees in.

Pure: it must not read anything from the machine; see `proc_table.py`.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class ProcessRow(NamedTuple):
    """One process at one moment; `start` is fixed for its life, so (pid, start) names it."""

    pid: int
    ppid: int
    pgid: int
    sid: int
    start: int
    ticks: int
    """Processor time, its own and that of the children it has waited for."""
    dead: bool
    """It has ended and only waits to be reaped."""
    stopped: bool = False
    """It is stopped until it gets SIGCONT."""
    waiting: bool = False
    """It is in uninterruptible sleep, for example until a child has called exec."""
    resident: int = 0
    """Resident bytes, including memory shared with others."""


def unseen_row(pid: int) -> ProcessRow:
    """Stand for a process that is there but ends and starts too fast to be read."""
    return ProcessRow(pid, 0, 0, 0, 0, 0, dead=True)


class Table:
    """All processes at one moment."""

    def __init__(self, rows: Iterable[ProcessRow]) -> None:
        self.rows: dict[int, ProcessRow] = {row.pid: row for row in rows}

    @functools.cached_property
    def children(self) -> dict[int, list[int]]:
        """The pids of the children of each process that has any."""
        found: dict[int, list[int]] = {}
        for row in self.rows.values():
            found.setdefault(row.ppid, []).append(row.pid)
        return found

    @functools.cached_property
    def sessions(self) -> dict[int, list[int]]:
        """The pids of the members of each session."""
        found: dict[int, list[int]] = {}
        for row in self.rows.values():
            found.setdefault(row.sid, []).append(row.pid)
        return found

    def family(
        self, roots: Iterable[int], sid: int | None, seen: set[tuple[int, int]]
    ) -> dict[int, ProcessRow]:
        """Find the processes below `roots`, in session `sid`, or below one seen here earlier.

        `seen` is updated: a process that was once below a root stays a member when its parents are
        gone.
        """
        todo = [pid for pid in roots if pid in self.rows]
        todo += self.sessions.get(sid, ()) if sid is not None else ()
        todo += [pid for pid, start in seen if self._is(pid, start)]
        members: dict[int, ProcessRow] = {}
        while todo:
            pid = todo.pop()
            if pid not in members:
                members[pid] = self.rows[pid]
                todo += self.children.get(pid, ())
        seen.clear()
        seen.update((row.pid, row.start) for row in members.values())
        return members

    def _is(self, pid: int, start: int) -> bool:
        row = self.rows.get(pid)
        return row is not None and row.start == start
