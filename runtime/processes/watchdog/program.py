"""The process that waits for the end of its runner, and then ends all that the runner started.

A script, `python -I -S program.py RUNNER START REGISTER WIDTH`, with few modules, so that it is
small. It runs as two processes: each takes over if the other is killed, and both learn from the
kernel when the runner is gone. While the runner lives it must not end anything but what is past its
deadline, and never what is not proved to come from that runner.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

HEADER = 1 << 16
"""Offset of the entries. Before that: their number, and the folders of control groups."""
WORD = 8
ENTRY = 5 * WORD
"""Fingerprint (0: free), tag (0: none), pid and start time (0: not known yet), and the deadline (0:
none): after it nothing of it may live. The runner writes a byte into the pipe when it sets one."""
CLEANUPS = 1 << 24
"""Offset of the cleanup commands (for containers), one for each entry."""
CLEANUP = 1 << 16
READY = b"\x06"
"""ACK: in no error text."""
_PIPE = 0
_WORDS = 1
_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP)
_RLIMIT_LOCKS = 10
_LOOKS = 3
"""How often in a row nothing must be found."""
_SOON, _LATE = 0.002, 0.05
_PATIENCE = 60.0
"""Seconds after which it gives up; the rest is left to the next start of a runner."""
_HEAD_START = 250
"""Milliseconds by which the first of the two starts earlier when the runner is gone."""
_AGAIN = 1000
"""Milliseconds before a failed fork is retried."""
_CHASE = 0.01
_NEWEST = 4
"""How many of the newest processes are checked: others start processes, too."""
_BIG = 1 << 16
_LINUX = sys.platform == "linux"


class RegisterEntry:
    """A tree that the runner started."""

    __slots__ = ("deadline", "fingerprint", "number", "pid", "start", "tag")

    def __init__(self, number: int, data: bytes) -> None:
        self.number = number
        self.fingerprint, self.tag, self.pid, self.start, self.deadline = (
            int.from_bytes(data[at : at + WORD], sys.byteorder) for at in range(0, ENTRY, WORD)
        )


class RegisterReader:
    """Reads what the runner recorded."""

    def __init__(self, file: int) -> None:
        self._file = file

    def entries(self, *, late: bool = False) -> list[RegisterEntry]:
        """List all that is live, or only what must not be any more."""
        count = int.from_bytes(os.pread(self._file, WORD, 0), sys.byteorder)
        data = os.pread(self._file, count * ENTRY, HEADER)
        found = (
            RegisterEntry(at // ENTRY, data[at : at + ENTRY]) for at in range(0, len(data), ENTRY)
        )
        live = [entry for entry in found if entry.fingerprint]
        return [entry for entry in live if 0 < entry.deadline <= now()] if late else live

    def bases(self) -> list[str]:
        """List the folders below which the runner made control groups."""
        text = os.pread(self._file, HEADER - WORD, WORD).partition(b"\0")[0]
        return [os.fsdecode(each) for each in text.splitlines()]

    def cleanup(self, number: int) -> tuple[list[bytes], dict[bytes, bytes]] | None:
        """Return the cleanup command of an entry and its environment, if any."""
        data = os.pread(self._file, CLEANUP, CLEANUPS + number * CLEANUP)
        size = int.from_bytes(data[:WORD], sys.byteorder)
        if not size:
            return None
        command, _, variables = data[WORD : WORD + size].partition(b"\0\0")
        pairs = (each.partition(b"=") for each in variables.split(b"\0") if each)
        return command.split(b"\0"), {name: value for name, _, value in pairs}


class ProcStat:
    """One process at one moment."""

    __slots__ = ("dead", "parent", "session", "start")

    def __init__(self, stat: bytes) -> None:
        field = stat[stat.rindex(b")") + 2 :].split()
        self.parent, self.session, self.start = int(field[1]), int(field[3]), int(field[19])
        # A first thread that has ended looks dead too, while the other threads work on.
        self.dead = field[0] in (b"Z", b"X", b"x") and int(field[17]) <= 1


class Sweep:
    """Ends all that is in the register.

    What it kills carries the fingerprint and the tag of an entry, is or was a descendant of such a
    process, is in its session, or is in a control group of the runner.
    """

    def __init__(self, register: RegisterReader, group: str, width: int, spared: set[int]) -> None:
        self._register, self._width, self._spared = register, width, spared
        # Without a group's name only what is overdue; a group does not tell whose it is.
        self._entries = register.entries(late=not group)
        self._bases, self._group = register.bases() if group else [], group
        self._tags: dict[int, list[int]] = {}
        for entry in self._entries:
            self._tags.setdefault(entry.fingerprint, []).append(entry.tag)
        self._seen: set[tuple[int, int]] = set()
        self._over, self._tick = now(), 1_000_000_000 // os.sysconf("SC_CLK_TCK")

    def run(self) -> None:
        """Kill until nothing has been found several times in a row."""
        quiet, pause, until = 0, _SOON, time.monotonic() + _PATIENCE
        helpers: list[int] = []
        while quiet < _LOOKS and time.monotonic() < until:
            try:
                quiet = 0 if self._strike() else quiet + 1
                helpers = helpers or self._clean_up()
            except (OSError, MemoryError):  # the machine is short of something: retry
                quiet = 0
            if not quiet:
                time.sleep(pause)
                pause = min(pause * 2, _LATE)
        for path in self._groups():
            try:
                os.rmdir(path)  # noqa: PTH106  # pathlib is large
            except OSError:
                continue
        _wait(helpers, until)

    def _strike(self) -> bool:
        if not _LINUX:
            return self._strike_leaders()
        in_groups = self._strike_groups()
        return self._strike_family() or in_groups or self._chase()

    def _strike_leaders(self) -> bool:
        """Kill the process groups, which is all that is possible without `/proc`."""
        met = False
        for entry in self._entries:
            try:
                if entry.pid:
                    os.killpg(entry.pid, signal.SIGKILL)
                    met = True
            except OSError:
                continue
        return met

    def _groups(self) -> list[str]:
        found = []
        for base in self._bases:
            try:
                names = os.listdir(base)  # noqa: PTH208  # pathlib is large
            except OSError:
                continue
            found += [f"{base}/{name}" for name in names if name.startswith(self._group)]
        return found

    def _strike_groups(self) -> bool:
        met = False
        for path in self._groups():
            _tell(f"{path}/cgroup.kill", b"1")
            # No member can fork any more.
            _tell(f"{path}/pids.max", b"0")
            listed = {pid: _row(pid) for pid in _members(path)}
            for pid in listed.keys() & _members(path):
                row = listed[pid]
                met = (row is not None and _kill(pid, row)) or met
            # A frozen process does not die before it is thawed.
            _tell(f"{path}/freezer.state", b"THAWED")
        return met

    def _strike_family(self) -> bool:
        rows = _table()
        members = self._family(rows)
        self._seen = {(pid, rows[pid].start) for pid in members}
        met = [_kill(pid, rows[pid]) for pid in members if not rows[pid].dead]
        return any(met)

    def _family(self, rows: dict[int, ProcStat]) -> set[int]:
        def is_still(pid: int, start: int) -> bool:
            return pid in rows and rows[pid].start == start

        roots = {pid for pid, row in rows.items() if self._is_ours(pid, row)}
        roots |= {entry.pid for entry in self._entries if is_still(entry.pid, entry.start)}
        roots |= {pid for pid, start in self._seen if is_still(pid, start)}
        # A pid is not reused while its session has a member: one proved member proves all.
        sessions = {rows[pid].session for pid in roots} & {each.pid for each in self._entries}
        below: dict[int, list[int]] = {}
        for pid, row in rows.items():
            below.setdefault(row.parent, []).append(pid)
            if row.session in sessions:
                roots.add(pid)
        members: set[int] = set()
        todo = list(roots - self._spared)
        while todo:
            pid = todo.pop()
            if pid not in members:
                members.add(pid)
                todo += [each for each in below.get(pid, ()) if each not in self._spared]
        return members

    def _is_ours(self, pid: int, row: ProcStat | None = None) -> bool:
        """Tell whether a process carries fingerprint and tag of an entry.

        Another runner, such as the next one here, may use the same fingerprint, but with another
        tag. Without tags only processes from before the runner's end count.
        """
        try:
            tags = self._tags.get(resource.prlimit(pid, resource.RLIMIT_RSS)[0])
            if tags is None or pid in self._spared:
                return False
            limits = resource.prlimit(pid, _RLIMIT_LOCKS)
        except (OSError, ValueError):
            return False
        for tag in tags:
            # Runners below such a process divide the range below its tag.
            if tag and any(tag - self._width < limit <= tag for limit in limits):
                return True
        return 0 in tags and row is not None and row.start * self._tick <= self._over

    def _chase(self) -> bool:
        """Kill what re-forks faster than all processes can be read."""
        met, until = False, time.thread_time() + _CHASE
        while self._tags and time.thread_time() < until:
            newest = int((_read("/proc/loadavg").split() or [b"0"])[-1])
            for pid in range(newest, max(newest - _NEWEST, 1), -1):
                row = _row(pid) if self._is_ours(pid) else None
                if row is not None and not row.dead and self._is_ours(pid):
                    met = _kill(pid, row) or met
        return met

    def _clean_up(self) -> list[int]:
        """Start the commands that remove containers, which are not processes of the runner."""
        started = []
        for entry in self._entries:
            order = self._register.cleanup(entry.number)
            if order is not None:
                command, env = order
                pid = os.posix_spawn(command[0], command, env, setpgroup=0, setsigdef=_IGNORED)
                started.append(pid)
        return started


def now() -> int:
    """Return the nanoseconds since boot, those that the machine slept included."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) if _LINUX else time.monotonic_ns()


