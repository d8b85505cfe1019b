"""One child process and its tree: its exit, its end, its limits, its rest.

It must not start processes, and must not know why one runs or ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from runtime import activity, containment, orphans, output, proctable, shortrun
from runtime.containment import ProcessIdentity
from runtime.suspension import SuspendError, Suspension

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from runtime.activity import Activity
    from runtime.launch import SpawnOrder, Started
    from runtime.proctree import Row, Table

_STEP = 0.005
_LOOKS = 0.02
"""Seconds between two looks at a process whose end nothing tells of."""
_CLEANUP_SECONDS = 30.0
_REMOVALS = 40
"""How often it is tried to remove a group in which the last process is just ending."""


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
        self, order: SpawnOrder, started: Started, host: object, *, adopts_orphans: bool
    ) -> None:
        self.order = order
        self.exit: asyncio.Future[ProcessExit] = asyncio.get_running_loop().create_future()
        self.identity = ProcessIdentity(
            started.popen.pid, started.start_time, proctable.boot_id(), order.spawn_id
        )
        self.host = host
        self.adopts_orphans = adopts_orphans
        self.tag = started.tag
        self.weaker = started.weaker
        """What of its limits is not enforced as asked, and why."""
        self.limit_reached = ""
        """The limit that ended it, or made it fail, such as `memory limit 256 MB`."""
        self._group = started.group
        self._entry = started.entry
        self._cleanup = started.cleanup
        self._pump = started.pump
        self._rest: Suspension | None = None
        self._alarm: int | None = None
        self._seen: set[tuple[int, int]] = set()
        self._ending = asyncio.Event()
        self._popen = started.popen
        self._stops = 0
        self._left_behind = 0
        self._killed: set[tuple[int, int]] = set()
        self._report: StopReport | None = None

    async def wait(self) -> ProcessExit:
        """Wait for the first process to end; what it started may live on until `sweep`."""
        await self._ending.wait()
        return self.exit.result()

    async def sweep(self, grace: float) -> StopReport:
        """Wait for the exit, then end what the process left behind."""
        await self.wait()
        if self._report is None:
            # Called again, it counts what not even KILL ended among what it met at first.
            self._left_behind = max(self._left_behind, len(orphans.living(self)))
        return await self.stop(grace)

    async def stop(self, grace: float) -> StopReport:
        """End the whole tree; a second call with less grace cuts the first one short."""
        if self._report is not None:
            return self._report
        self._stops += 1
        try:
            await self.resume()
            survivors = await containment.end(self, grace, self._killed)
            if not survivors:
                await self._clean_up()
        finally:
            self._stops -= 1
        if survivors:
            how = self.exit.result() if self.exit.done() else None
            return StopReport(how, bool(self._killed), len(self._killed), survivors)
        await self.wait()
        return self._close()

    async def suspend(self) -> None:
        """Freeze the whole tree, until `resume`; SuspendError when it will not be frozen."""
        if self._rest is not None or self.exit.done():
            return
        self._rest = Suspension(self.find, self._group)
        held = False
        try:
            held = await self._rest.begin()
        finally:
            if not held:
                await self.resume()
        if not held:
            raise SuspendError(
                f"{self.order.command[0]} ({self.identity.pid}) cannot be suspended: its "
                "processes would not hold still. Stop it, or try again."
            )

    async def resume(self) -> None:
        """Let a suspended tree go on; who was stopped before by somebody else stays so."""
        rest, self._rest = self._rest, None
        if rest is not None:
            rest.end()

    @property
    def suspended(self) -> bool:
        """It is held still, or about to be."""
        return self._rest is not None and not self.exit.done()

    def watch(self) -> None:
        """Have the event loop notice the exit: by pidfd, else by looking again and again."""
        orphans.enrol(self)
        loop = asyncio.get_running_loop()
        if self._pump is not None:
            self._pump.begin(loop)
        if self._group is not None and (alarm := self._group.memory_alarm()) is not None:
            self._alarm = alarm
            loop.add_reader(alarm, self._out_of_memory)
        handle = containment.open_pidfd(self.identity.pid)
        if handle is not None:
            loop.add_reader(handle, self._handle_ready, loop, handle)
            return
        # Another system, or no descriptor is left: one that is dead is not reaped by looking.
        loop.call_later(_LOOKS, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            ended = os.waitid(os.P_PID, self.identity.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            self._ended(ProcessExit(None, None))
            return
        if ended is None:
            loop.call_later(_LOOKS, self._look, loop)
        else:
            self._ended(_exit_of(ended))

    def _handle_ready(self, loop: asyncio.AbstractEventLoop, handle: int) -> None:
        loop.remove_reader(handle)
        os.close(handle)
        try:
            ended = os.waitid(os.P_PID, self.identity.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            ended = None
        self._ended(ProcessExit(None, None) if ended is None else _exit_of(ended))

    def _ended(self, how: ProcessExit) -> None:
        if not self.exit.done():
            if self._group is not None:
                self._judge_limits(how)
            if self._pump is not None:
                self._pump.drain()  # its last words are in its log before anybody asks for them
            self.exit.set_result(how)
            self._ending.set()
        if self._stops or self._cleanup or orphans.may_have_left(self):
            return
        if self.group_is_empty():
            self._close()

    def _judge_limits(self, how: ProcessExit) -> None:
        if self._group is None or self.limit_reached:
            return
        if self._group.out_of_memory():
            self._out_of_memory()
        elif how.code != 0 and self._group.refused_processes():
            self.limit_reached = self.order.limits.text("processes")

    def _out_of_memory(self) -> None:
        self._silence()
        if not self.limit_reached:
            self.reach("memory_mb")

    def reach(self, limit: str) -> None:
        """End the whole tree at once, because it went over that limit."""
        self.limit_reached = self.order.limits.text(limit)
        for row in orphans.living(self).values():
            if containment.send(row, signal.SIGKILL):
                self._killed.add((row.pid, row.start))
        self.strike()

    def _silence(self) -> None:
        if self._alarm is not None:
            asyncio.get_running_loop().remove_reader(self._alarm)
            os.close(self._alarm)
            self._alarm = None

    def _close(self) -> StopReport:
        if self._report is None:
            self._popen.poll()
            self.forget()
            # A log that could not be shortened is still a whole log.
            with contextlib.suppress(OSError):
                output.finish(self.order.log, self.order.log_cap)
            how, killed = self.exit.result(), len(self._killed)
            self._report = StopReport(how, bool(killed), killed, (), self._left_behind)
        return self._report

    def forget(self) -> None:
        """Give up the process; its number may now be given to another."""
        orphans.forget(self)
        self._entry.leave()
        self._silence()
        if self._pump is not None:
            self._pump.close()
        if self._group is not None:
            self._remove_group(_REMOVALS)

    def _remove_group(self, tries: int) -> None:
        if self._group is not None and not self._group.remove() and tries:
            loop = asyncio.get_running_loop()
            loop.call_later(_STEP, self._remove_group, tries - 1)

    async def _clean_up(self) -> None:
        if self._cleanup is None:
            return
        line, env = self._cleanup
        with contextlib.suppress(OSError):  # its program is gone, and with it what it kept
            root = Path(os.sep)
            await shortrun.run_to_end(line, cwd=root, env=env, data=None, seconds=_CLEANUP_SECONDS)
        self._cleanup = None

    def find(self) -> dict[int, Row]:
        """Find all that is alive of it."""
        return orphans.living(self)

    def strike(self) -> set[int]:
        """Kill at once what can be met of it, by its group where it has one."""
        if self._group is not None:
            self._group.kill()
        return orphans.strike(self)

    def family(self, table: Table, roots: Iterable[int]) -> dict[int, Row]:
        """Find all that belongs to this process, given the orphans among it."""
        pid, start = self.identity.pid, self.identity.start_time
        leader = table.rows.get(pid)
        genuine = leader is None or leader.start == start
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

    def measured(self, members: Collection[Row]) -> Activity:
        """Measure it, given its members, and see to a memory limit that nobody else sees to."""
        counted = None if self._group is None else self._group.memory_bytes()
        seen = activity.measure(self.order.log, members, memory=counted, suspended=self.suspended)
        limit = (self.order.limits.memory_mb or 0) << 20
        if not limit or self.limit_reached:
            return seen
        if self._group is not None and counted is not None:
            above = self._group.out_of_memory()
        else:
            above = seen.memory_bytes > limit and activity.is_above(limit, members)
        if above:
            self.reach("memory_mb")
        return seen

    def has_seen(self, row: Row) -> bool:
        """Tell whether that process was below this one when somebody last looked."""
        return (row.pid, row.start) in self._seen


def _exit_of(ended: os.waitid_result) -> ProcessExit:
    if ended.si_code == os.CLD_EXITED:
        return ProcessExit(ended.si_status, None)
    return ProcessExit(None, ended.si_status)
