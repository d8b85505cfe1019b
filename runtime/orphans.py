"""Whose orphan is it: which of the processes we adopted came from which of those we started.

It knows what was started and not yet reaped. It must not start anything, and ends only what is
proved to come from the process it is asked about.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from runtime import containment, lineage, proctable
from runtime.proctree import Row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runtime.child import AgentProcess
    from runtime.proctree import Table

started: dict[int, AgentProcess] = {}
"""All that were started and not yet reaped, by pid. A process has one set of children, however many
managers it has, so this belongs to the process too."""
_tagged: dict[int, AgentProcess] = {}
"""The same, by lineage tag."""
_starting: dict[int, int | None] = {}
"""Of those that are not started yet, but that run: pid and tag."""
_BURST = 0.02
"""Seconds for which one strike keeps the event loop waiting at most."""


@contextmanager
def starting(pid: int, tag: int | None) -> Iterator[None]:
    """Keep what is not enrolled yet from being taken for an orphan of another."""
    _starting[pid] = tag
    try:
        yield
    finally:
        del _starting[pid]


def enrol(process: AgentProcess) -> None:
    """Account for a started process."""
    started[process.identity.pid] = process
    if process.tag is not None:
        _tagged[process.tag] = process


def forget(process: AgentProcess) -> None:
    """Give up a process; its number may now be given to another."""
    # Where a thread waits for the exit, the number may have been given away already.
    if started.get(process.identity.pid) is process:
        del started[process.identity.pid]
    if process.tag is not None:
        _tagged.pop(process.tag, None)


def started_by(host: object) -> tuple[AgentProcess, ...]:
    """List what this host started and of which something may be left."""
    return tuple(process for process in started.values() if process.host is host)


def may_have_left(process: AgentProcess) -> bool:
    """Tell quickly whether an ended process may have left something; False is certain.

    It costs one look at the children of this process: what a dead process leaves below it is
    adopted here, in a session of its own or another one but ours.
    """
    return not process.adopts_orphans or bool(_adopted_from(process))


def _adopted_from(process: AgentProcess, *, proved: bool = False) -> list[int]:
    """List the children that came from a process; unless `proved`, also those that may have."""
    own_session = os.getsid(0)
    found = []
    for pid in proctable.adopted():
        session = _session_of(pid)
        if pid in started or pid in _starting or session in _starting:
            continue
        if session == process.identity.pid:
            found.append(pid)
        elif session not in (None, own_session):
            tag = lineage.read(pid)
            if tag is None:
                may = process.tag is None and not proved
            else:
                may = _tagged.get(tag, process) is process and tag not in _starting.values()
            if may:
                found.append(pid)
    return found


def living(process: AgentProcess) -> dict[int, Row]:
    """Find all that is alive of a process and its tree.

    Only dead ones in the answer mean: something is alive, but changes faster than all processes
    can be read.
    """
    # Processes are not read in one instant: one can hide from a look while its parent dies.
    # What starts itself anew for ever can hide from every look, but not from the list of our
    # children, which names it or the one that it came from.
    for _ in range(2):
        if process.exit.done() and not may_have_left(process) and process.group_is_empty():
            return {}
        members = _tree(process) if _is_traceable(process) else _family(process)
        alive = {pid: row for pid, row in members.items() if not row.dead}
        if alive:
            return alive
    if not process.adopts_orphans:
        return {}
    restless = {*_adopted_from(process, proved=True), *process.group_members()}
    if not restless and not process.group_is_empty():
        restless = {process.identity.pid}
    return {pid: _faint(pid) for pid in restless}


def _is_traceable(process: AgentProcess) -> bool:
    """Tell whether all of it is below it, or below what was adopted from it."""
    return process.adopts_orphans and process.tag is not None


def _tree(process: AgentProcess) -> dict[int, Row]:
    orphans = _adopted_from(process, proved=True)
    pid, start = process.identity.pid, process.identity.start_time
    roots = [pid] if started.get(pid) is process else []
    rows = proctable.read_below((*orphans, *roots))
    if pid in rows and rows[pid].start != start:
        # Without a handle on it, somebody else may have reaped it: the number is a stranger's.
        rows = proctable.read_below(orphans)
    rows |= proctable.read_below(process.group_members() - rows.keys())
    for orphan in orphans:
        if orphan in rows and rows[orphan].dead:
            containment.reap(orphan)
    return rows


def _family(process: AgentProcess) -> dict[int, Row]:
    table = proctable.read_table()
    orphans = orphans_in(table, process, adopted=process.adopts_orphans).get(process, ())
    return process.family(table, orphans)


def _faint(pid: int) -> Row:
    return Row(pid, 0, 0, 0, 0, 0, dead=True)


def strike(process: AgentProcess) -> set[int]:
    """Kill what was adopted from a process, again and again, faster than it starts itself anew."""
    killed: set[int] = set()
    until = time.monotonic() + _BURST
    while time.monotonic() < until and (found := _adopted_from(process, proved=True)):
        for pid in found:
            if _is_dead(pid):
                containment.reap(pid)
                continue
            # A child of ours: its number is not given to another before we reap it.
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
    table: Table, heir: AgentProcess | None, *, adopted: bool
) -> dict[AgentProcess, list[int]]:
    """Give each orphan to the process it came from, or to `heir`, and reap the dead ones.

    `adopted`: orphans become children of this process; else only their marks tell.
    """
    if not adopted:
        return _marked(table)
    found: dict[AgentProcess, list[int]] = {}
    for pid in table.children.get(os.getpid(), ()):
        row = table.rows[pid]
        owner = None if pid in started or pid in _starting else _origin(row, heir)
        if owner is not None and row.dead:
            containment.reap(pid)
        elif owner is not None:
            found.setdefault(owner, []).append(pid)
    return found


def _origin(orphan: Row, heir: AgentProcess | None) -> AgentProcess | None:
    if orphan.sid == os.getsid(0):
        # Agents leave our session, and nobody can join one: other code of ours started this.
        return None
    if orphan.sid in started:
        return started[orphan.sid]
    tag = lineage.read(orphan.pid)
    if tag is not None and tag in _starting.values():
        return None
    if tag is not None:
        # Left behind by one that is gone already: whoever looks now may end it.
        return _tagged.get(tag, heir)
    mark = proctable.read_mark(orphan.pid)
    for process in started.values():
        if process.identity.mark == mark or process.has_seen(orphan):
            return process
    return None


def _marked(table: Table) -> dict[AgentProcess, list[int]]:
    by_mark = {process.identity.mark: process for process in started.values()}
    found: dict[AgentProcess, list[int]] = {}
    for pid, mark in proctable.read_marks().items():
        if mark in by_mark and pid in table.rows:
            found.setdefault(by_mark[mark], []).append(pid)
    return found


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None
