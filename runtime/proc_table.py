"""What the kernel says about processes: parents, sessions, start times, processor time, marks.

The one place that reads `/proc`, or runs `ps` where there is no `/proc`. It must not signal, reap
or judge anything.
"""

from __future__ import annotations

import errno
import functools
import os
import re
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from runtime.proc_tree import ProcessRow, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MARK_VARIABLE = "LOOPWRIGHT_SPAWN_ID"
"""The variable that marks a process, and all it starts, as belonging to one attempt."""

MACHINE_VARIABLE = "LOOPWRIGHT_MACHINE_ID"
"""The variable beside it, with the name of the machine on which the process was started."""

_MARK = re.compile(rb"(?:\A|\0)" + MARK_VARIABLE.encode() + rb"=([^\0]*)")
_MACHINE = re.compile(rb"(?:\A|\0)" + MACHINE_VARIABLE.encode() + rb"=([^\0]*)")
_MARK_TOLD = re.compile(rb"(?:\A|\s)" + MARK_VARIABLE.encode() + rb"=(\S*)")
_GROUP = re.compile(r"loopwright\.\d+-\d+\.(.*)\.[0-9a-f]{12}\Z")
_PSS = re.compile(rb"\nPss: +(\d+) kB")
_PS = ("ps", "-axo", "pid=,ppid=,pgid=,state=,time=,rss=,lstart=")
_PS_FIELDS = 11
_TICK = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_EXAMPLES = 5
_AT_ONCE = 1 << 16
_DEAD = frozenset({b"Z", b"X", b"x"})
_STOPPED = frozenset({b"T", b"t"})
_PAGE = os.sysconf("SC_PAGE_SIZE")
_LINUX = sys.platform == "linux"
_TASKS = re.compile(rb"^Uid:\s+(\d+).*^Threads:\s+(\d+)", re.DOTALL | re.MULTILINE)
_spare: list[int] = []
"""The descriptor reserved for reading processes."""
T = TypeVar("T")


def keep_spare() -> None:
    """Reserve a descriptor for reading processes when no other is left.

    A process that cannot be read would count as dead, and be left alive.
    """
    if not _spare:
        with suppress(OSError):
            _spare.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))


def _with_spare(look: Callable[[], T]) -> T:
    try:
        return look()
    except OSError as error:
        if error.errno != errno.EMFILE or not _spare:
            raise
    os.close(_spare.pop())
    try:
        return look()
    finally:
        keep_spare()


def _names(folder: str) -> list[str]:
    return _with_spare(lambda: os.listdir(folder))  # noqa: PTH208  # names only


def _read(path: str, size: int = 1024) -> bytes | None:
    try:
        return _with_spare(lambda: _first(path, size))
    except OSError:
        return None


def _first(path: str, size: int) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, size)
    finally:
        os.close(descriptor)


def _all(path: str) -> bytes:
    pieces: list[bytes] = []
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        while piece := os.read(descriptor, _AT_ONCE):
            pieces.append(piece)
    finally:
        os.close(descriptor)
    return b"".join(pieces)


def _read_whole(path: str) -> bytes:
    try:
        return _with_spare(lambda: _all(path))
    except OSError:
        return b""


def parse_stat(pid: int, data: bytes) -> ProcessRow:
    """Parse `/proc/<pid>/stat`; the name in brackets may contain spaces and brackets."""
    field = data[data.rindex(b")") + 2 :].split()
    return ProcessRow(
        pid=pid,
        ppid=int(field[1]),
        pgid=int(field[2]),
        sid=int(field[3]),
        start=int(field[19]),
        ticks=sum(map(int, field[11:15])),
        # If the first thread has ended, a process looks dead although other threads run.
        dead=field[0] in _DEAD and int(field[17]) <= 1,
        stopped=field[0] in _STOPPED,
        waiting=field[0] == b"D",
        resident=int(field[21]) * _PAGE,
    )