def _read(path: str) -> bytes:
    """Read a file of the kernel; empty if there is none."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""
    pieces = []
    try:
        while piece := os.read(handle, _BIG):
            pieces.append(piece)
    except OSError:
        return b""
    finally:
        os.close(handle)
    return b"".join(pieces)


def _tell(path: str, order: bytes) -> None:
    """Write a value to a file of the kernel, if it accepts it."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(handle, order)
        finally:
            os.close(handle)
    except OSError:
        return


def _members(path: str) -> set[int]:
    return {int(each) for each in _read(f"{path}/cgroup.procs").split()} - {0}


def _row(pid: int) -> ProcStat | None:
    stat = _read(f"/proc/{pid}/stat")
    return ProcStat(stat) if stat else None


def _table() -> dict[int, ProcStat]:
    pids = [int(name) for name in os.listdir("/proc") if name[0] <= "9"]  # noqa: PTH208  # as above
    return {pid: row for pid in pids if (row := _row(pid)) is not None}


def _kill(pid: int, row: ProcStat) -> bool:
    """Kill exactly that process; False if it is gone or may not be killed."""
    if sys.platform != "linux":
        return False
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        # Checked again with the handle open: now the pid cannot be reused.
        now = _row(pid)
        if now is None or now.start != row.start:
            return False
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        os.close(handle)
    return True


