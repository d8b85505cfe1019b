"""Whether a process belongs to an attempt or a gate, even if it changed its environment.

Owns the evidence: its ancestors up to the runner, and what each of them was started with (mark,
control group, lineage tag). Must not decide what follows from it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime import proc_table
from runtime.processes import lineage_tag

if TYPE_CHECKING:
    from collections.abc import Callable

UNNAMED = "?"
"""The owner of a process that belongs to some attempt, but to which is unknown."""
_MOST = 200
"""Limit on the ancestors that are examined."""


@dataclass(frozen=True, slots=True)
class RunnerIdentity:
    """The runner that is asked about."""

    pid: int
    start: int | None = None


def mark_around(pid: int, runner: RunnerIdentity | None, is_ours: Callable[[str], bool]) -> str:
    """Return the mark of the attempt or gate that a process belongs to; empty if to none.

    A descendant of the runner belongs to one if it carries marks that the runner lacks. Any other
    process, or if the runner is gone, belongs to one by a mark that `is_ours` accepts.
    """
    marks: list[str] = []
    signs: list[tuple[object, ...]] = []
    for row in proc_table.chain(pid, most=_MOST):
        if runner is not None and row.pid == runner.pid and runner.start in (None, row.start):
            own = _signs(row.pid)
            if any(each != own for each in signs):
                mine = set(_marks(row.pid))
                return next((mark for mark in marks if mark not in mine), UNNAMED)
            return ""
        found = _marks(row.pid)
        if mark := next(filter(is_ours, found), ""):
            return mark
        marks += found
        signs.append(_signs(row.pid))
    return ""


def peer_mark(client_port: int, server_port: int) -> str:
    """Return the mark of the attempt or gate below this process that connects from this port.

    Empty for a process that is not a descendant of this one, or that cannot be inspected.
    """
    children = proc_table.own_children()
    wanted = proc_table.sockets_of(client_port, server_port) if children else set()
    if not wanted:
        return ""
    me = RunnerIdentity(os.getpid())
    for pid in proc_table.read_below(children):
        if wanted & proc_table.open_sockets(pid):
            return mark_around(pid, me, lambda _mark: False)
    return ""


def _marks(pid: int) -> tuple[str, ...]:
    mark = proc_table.find_mark(pid)
    return (*((mark,) if mark else ()), *proc_table.group_marks(pid))


def _signs(pid: int) -> tuple[object, ...]:
    return (*_marks(pid), lineage_tag.signs(pid))
