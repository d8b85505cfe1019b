"""Whether a process belongs to an attempt or a gate, whatever it did to its own environment.

Owns the signs by which that is seen: the processes around it up to the runner, and what each of
them was started with (mark, control group, lineage). Must not decide what follows from it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime import lineage, proctable

if TYPE_CHECKING:
    from collections.abc import Callable

UNNAMED = "?"
"""Who a process belongs to if it shows only that it belongs to somebody."""
_MOST = 200
"""Processes above one another that are looked at."""


@dataclass(frozen=True, slots=True)
class Runner:
    """The runner that is asked about."""

    pid: int
    start: int | None = None


def mark_around(pid: int, runner: Runner | None, is_ours: Callable[[str], bool]) -> str:
    """Return the mark of the attempt or gate that a process belongs to; nothing if to none.

    Below the runner whatever bears a sign that the runner has not belongs to one. Elsewhere, or if
    the runner is gone, a mark that `is_ours` does.
    """
    marks: list[str] = []
    signs: list[tuple[object, ...]] = []
    for row in proctable.chain(pid, most=_MOST):
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
    """Return the mark of the attempt or gate below this process that speaks from this port.

    A process that is not below this one, or that nobody can look into, is nobody's.
    """
    children = proctable.own_children()
    wanted = proctable.sockets_of(client_port, server_port) if children else set()
    if not wanted:
        return ""
    me = Runner(os.getpid())
    for pid in proctable.read_below(children):
        if wanted & proctable.open_sockets(pid):
            return mark_around(pid, me, lambda _mark: False)
    return ""


def _marks(pid: int) -> tuple[str, ...]:
    mark = proctable.find_mark(pid)
    return (*((mark,) if mark else ()), *proctable.group_marks(pid))


def _signs(pid: int) -> tuple[object, ...]:
    return (*_marks(pid), lineage.signs(pid))