def parse_ps(text: str, instant: Callable[[str], int]) -> list[ProcessRow]:
    """Parse the output of `ps`; the group replaces the session, which `ps` may not report."""
    rows = []
    for line in text.splitlines():
        field = line.split()
        if len(field) < _PS_FIELDS:
            continue
        pid, ppid, pgid = map(int, field[:3])
        start = instant(" ".join(field[6:11]))
        state = field[3][0]
        rows.append(
            ProcessRow(
                pid=pid,
                ppid=ppid,
                pgid=pgid,
                sid=pgid,
                start=start,
                ticks=_centiseconds(field[4]),
                dead=state == "Z",
                stopped=state == "T",
                waiting=state in "DU",
                resident=int(field[5]) << 10,
            )
        )
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
        for name in _names("/proc")
        if name[0] <= "9" and (data := _read(f"/proc/{name}/stat"))
    )


def read_row(pid: int) -> ProcessRow | None:
    """Read one process; None when there is none of that number."""
    if not _LINUX:
        return Table(parse_ps(_run_ps("-p", str(pid)), _instant)).rows.get(pid)
    data = _read(f"/proc/{pid}/stat")
    return parse_stat(pid, data) if data else None


def instant() -> int:
    """Return the time in the unit of start times; 0 if those do not use this clock."""
    if sys.platform != "linux":
        return 0
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // _TICK


def start_of(pid: int, before: int, after: int) -> int:
    """Return the start time of a process that was started between two instants; 0 if unknown.

    The kernel blocks readers while the process is loading its program (0.1 to 1 ms). But if both
    instants are in one tick, that is the start time, so 19 of 20 processes need no read.
    """
    if before == after and _ticks_agree():
        return before
    row = read_row(pid)
    return row.start if row else 0


@functools.cache
def _ticks_agree() -> bool:
    """Tell, by an example, whether this kernel takes start times from the clock of `instant`."""
    if not _LINUX:
        return False
    for _ in range(_EXAMPLES):
        before = instant()
        with subprocess.Popen(["/bin/sh", "-c", "read _"], stdin=subprocess.PIPE) as example:
            after = instant()
            row = read_row(example.pid)
        if before == after:
            return row is not None and row.start == before
    return False


