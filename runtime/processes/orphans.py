"""Attributes adopted processes to the processes we started that they came from.

Owns the list of what was started and not yet reaped. It must not start anything, and ends only
what is proved to come from the process in question.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from runtime import proc_table
from runtime.proc_tree import ProcessRow, unseen_row
from runtime.processes import lineage_tag, termination

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from runtime.proc_tree import Table
    from runtime.processes.cgroups.groups import Group
    from runtime.processes.termination import ProcessIdentity

_starting: dict[int, int | None] = {}
"""Pid and tag of processes that run but are not enrolled yet."""
_BURST = 0.02
"""Seconds for which one strike may block the event loop."""


class ProcessTree:
    """One process that was started, with all it starts itself, and how these are recognized."""

    def __init__(
        self,
        identity: ProcessIdentity,
        tag: int | None,
        group: Group | None,
        *,
        adopts_orphans: bool,
    ) -> None:
        self.identity = identity
        self.tag = tag
        self.adopts_orphans = adopts_orphans
        self.ended = False
        """Whether the first process has ended."""
        self._group = group
        self._seen: set[tuple[int, int]] = set()

    def family(self, table: Table, roots: Iterable[int]) -> dict[int, ProcessRow]:
        """Find all that belongs to it, given the orphans that do."""
        pid = self.identity.pid
        leader = table.rows.get(pid)
        genuine = leader is None or leader.start == self.identity.start_time
        inside = (each for each in self.group_members() if each in table.rows)
        return table.family(
            (*roots, *inside, *([pid] * genuine)), pid if genuine else None, self._seen
        )

    def group_members(self) -> set[int]:
        """List the members of its control group, if it has one."""
        return set() if self._group is None else self._group.members()

    def group_is_empty(self) -> bool:
        """Tell whether nothing is in its control group, or it has none."""
        return self._group is None or self._group.empty()

    def has_seen(self, row: ProcessRow) -> bool:
        """Tell whether that process belonged to it at the last look."""
        return (row.pid, row.start) in self._seen


started: dict[int, ProcessTree] = {}
"""All that were started and not yet reaped, by pid. Global, because the children of a process are
shared by all its managers."""
_tagged: dict[int, ProcessTree] = {}
"""The same, by lineage tag."""


@contextmanager
def starting(pid: int, tag: int | None) -> Iterator[None]:
    """Protect a process that is not enrolled yet from being treated as an orphan."""
    _starting[pid] = tag
    try:
        yield
    finally:
        del _starting[pid]


def enrol(tree: ProcessTree) -> None:
    """Register a started process."""
    started[tree.identity.pid] = tree
    if tree.tag is not None:
        _tagged[tree.tag] = tree


def forget(tree: ProcessTree) -> None:
    """Unregister a process; its pid may now be reused."""
    # If a thread waited for the exit, the pid may have been reused already.
    if started.get(tree.identity.pid) is tree:
        del started[tree.identity.pid]
    if tree.tag is not None:
        _tagged.pop(tree.tag, None)


def is_enrolled(tree: ProcessTree) -> bool:
    """Tell whether something of it may be left."""
    return started.get(tree.identity.pid) is tree


def may_have_left(tree: ProcessTree) -> bool:
    """Tell quickly whether an ended process may have left something; False is certain.

    Reads the children of this process: what a dead process leaves is adopted here, in any session
    but ours.
    """
    return not tree.adopts_orphans or bool(_adopted_from(tree))


def _adopted_from(tree: ProcessTree, *, proved: bool = False) -> list[int]:
    """List the children that came from a process; unless `proved`, also possible ones."""
    own_session = os.getsid(0)
    found = []
    for pid in proc_table.adopted():
        session = _session_of(pid)
        if pid in started or pid in _starting or session in _starting:
            continue
        if session == tree.identity.pid:
            found.append(pid)
        elif session not in (None, own_session):
            tag = lineage_tag.read(pid)
            if tag is None:
                may = tree.tag is None and not proved
            else:
                may = _tagged.get(tag, tree) is tree and tag not in _starting.values()
            if may:
                found.append(pid)
    return found


def living(tree: ProcessTree) -> dict[int, ProcessRow]:
    """Find all that is alive of a process and its tree.

    If all in the answer are dead, something is alive but re-forks faster than processes can be
    read.
    """
    # Processes are not read at one instant: one can be missed while its parent dies. A tree that
    # re-forks forever can be missed each time, but not in the list of our children, which holds
    # it or its parent.
    for _ in range(2):
        if tree.ended and not may_have_left(tree) and tree.group_is_empty():
            return {}
        members = _tree(tree) if _is_traceable(tree) else _family(tree)
        alive = {pid: row for pid, row in members.items() if not row.dead}
        if alive:
            return alive
    if not tree.adopts_orphans:
        return {}
    restless = {*_adopted_from(tree, proved=True), *tree.group_members()}
    if not restless and not tree.group_is_empty():
        restless = {tree.identity.pid}
    return {pid: unseen_row(pid) for pid in restless}


def _is_traceable(tree: ProcessTree) -> bool:
    """Tell whether all of it is below it, or below what was adopted from it."""
    return tree.adopts_orphans and tree.tag is not None


def _tree(tree: ProcessTree) -> dict[int, ProcessRow]:
    orphans = _adopted_from(tree, proved=True)
    pid, start = tree.identity.pid, tree.identity.start_time
    roots = [pid] if started.get(pid) is tree else []
    rows = proc_table.read_below((*orphans, *roots))
    if pid in rows and rows[pid].start != start:
        # Without a handle on it, other code may have reaped it: the pid was reused.
        rows = proc_table.read_below(orphans)
    rows |= proc_table.read_below(tree.group_members() - rows.keys())
    for orphan in orphans:
        if orphan in rows and rows[orphan].dead:
            termination.reap(orphan)
    return rows


def _family(tree: ProcessTree) -> dict[int, ProcessRow]:
    table = proc_table.read_table()
    orphans = orphans_in(table, tree, adopted=tree.adopts_orphans).get(tree, ())
    return tree.family(table, orphans)


def strike(tree: ProcessTree) -> set[int]:
    """Kill what was adopted from a process, repeatedly, faster than it re-forks."""
    killed: set[int] = set()
    until = time.monotonic() + _BURST
    while time.monotonic() < until and (found := _adopted_from(tree, proved=True)):
        for pid in found:
            if _is_dead(pid):
                termination.reap(pid)
                continue
            # A child of ours: its pid is not reused before we reap it.
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
    return killed


def _is_dead(pid: int) -> bool:
    try:
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return ended is not None


def orphans_in(
    table: Table, heir: ProcessTree | None, *, adopted: bool
) -> dict[ProcessTree, list[int]]:
    """Attribute each orphan to the tree it came from, or to `heir`, and reap the dead ones.

    `adopted`: orphans become children of this tree; else only their marks tell.
    """
    if not adopted:
        return _marked(table)
    found: dict[ProcessTree, list[int]] = {}
    for pid in table.children.get(os.getpid(), ()):
        row = table.rows[pid]
        owner = None if pid in started or pid in _starting else _origin(row, heir)
        if owner is not None and row.dead:
            termination.reap(pid)
        elif owner is not None:
            found.setdefault(owner, []).append(pid)
    return found


def _origin(orphan: ProcessRow, heir: ProcessTree | None) -> ProcessTree | None:
    if orphan.sid == os.getsid(0):
        # Agents leave our session, and no process can join one: other code of ours started this.
        return None
    if orphan.sid in started:
        return started[orphan.sid]
    tag = lineage_tag.read(orphan.pid)
    if tag is not None and tag in _starting.values():
        return None
    if tag is not None:
        # Left behind by a process that is gone already: any caller may end it.
        return _tagged.get(tag, heir)
    mark = proc_table.read_mark(orphan.pid)
    for tree in started.values():
        if tree.identity.mark == mark or tree.has_seen(orphan):
            return tree
    return None


def _marked(table: Table) -> dict[ProcessTree, list[int]]:
    by_mark = {tree.identity.mark: tree for tree in started.values()}
    found: dict[ProcessTree, list[int]] = {}
    for pid, mark in proc_table.read_marks().items():
        if mark in by_mark and pid in table.rows:
            found.setdefault(by_mark[mark], []).append(pid)
    return found


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None
