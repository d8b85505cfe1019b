"""One child process and its tree: its exit, its end, and which orphans are its.

It must not start processes, and must not know why one runs or ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from runtime import containment, lineage, output, proctable
from runtime.containment import ProcessIdentity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runtime.launch import SpawnOrder, Started
    from runtime.proctable import Row, Table

_started: dict[int, AgentProcess] = {}
"""All that were started and not yet reaped, by pid. A process has one set of children, however many
managers it has, so this belongs to the process too."""
_tagged: dict[int, AgentProcess] = {}
"""The same, by lineage tag."""


@dataclass(frozen=True, slots=True)
class ProcessExit:
    """How a process ended: with a code or by a signal; neither when somebody else reaped it."""

    code: int | None
    signal: int | None


@dataclass(frozen=True, slots=True)
class StopReport:
    """The end of a tree. `exit` is None while the first process itself survives or is not ours."""

    exit: ProcessExit | None
    forced: bool
    killed: int
    survivors: tuple[int, ...]
    left_behind: int = 0
    """Processes of it that were alive when `sweep` came, after its own exit."""


class AgentProcess:
    """A process that was started, with all it starts itself.

    After its exit call `sweep`: it ends what was left behind and costs nothing when nothing was.
    Until then a dead first process is not reaped, so that its number cannot be given to another.
    """

    def __init__(
        self,
        order: SpawnOrder,
        started: Started,
        host: object,
        *,
        adopts_orphans: bool,
    ) -> None:
        self.order = order
        self.exit: asyncio.Future[ProcessExit] = asyncio.get_running_loop().create_future()
        pid = started.popen.pid
        row = proctable.read_row(pid)
        self.identity = ProcessIdentity(
            pid, row.start if row else 0, proctable.boot_id(), order.spawn_id
        )
        self.host = host
        self.adopts_orphans = adopts_orphans
        self.tag = started.tag
        self._seen: set[tuple[int, int]] = set()
        self._popen = started.popen
        self._stops = 0
        self._left_behind = 0
        self._killed: set[tuple[int, int]] = set()
        self._report: StopReport | None = None

    async def wait(self) -> ProcessExit:
        """Wait for the first process to end; what it started may live on until `sweep`."""
        return await asyncio.shield(self.exit)

    async def sweep(self, grace: float) -> StopReport:
        """Wait for the exit, then end what the process left behind."""
        await self.wait()
        if self._report is None:
            # Called again, it counts what not even KILL ended among what it met at first.
            self._left_behind = max(self._left_behind, len(_living(self)))
        return await self.stop(grace)

    async def stop(self, grace: float) -> StopReport:
        """End the whole tree; a second call with less grace cuts the first one short."""
        if self._report is not None:
            return self._report
        self._stops += 1
        try:
            survivors = await containment.end(partial(_living, self), grace, self._killed)
        finally:
            self._stops -= 1
        if survivors:
            how = self.exit.result() if self.exit.done() else None
            return StopReport(how, bool(self._killed), len(self._killed), survivors)
        await self.wait()
        return self._close()

    def watch(self) -> None:
        """Have the event loop notice the exit: by pidfd, else by a thread that waits for it."""
        _started[self.identity.pid] = self
        if self.tag is not None:
            _tagged[self.tag] = self
        loop = asyncio.get_running_loop()
        handle = containment.open_pidfd(self.identity.pid)
        if handle is not None:
            loop.add_reader(handle, self._handle_ready, loop, handle)
            return

        def wait() -> None:
            code = self._popen.wait()
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(self._ended, _exit_of(code))

        threading.Thread(target=wait, name=f"exit-of-{self.identity.pid}", daemon=True).start()

    def _handle_ready(self, loop: asyncio.AbstractEventLoop, handle: int) -> None:
        loop.remove_reader(handle)
        os.close(handle)
        try:
            ended = os.waitid(os.P_PID, self.identity.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            ended = None
        if ended is None:
            self._ended(ProcessExit(None, None))
        elif ended.si_code == os.CLD_EXITED:
            self._ended(ProcessExit(ended.si_status, None))
        else:
            self._ended(ProcessExit(None, ended.si_status))

    def _ended(self, how: ProcessExit) -> None:
        if not self.exit.done():
            self.exit.set_result(how)
        if not self._stops and not _may_have_left(self):
            self._close()

    def _close(self) -> StopReport:
        if self._report is None:
            self._popen.poll()
            self.forget()
            # A log that could not be shortened is still a whole log.
            with contextlib.suppress(OSError):
                output.finish(self.order.log, self.order.log_cap)
            killed = len(self._killed)
            self._report = StopReport(
                self.exit.result(), bool(killed), killed, (), self._left_behind
            )
        return self._report

    def forget(self) -> None:
        """Give up the process; its number may now be given to another."""
        # Where a thread waits for the exit, the number may have been given away already.
        if _started.get(self.identity.pid) is self:
            del _started[self.identity.pid]
        if self.tag is not None:
            _tagged.pop(self.tag, None)

    def family(self, table: Table, roots: Iterable[int]) -> dict[int, Row]:
        """Find all that belongs to this process, given the orphans among it."""
        pid, start = self.identity.pid, self.identity.start_time
        leader = table.rows.get(pid)
        genuine = leader is None or leader.start == start
        return table.family((*roots, *([pid] * genuine)), pid if genuine else None, self._seen)

    def has_seen(self, row: Row) -> bool:
        """Tell whether that process was below this one when somebody last looked."""
        return (row.pid, row.start) in self._seen


def started_by(host: object) -> tuple[AgentProcess, ...]:
    """List what this host started and of which something may be left."""
    return tuple(process for process in _started.values() if process.host is host)


def _may_have_left(process: AgentProcess) -> bool:
    """Tell quickly whether an ended process may have left something; False is certain.

    All orphans of its tree became children of this process before its end could be noticed.
    """
    if not process.adopts_orphans:
        return True
    own_session = os.getsid(0)
    for pid in proctable.own_children():
        if pid in _started:
            continue
        session = _session_of(pid)
        if session == process.identity.pid:
            return True
        if session in (None, own_session):
            continue
        tag = lineage.read(pid)
        if process.tag is None if tag is None else _tagged.get(tag, process) is process:
            return True
    return False


def _living(process: AgentProcess) -> dict[int, Row]:
    """Find all that is alive of a process and its tree."""
    # The table is not read in one instant: a process can hide from one look while its parent
    # dies, but not from two.
    for _ in range(2):
        if process.exit.done() and not _may_have_left(process):
            break
        table = proctable.read_table()
        orphans = orphans_in(table, process, adopted=process.adopts_orphans).get(process, ())
        members = process.family(table, orphans)
        alive = {pid: row for pid, row in members.items() if not row.dead}
        if alive:
            return alive
    return {}


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
        owner = None if pid in _started else _origin(row, heir)
        if owner is not None and row.dead:
            containment.reap(pid)
        elif owner is not None:
            found.setdefault(owner, []).append(pid)
    return found


def _origin(orphan: Row, heir: AgentProcess | None) -> AgentProcess | None:
    if orphan.sid == os.getsid(0):
        # Agents leave our session, and nobody can join one: other code of ours started this.
        return None
    if orphan.sid in _started:
        return _started[orphan.sid]
    tag = lineage.read(orphan.pid)
    if tag is not None:
        # Left behind by one that is gone already: whoever looks now may end it.
        return _tagged.get(tag, heir)
    mark = proctable.read_mark(orphan.pid)
    for process in _started.values():
        if process.identity.mark == mark or process.has_seen(orphan):
            return process
    return None


def _marked(table: Table) -> dict[AgentProcess, list[int]]:
    by_mark = {process.identity.mark: process for process in _started.values()}
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


def _exit_of(returncode: int) -> ProcessExit:
    return ProcessExit(None, -returncode) if returncode < 0 else ProcessExit(returncode, None)