@functools.cache
def boot_id() -> str:
    """Return the id of this boot: pids and start times are meaningless in another one."""
    if _LINUX:
        return (_read("/proc/sys/kernel/random/boot_id") or b"").decode().strip()
    done = subprocess.run(
        ["sysctl", "-n", "kern.bootsessionuuid"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


def environment(pid: int) -> bytes:
    """Return the variables that a process was started with, each ended by NUL; Linux only."""
    return _read_whole(f"/proc/{pid}/environ")


def read_mark(pid: int) -> str | None:
    """Read the mark a process was started with; None if it has none or cannot be read."""
    found = _MARK.search(environment(pid)) if _LINUX else None
    return found[1].decode(errors="replace") if found else None


def read_machine(pid: int) -> str:
    """Read which machine started a process; empty where that is not told."""
    found = _MACHINE.search(environment(pid)) if _LINUX else None
    return found[1].decode(errors="replace") if found else ""


def group_marks(pid: int) -> tuple[str, ...]:
    """Read the marks in the names of the control groups around a process, the innermost first."""
    from urllib.parse import unquote  # noqa: PLC0415  # few ask

    if not _LINUX:
        return ()
    names = _read_whole(f"/proc/{pid}/cgroup").decode(errors="replace").split("/")
    found = (_GROUP.match(name) for name in reversed(names))
    return tuple(dict.fromkeys(unquote(each[1]) for each in found if each))


def chain(pid: int, *, most: int) -> list[ProcessRow]:
    """Read a process and its ancestors, up to the first that cannot be read."""
    rows = None if _LINUX else read_table().rows
    found: list[ProcessRow] = []
    while pid > 0 and len(found) < most:
        row = read_row(pid) if rows is None else rows.get(pid)
        if row is None:
            break
        found.append(row)
        pid = row.ppid
    return found


def sockets_of(client_port: int, server_port: int) -> set[int]:
    """Return the local sockets connected from one port to the other; Linux only."""
    found: set[int] = set()
    if not _LINUX:
        return found
    for name in ("tcp", "tcp6"):
        for line in _read_whole(f"/proc/net/{name}").decode("ascii", "replace").splitlines()[1:]:
            field = line.split()
            own, other = (int(each.rpartition(":")[2], 16) for each in field[1:3])
            if (own, other) == (client_port, server_port):
                found.add(int(field[9]))
    return found - {0}


def open_sockets(pid: int) -> set[int]:
    """Return the sockets that a process has open, if it can be inspected; Linux only."""
    found: set[int] = set()
    try:
        names = _names(f"/proc/{pid}/fd")
    except OSError:
        return found
    for name in names:
        try:
            target = os.readlink(f"/proc/{pid}/fd/{name}")  # noqa: PTH115  # as above
        except OSError:
            continue
        if target.startswith("socket:["):
            found.add(int(target[8:-1]))
    return found


def find_mark(pid: int) -> str | None:
    """Read a mark as `read_mark` does; without `/proc` by `ps`, slow and incomplete."""
    if _LINUX:
        return read_mark(pid)
    environment = {"PATH": os.defpath, "LC_ALL": "C"}
    asked = ("ps", "-E", "-ww", "-o", "command=", "-p", str(pid))
    told = subprocess.run(asked, capture_output=True, env=environment, check=False).stdout
    found = _MARK_TOLD.search(told)
    return found[1].decode(errors="replace") if found else None


def read_marks() -> dict[int, str]:
    """Read the marks of all processes of this user; without `/proc` none can be read."""
    if not _LINUX:
        return {}
    return {pid: mark for pid in all_pids() if (mark := read_mark(pid)) is not None}


def read_pss(pid: int) -> int | None:
    """Read the proportional set size of a process; None if unknown."""
    found = _PSS.search(_read_whole(f"/proc/{pid}/smaps_rollup")) if _LINUX else None
    return int(found[1]) << 10 if found else None


def tasks_of(user: int) -> int:
    """Count the processes and threads of a user."""
    if not _LINUX:
        return sum(1 for line in _run_ps("-u", str(user)).splitlines() if line.strip())
    told = (_TASKS.search(_read_whole(f"/proc/{pid}/status")) for pid in all_pids())
    return sum(int(found[2]) for found in told if found and int(found[1]) == user)


def newest_pid() -> int:
    """Read the pid assigned last, to a process or thread; 0 without `/proc`."""
    data = _read("/proc/loadavg") if _LINUX else None
    return int(data.split()[-1]) if data else 0


def all_pids() -> list[int]:
    """List the pids of all processes."""
    if not _LINUX:
        return list(read_table().rows)
    return [int(name) for name in _names("/proc") if name[0] <= "9"]


def read_below(roots: Iterable[int]) -> dict[int, ProcessRow]:
    """Read these processes and their descendants, without reading any other; Linux only.

    Faster than a table if the tree is small. Like a table, it is not atomic.
    """
    rows: dict[int, ProcessRow] = {}
    todo: list[tuple[int, int | None]] = [(pid, None) for pid in roots]
    while todo:
        pid, parent = todo.pop()
        row = None if pid in rows else read_row(pid)
        # A pid that was reused since its parent listed it has another parent.
        if row is not None and parent in (None, row.ppid):
            rows[pid] = row
            todo += [(child, pid) for child in _children_of(pid)]
    return rows


def _children_of(pid: int) -> list[int]:
    try:
        threads = _names(f"/proc/{pid}/task")
    except OSError:
        return []
    found: list[int] = []
    for thread in threads:
        found += map(int, _read_whole(f"/proc/{pid}/task/{thread}/children").split())
    return found


def adopted() -> list[int]:
    """List the children that this process adopted when their parents died.

    They are added to its first thread, in order of arrival, so one reading misses none as long as
    the dead are not reaped meanwhile. Children of other threads are not included.
    """
    if not _LINUX:
        return read_table().children.get(os.getpid(), [])
    me = os.getpid()
    data = _read_whole(f"/proc/{me}/task/{me}/children")
    return [int(pid) for pid in data.split()]


def own_children() -> list[int]:
    """List the direct children of this process, of all its threads; cheap."""
    if not _LINUX:
        return read_table().children.get(os.getpid(), [])
    return _children_of(os.getpid())
