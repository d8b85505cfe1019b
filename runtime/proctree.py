"""Processes as plain values: one row each, and a table in which families are found.

Pure: it must not read anything from the machine; see `proctable.py`.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class Row(NamedTuple):
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
    """It does nothing until it gets a CONT signal."""
    waiting: bool = False
    """It waits in the kernel and cannot be interrupted, such as for a child that is to exec."""
    resident: int = 0
    """Bytes of memory, those it shares with others included."""


class Table:
    """All processes at one moment."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows: dict[int, Row] = {row.pid: row for row in rows}

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
    ) -> dict[int, Row]:
        """Find the processes below `roots`, in session `sid`, or below one seen here earlier.

        `seen` is brought up to date: a process that was once below a root stays in the family
        when its parents are gone.
        """
        todo = [pid for pid in roots if pid in self.rows]
        todo += self.sessions.get(sid, ()) if sid is not None else ()
        todo += [pid for pid, start in seen if self._is(pid, start)]
        members: dict[int, Row] = {}
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
