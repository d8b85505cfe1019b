"""What an earlier runner left: found by identity, session, mark, fingerprint and control group.

Nothing of it descends from this process. It must not end anything but what it proves to be part of
such a tree, and nothing at all when in doubt.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from typing import TYPE_CHECKING

from runtime import lineage, proctable
from runtime.cgroups import names, probe
from runtime.containment import ProcessIdentity, open_pidfd
from runtime.proctree import Row
from runtime.watchdog import client as watchdog

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runtime.cgroups.groups import Group
    from runtime.proctree import Table

_GLANCE = 0.001
_WATCH = 0.02
"""Seconds of watching new processes after which one that starts itself anew would have shown."""
_LONGEST_WATCH = 0.1
"""Seconds in which that much processor time is waited for: on a busy machine a watch is held up."""
_LONGEST_CHASE = 0.5
_NEWEST = 4
"""How many of the newest processes are looked at: others start processes too."""


class Remnant:
    """What is left of a process that an earlier runner started.

    Nothing of it is a descendant of this process, so its parts are known by the leader's identity,
    by its session while that is proved to be the old one, by what they inherited (mark,
    fingerprint) and by the group they are in.
    """

    def __init__(self, identity: ProcessIdentity) -> None:
        self._identity = identity
        self._seen: set[tuple[int, int]] = set()
        self._prints = lineage.fingerprint(identity.mark) if identity.mark else 0
        self._here = identity.boot_id == proctable.boot_id()
        self._groups: list[Group] = []
        if self._here and identity.mark:
            self._groups = names.left(probe.tops(), identity.mark).get(identity.mark, [])

    def find(self) -> dict[int, Row]:
        """Find what still lives of it; nothing when in doubt, and nothing of another boot."""
        if not self._here:
            return {}
        if found := self._resting() or self._restless():
            return found
        # On a busy machine what starts itself anew may rest for as long as it is watched for. Then
        # it is where the next look finds it; without a fingerprint it was not watched for.
        return self._resting() if self._prints else {}

    def _resting(self) -> dict[int, Row]:
        """Find what stays what it is while all processes are read."""
        identity = self._identity
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
            for pid, row in table.rows.items()
            if row.start >= identity.start_time
            and (marks.get(pid) == identity.mark or lineage.bears(pid, self._prints))
            and (pid != identity.pid or genuine)
        ]
        roots += [
            pid
            for pid in _members(self._groups)
            if (row := table.rows.get(pid)) is not None and row.start >= identity.start_time
        ]
        if genuine:
            roots.append(identity.pid)
        # A number stays taken as long as its session has a member: one proved member proves all.
        proved = genuine or any(table.rows[pid].sid == identity.pid for pid in roots)
        members = table.family(roots, identity.pid if proved else None, self._seen)
        spared = _line_of_descent(table)
        return {pid: row for pid, row in members.items() if not row.dead and pid not in spared}

    def _restless(self) -> dict[int, Row]:
        """Find what starts itself anew faster than all processes can be read."""
        for group in self._groups:
            if not group.empty():
                return {pid: _faint(pid) for pid in group.members() or {self._identity.pid}}
        pid = _glimpse(self._prints, _WATCH, self._identity.start_time)
        return {} if pid is None else {pid: _faint(pid)}

    def strike(self) -> set[int]:
        """Kill at once what is in its groups, and what starts itself anew too fast to be found."""
        for group in self._groups:
            group.kill()
        if not self._here:
            return set()
        return _chase(self._prints, _WATCH, self._identity.start_time)

    def close(self) -> None:
        """Take away its groups, once nothing is in them."""
        for group in self._groups:
            group.remove()


def find_marked(mark: str | None = None) -> tuple[ProcessIdentity, ...]:
    """Find the living processes with this mark, or with any, this process and its parents apart.

    Empty groups of runners that are gone are taken away on the way.
    """
    groups = names.left(probe.tops()[:1] if mark else probe.tops(), mark)
    table = proctable.read_table()
    found = {pid: of for pid, of in proctable.read_marks().items() if mark in (None, of)}
    restless: dict[str, int] = {}
    if mark:
        prints = lineage.fingerprint(mark)
        found |= {pid: mark for pid in table.rows if lineage.bears(pid, prints)}
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
    boot = proctable.boot_id()
    living = [
        ProcessIdentity(pid, row.start, boot, of)
        for pid, of in found.items()
        if pid not in spared and (row := table.rows.get(pid)) is not None and not row.dead
    ]
    seen = {identity.mark for identity in living}
    # Of what starts itself anew for ever no member lasts; its mark is what it is ended by.
    hidden = [ProcessIdentity(pid, 0, boot, of) for of, pid in restless.items() if of not in seen]
    return (*living, *hidden)


def is_alive(identity: ProcessIdentity) -> bool:
    """Tell whether that very process is alive."""
    row = proctable.read_row(identity.pid)
    same = row is not None and not row.dead and row.start == identity.start_time
    return same and identity.boot_id == proctable.boot_id()


def _faint(pid: int) -> Row:
    return Row(pid, 0, 0, 0, 0, 0, dead=True)


def _members(groups: Iterable[Group]) -> set[int]:
    return {pid for group in groups for pid in group.members()}


def _glimpse(prints: int, seconds: float, since: int = 0) -> int | None:
    """Look for a new process with this fingerprint for so long; None when there was none.

    What forks and ends for ever is gone before a list of all processes has been read. But its
    number is among the newest, and one look at those is quicker than the fork of a process.
    """
    if not prints or lineage.bears(os.getpid(), prints):
        # What bears our own fingerprint may be a child of ours.
        return None
    until, most = time.thread_time() + seconds, time.monotonic() + _LONGEST_WATCH
    while time.thread_time() < until and time.monotonic() < most:
        newest = proctable.newest_pid()
        for pid in range(newest, max(newest - _NEWEST, 1), -1):
            if lineage.bears(pid, prints):
                row = proctable.read_row(pid)
                if row is not None and not row.dead and row.start >= since:
                    return pid
    return None


def _chase(prints: int, seconds: float, since: int) -> set[int]:
    """Kill new processes with this fingerprint until none has come up for so long."""
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
        # Asked again with the handle open: now the number cannot mean another one.
        if sys.platform == "linux" and lineage.bears(pid, prints):
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                return True
    finally:
        os.close(handle)
    return False


def _line_of_descent(table: Table) -> set[int]:
    """Collect this process, those it descends from and its watchdog: it must not end itself."""
    line = set(table.sessions.get(watchdog.session(), ()))
    row = table.rows.get(os.getpid())
    while row is not None and row.pid not in line:
        line.add(row.pid)
        row = table.rows.get(row.ppid)
    return line
