"""What the kernel says about processes: parents, sessions, start times, processor time, marks.

The one place that reads `/proc`, or `ps` where there is no `/proc`. It must not signal, reap or
judge anything: whoever reads a row decides what it means.
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MARK_VARIABLE = "LOOPWRIGHT_SPAWN_ID"
"""The variable that marks a process, and all it starts, as belonging to one attempt."""

_MARK = re.compile(rb"(?:\A|\0)" + MARK_VARIABLE.encode() + rb"=([^\0]*)")
_PS = ("ps", "-axo", "pid=,ppid=,pgid=,state=,time=,lstart=")
_PS_FIELDS = 10
_DEAD = frozenset({b"Z", b"X", b"x"})
_LINUX = sys.platform == "linux"


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

    def family(
        self, roots: Iterable[int], sid: int | None, seen: set[tuple[int, int]]
    ) -> dict[int, Row]:
        """Find the processes below `roots`, in session `sid`, or below one seen here earlier.

        `seen` is brought up to date: a process that was once below a root stays in the family
        when its parents are gone.
        """
        todo = [pid for pid in roots if pid in self.rows]
        todo += [row.pid for row in self.rows.values() if row.sid == sid]
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


def _read(path: str, size: int = 1024) -> bytes | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(descriptor, size)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _read_whole(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as stream:  # noqa: PTH123  # read for every process
            return stream.read()
    except OSError:
        return b""


def parse_stat(pid: int, data: bytes) -> Row:
    """Read `/proc/<pid>/stat`; the name in brackets may hold spaces and brackets itself."""
    field = data[data.rindex(b")") + 2 :].split()
    return Row(
        pid=pid,
        ppid=int(field[1]),
        pgid=int(field[2]),
        sid=int(field[3]),
        start=int(field[19]),
        ticks=sum(map(int, field[11:15])),
        # A first thread that has ended looks dead too, while the other threads work on.
        dead=field[0] in _DEAD and int(field[17]) <= 1,
    )


def parse_ps(text: str, instant: Callable[[str], int]) -> list[Row]:
    """Read the output of `ps`; the group stands in for the session, which `ps` may not tell."""
    rows = []
    for line in text.splitlines():
        field = line.split()
        if len(field) < _PS_FIELDS:
            continue
        pid, ppid, pgid = map(int, field[:3])
        start = instant(" ".join(field[5:10]))
        ticks = _centiseconds(field[4])
        rows.append(Row(pid, ppid, pgid, pgid, start, ticks, dead=field[3][0] == "Z"))
    return rows


def _centiseconds(clock: str) -> int:
    days, _, rest = clock.rpartition("-")
    total = 0.0
    for part in rest.split(":"):
        total = total * 60 + float(part)
    return round((int(days or 0) * 86_400 + total) * 100)


def _run_ps(*more: str) -> str:
    environment = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}
    done = subprocess.run(
        [*_PS, *more],
        capture_output=True,
        text=True,
        errors="replace",
        env=environment,
        check=False,
    )
    return done.stdout


def _instant(text: str) -> int:
    import calendar  # noqa: PLC0415  # only where there is no /proc
    import time  # noqa: PLC0415  # as above

    return calendar.timegm(time.strptime(text, "%a %b %d %H:%M:%S %Y"))


def read_table() -> Table:
    """Read all processes in one pass."""
    if not _LINUX:
        return Table(parse_ps(_run_ps(), _instant))
    return Table(
        parse_stat(int(name), data)
        for name in os.listdir("/proc")  # noqa: PTH208  # one string per process, no Path objects
        if name[0] <= "9" and (data := _read(f"/proc/{name}/stat"))
    )


def read_row(pid: int) -> Row | None:
    """Read one process; None when there is none of that number."""
    if not _LINUX:
        return Table(parse_ps(_run_ps("-p", str(pid)), _instant)).rows.get(pid)
    data = _read(f"/proc/{pid}/stat")
    return parse_stat(pid, data) if data else None


@functools.cache
def boot_id() -> str:
    """Name the present boot: process numbers and start times mean nothing in another one."""
    if _LINUX:
        return (_read("/proc/sys/kernel/random/boot_id") or b"").decode().strip()
    done = subprocess.run(
        ["sysctl", "-n", "kern.bootsessionuuid"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


def read_mark(pid: int) -> str | None:
    """Read the mark a process was started with; None when it has none or may not be looked at."""
    found = _MARK.search(_read_whole(f"/proc/{pid}/environ")) if _LINUX else None
    return found[1].decode(errors="replace") if found else None


def read_marks() -> dict[int, str]:
    """Read the marks of all processes of this user; without `/proc` none can be read."""
    if not _LINUX:
        return {}
    pids = [int(name) for name in os.listdir("/proc") if name[0] <= "9"]  # noqa: PTH208  # names only
    return {pid: mark for pid in pids if (mark := read_mark(pid)) is not None}


def own_children() -> list[int]:
    """List the direct children of this process, those of all its threads, cheaply."""
    if not _LINUX:
        return read_table().children.get(os.getpid(), [])
    pids: list[int] = []
    for thread in os.listdir("/proc/self/task"):  # noqa: PTH208  # names only
        data = _read_whole(f"/proc/self/task/{thread}/children")
        pids += map(int, data.split())
    return pids
