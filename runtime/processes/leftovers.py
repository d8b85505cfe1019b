"""What an earlier runner left: found by identity, session, mark, fingerprint and control group.

None of it descends from this process. It must not end anything but what is proved to be part of
such a tree; in doubt it ends nothing.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from typing import TYPE_CHECKING

from runtime import proc_table
from runtime.proc_tree import ProcessRow, unseen_row
from runtime.processes import lineage_tag
from runtime.processes.cgroups import names, probe
from runtime.processes.termination import ProcessIdentity, open_pidfd
from runtime.processes.watchdog import client as watchdog

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runtime.proc_tree import Table
    from runtime.processes.cgroups.groups import Group

_GLANCE = 0.001
_WATCH = 0.02
"""Seconds of watching new processes in which a tree that keeps re-forking shows up."""
_LONGEST_WATCH = 0.1
"""Limit in seconds on that watch, whose processor time may be delayed on a busy machine."""
_LONGEST_CHASE = 0.5
_NEWEST = 4
"""How many of the newest processes are checked: others start processes, too."""


class Remnant:
    """What is left of a process that an earlier runner started.

    None of it is a descendant of this process, so its parts are found by the leader's identity, by
    its session while that is proved to be the old one, by what they inherited (mark, fingerprint)
    and by their control group.
    """

    def __init__(self, identity: ProcessIdentity) -> None:
        self._identity = identity
        self._seen: set[tuple[int, int]] = set()
        self._prints = lineage_tag.fingerprint(identity.mark) if identity.mark else 0
        self._here = identity.boot_id == proc_table.boot_id()
        self._groups: list[Group] = []
        if self._here and identity.mark:
            self._groups = names.left(probe.tops(), identity.mark).get(identity.mark, [])

    def find(self) -> dict[int, ProcessRow]:
        """Find what is still alive of it; nothing in doubt, and nothing from another boot."""
        if not self._here:
            return {}
        if found := self._resting() or self._restless():
            return found
        # On a busy machine a tree that keeps re-forking may pause during the watch. Then one more
        # reading finds it; without a fingerprint there was no watch.
        return self._resting() if self._prints else {}

    def _resting(self) -> dict[int, ProcessRow]:
        """Find processes that do not change while all processes are read."""
        identity = self._identity
        table = proc_table.read_table()
        marks = proc_table.read_marks()
        leader = table.rows.get(identity.pid)
        genuine = (
            leader is not None
            and leader.start == identity.start_time
            and marks.get(leader.pid, identity.mark) == identity.mark
        )
        # The pid of the leader, reused by another process, proves nothing.
        roots = [
            pid
            for pid, row in table.rows.items()
            if row.start >= identity.start_time
            and (marks.get(pid) == identity.mark or lineage_tag.bears(pid, self._prints))
            and (pid != identity.pid or genuine)
        ]
        roots += [
            pid
            for pid in _members(self._groups)
            if (row := table.rows.get(pid)) is not None and row.start >= identity.start_time
        ]
        if genuine:
            roots.append(identity.pid)
        # A pid is not reused while its session has a member: one proved member proves all.
        proved = genuine or any(table.rows[pid].sid == identity.pid for pid in roots)
        members = table.family(roots, identity.pid if proved else None, self._seen)
        spared = _line_of_descent(table)
        return {pid: row for pid, row in members.items() if not row.dead and pid not in spared}

    def _restless(self) -> dict[int, ProcessRow]:
        """Find what re-forks faster than all processes can be read."""
        for group in self._groups:
            if not group.empty():
                return {pid: unseen_row(pid) for pid in group.members() or {self._identity.pid}}
        pid = _glimpse(self._prints, _WATCH, self._identity.start_time)
        return {} if pid is None else {pid: unseen_row(pid)}

    def strike(self) -> set[int]:
        """Kill at once what is in its groups, and what re-forks too fast to be found."""
        for group in self._groups:
            group.kill()
        if not self._here:
            return set()
        return _chase(self._prints, _WATCH, self._identity.start_time)

    def close(self) -> None:
        """Remove its groups, once they are empty."""
        for group in self._groups:
            group.remove()


def find_marked(mark: str | None = None) -> tuple[ProcessIdentity, ...]:
    """Find the living processes with this mark, or with any; not this process or its parents.

    Also removes empty groups of runners that are gone.
    """
    groups = names.left(probe.tops()[:1] if mark else probe.tops(), mark)
    table = proc_table.read_table()
    found = {pid: of for pid, of in proc_table.read_marks().items() if mark in (None, of)}
    restless: dict[str, int] = {}
    if mark:
        prints = lineage_tag.fingerprint(mark)
        found |= {pid: mark for pid in table.rows if lineage_tag.bears(pid, prints)}
        if not found and (pid := _glimpse(prints, _GLANCE)) is not None:
            restless[mark] = pid
    for of, left in groups.items():
        found |= dict.fromkeys(_members(left), of)
        for group in left:
            if not group.empty():
                restless.setdefault(of, 0)
            elif names.is_orphaned(group):
                group.remove()
    spared = _line_of_descent(table)
    boot = proc_table.boot_id()
    living = [
        ProcessIdentity(pid, row.start, boot, of, proc_table.read_machine(pid))
        for pid, of in found.items()
        if pid not in spared and (row := table.rows.get(pid)) is not None and not row.dead
    ]
    seen = {identity.mark for identity in living}
    # A tree that re-forks forever has no lasting member; it is ended by its mark.
    hidden = [ProcessIdentity(pid, 0, boot, of) for of, pid in restless.items() if of not in seen]
    return (*living, *hidden)


def is_alive(identity: ProcessIdentity) -> bool:
    """Tell whether that very process is alive."""
    row = proc_table.read_row(identity.pid)
    same = row is not None and not row.dead and row.start == identity.start_time
    return same and identity.boot_id == proc_table.boot_id()


def _members(groups: Iterable[Group]) -> set[int]:
    return {pid for group in groups for pid in group.members()}


def _glimpse(prints: int, seconds: float, since: int = 0) -> int | None:
    """Watch for a new process with this fingerprint; None if there was none.

    A tree that forks and ends forever is gone before all processes have been read. But its pid
    is among the newest, and checking those is faster than a fork.
    """
    if not prints or lineage_tag.bears(os.getpid(), prints):
        # A process with our own fingerprint may be a child of ours.
        return None
    until, most = time.thread_time() + seconds, time.monotonic() + _LONGEST_WATCH
    while time.thread_time() < until and time.monotonic() < most:
        newest = proc_table.newest_pid()
        for pid in range(newest, max(newest - _NEWEST, 1), -1):
            if lineage_tag.bears(pid, prints):
                row = proc_table.read_row(pid)
                if row is not None and not row.dead and row.start >= since:
                    return pid
    return None


def _chase(prints: int, seconds: float, since: int) -> set[int]:
    """Kill new processes with this fingerprint until none appears for `seconds`."""
    killed: set[int] = set()
    most = time.monotonic() + _LONGEST_CHASE
    while time.monotonic() < most and (pid := _glimpse(prints, seconds, since)) is not None:
        if _kill(pid, prints):
            killed.add(pid)
    return killed


def _kill(pid: int, prints: int) -> bool:
    handle = open_pidfd(pid)
    if handle is None:
        return False
    try:
        # Checked again with the handle open: now the pid cannot be reused.
        if sys.platform == "linux" and lineage_tag.bears(pid, prints):
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                return True
    finally:
        os.close(handle)
    return False


def _line_of_descent(table: Table) -> set[int]:
    """Collect this process, its ancestors and its watchdog, which must not be ended."""
    line = set(table.sessions.get(watchdog.session(), ()))
    row = table.rows.get(os.getpid())
    while row is not None and row.pid not in line:
        line.add(row.pid)
        row = table.rows.get(row.ppid)
    return line