def _wait(helpers: list[int], until: float) -> None:
    while helpers and time.monotonic() < until:
        helpers = [pid for pid in helpers if not os.waitpid(pid, os.WNOHANG)[0]]
        time.sleep(_SOON if helpers else 0)


class WatchdogProcess:
    """The two processes: the first waits for the runner, the second for the runner and the first.

    Without pidfds there is only one, and it relies on the end of the pipe.
    """

    def __init__(self, runner: int, start: str, register: int, width: int) -> None:
        self._runner, self._handle, self._pipe = runner, _handle_on(runner), _PIPE
        self._group = f"loopwright.{runner}-{start}."
        self._register, self._width = RegisterReader(register), width
        self._ended: set[tuple[int, int, int]] = set()

    def run(self) -> NoReturn:
        """Watch, until the runner is gone and nothing is left of what it started."""
        # Checked with the handle open: this is a child of the runner as long as that lives.
        is_gone = os.getppid() != self._runner
        os.write(_WORDS, READY)
        os.close(_WORDS)
        if is_gone:
            self._sweep(0)
        while True:
            first = os.getpid()
            handle = _handle_on(first)
            if self._handle < 0 or handle < 0:
                self._lead(0)
            try:
                second = os.fork()
            except OSError:  # no other process possible: alone for a while
                second = -1
            if second == 0:
                self._stand_by(first, handle)
            os.close(handle)
            if second:
                self._lead(second)

    def _lead(self, second: int) -> None:
        """Return when the second is gone; end when the runner is."""
        other = _handle_on(second) if second > 0 else -1
        while True:
            next_end = self._end_overdue(second)
            ready = _wait_for((self._pipe, self._handle, other), _AGAIN if second < 0 else next_end)
            if self._handle in ready:
                self._sweep(second)
            if self._pipe in ready and not os.read(self._pipe, _BIG):
                # The pipe is closed: the runner is ending, or has closed it.
                self._pipe = -1
                if not self._register.entries():
                    _finish(second)
                if self._handle < 0:
                    self._sweep(second)
            if other in ready:
                os.close(other)
                os.waitpid(second, 0)
                return
            if second < 0:
                return

    def _stand_by(self, first: int, handle: int) -> None:
        """Return when the first is gone; end when the runner is."""
        if self._handle in _wait_for((self._handle, handle)):
            _wait_for((handle,), _HEAD_START)
            self._sweep(first, leads=False)

    def _end_overdue(self, second: int) -> int | None:
        """End what is past its deadline; return the milliseconds until the next one, if any."""
        entries = self._register.entries(late=True)
        late = {(each.number, each.deadline, each.pid) for each in entries}
        if not late <= self._ended:
            self._end("", second)
        self._ended = late
        ends = [end - now() for each in self._register.entries() if (end := each.deadline)]
        return min((end for end in ends if end > 0), default=-1) // 1_000_000 + 1 or None

    def _sweep(self, other: int, *, leads: bool = True) -> NoReturn:
        self._end(self._group, other)
        _finish(other if leads else 0)

    def _end(self, group: str, other: int) -> None:
        spared = {1, os.getpid(), os.getppid(), other}
        Sweep(self._register, group, self._width, spared).run()


def _wait_for(files: tuple[int, ...], milliseconds: int | None = None) -> set[int]:
    waiting = select.poll()
    for file in (each for each in files if each >= 0):
        waiting.register(file, select.POLLIN)
    return {file for file, _ in waiting.poll(milliseconds)}


def _handle_on(pid: int) -> int:
    if sys.platform == "linux":
        try:
            return os.pidfd_open(pid)
        except OSError:
            pass
    return -1


def _finish(second: int) -> NoReturn:
    if second > 0:
        os.kill(second, signal.SIGKILL)
        os.waitpid(second, 0)
    os._exit(0)


def main() -> NoReturn:
    """Watch the runner given on the command line."""
    for each in _IGNORED:
        signal.signal(each, signal.SIG_IGN)
    runner, start, register, width = sys.argv[1:]
    WatchdogProcess(int(runner), start, int(register), int(width)).run()


if __name__ == "__main__":
    main()
