"""One child process and its tree: exit, termination, limits, suspending (freezing) it.

A tree is suspended by the freezer of its control group if it has one, else by SIGSTOP to every
member. It must not start processes, nor know why one runs, is suspended or ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from runtime import async_subprocess, proc_table
from runtime.errors import RuntimeFault
from runtime.logs import files
from runtime.processes import activity, orphans, termination
from runtime.processes.termination import ProcessIdentity

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from runtime.proc_tree import ProcessRow
    from runtime.processes.activity import Activity
    from runtime.processes.cgroups.groups import Group
    from runtime.processes.launch import SpawnOrder, StartedProcess

_FREEZE_PATIENCE = 5.0
_FREEZE_STEP = 0.002


class SuspendError(RuntimeFault):
    """A process tree cannot be suspended."""


class Suspension:
    """One suspended tree. `find` finds what is alive of it."""

    def __init__(self, find: Callable[[], Mapping[int, ProcessRow]], group: Group | None) -> None:
        self._find = find
        self._group = group if group is not None and group.freezes else None
        self._held: set[tuple[int, int]] = set()

    async def begin(self) -> bool:
        """Stop everything; False if that fails."""
        if self._group is not None:
            self._group.freeze(frozen=True)
            deadline = asyncio.get_running_loop().time() + _FREEZE_PATIENCE
            while not (self._group.frozen() or self._group.empty()):
                if asyncio.get_running_loop().time() > deadline:
                    return False
                await asyncio.sleep(_FREEZE_STEP)
        # Without a group these are all members; else only those that left it.
        return await termination.hold(self._outside, self._held)

    def _outside(self) -> dict[int, ProcessRow]:
        inside = set() if self._group is None else self._group.members()
        return {pid: row for pid, row in self._find().items() if pid not in inside}

    def end(self) -> None:
        """Resume it; processes that others had stopped before stay stopped."""
        if self._group is not None:
            self._group.freeze(frozen=False)
        if self._held:
            termination.release(self._find().values(), self._held)


_STEP = 0.005
_LOOKS = 0.02
"""Seconds between two polls of a process without a pidfd."""
_CLEANUP_SECONDS = 30.0
_REMOVALS = 40
"""Attempts to remove a group in which the last process is just ending."""


@dataclass(frozen=True, slots=True)
class ProcessExit:
    """How a process ended: with a code or by a signal; neither if other code reaped it."""

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
    """Processes of it that were still alive after its own exit, when `sweep` ran."""


class AgentProcess:
    """A process that was started, with all it starts itself.

    After its exit call `sweep`: it ends what was left behind.
    Until then a dead first process is not reaped, so that its pid cannot be reused.
    """

    def __init__(self, order: SpawnOrder, started: StartedProcess, *, adopts_orphans: bool) -> None:
        self.order = order
        self.exit: asyncio.Future[ProcessExit] = asyncio.get_running_loop().create_future()
        self.identity = ProcessIdentity(
            started.popen.pid, started.start_time, proc_table.boot_id(), order.spawn_id
        )
        self.tree = orphans.ProcessTree(
            self.identity, started.tag, started.group, adopts_orphans=adopts_orphans
        )
        self.weaker = started.weaker
        """Which of its limits are not enforced as asked, and why."""
        self.limit_reached = ""
        """The limit that ended it, or made it fail, such as `memory limit 256 MB`."""
        self._group = started.group
        self._entry = started.entry
        self._cleanup = started.cleanup
        self._pump = started.pump
        self._rest: Suspension | None = None
        self._alarm: int | None = None
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
            # Called again, keep the count of the first call.
            self._left_behind = max(self._left_behind, len(orphans.living(self.tree)))
        return await self.stop(grace)

    async def stop(self, grace: float) -> StopReport:
        """End the whole tree; a second call with less grace cuts the first one short."""
        if self._report is not None:
            return self._report
        self._stops += 1
        try:
            await self.resume()
            survivors = await termination.end(self, grace, self._killed)
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
        """Freeze the whole tree, until `resume`; SuspendError if that fails."""
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
                "processes could not all be stopped. Stop it, or try again."
            )

    async def resume(self) -> None:
        """Resume a suspended tree; processes that others had stopped before stay stopped."""
        rest, self._rest = self._rest, None
        if rest is not None:
            rest.end()

    @property
    def suspended(self) -> bool:
        """It is suspended, or about to be."""
        return self._rest is not None and not self.exit.done()

    def watch(self) -> None:
        """Watch for the exit in the event loop: by pidfd, else by polling."""
        orphans.enrol(self.tree)
        loop = asyncio.get_running_loop()
        if self._pump is not None:
            self._pump.begin(loop)
        if self._group is not None and (alarm := self._group.memory_alarm()) is not None:
            self._alarm = alarm
            loop.add_reader(alarm, self._out_of_memory)
        handle = termination.open_pidfd(self.identity.pid)
        if handle is not None:
            loop.add_reader(handle, self._handle_ready, loop, handle)
            return
        # Another system, or no descriptor is left. Polling does not reap.
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
                self._pump.drain()  # its last output must be in the log before anybody reads that
            self.exit.set_result(how)
            self.tree.ended = True
            self._ending.set()
        if self._stops or self._cleanup or orphans.may_have_left(self.tree):
            return
        if self.tree.group_is_empty():
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
        """Kill the whole tree at once, because it exceeded that limit."""
        self.limit_reached = self.order.limits.text(limit)
        for row in orphans.living(self.tree).values():
            if termination.send(row, signal.SIGKILL):
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
                files.finish(self.order.log, self.order.log_cap)
            how, killed = self.exit.result(), len(self._killed)
            self._report = StopReport(how, bool(killed), killed, (), self._left_behind)
        return self._report

    def forget(self) -> None:
        """Drop the process; its pid may now be reused."""
        orphans.forget(self.tree)
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
        with contextlib.suppress(OSError):  # its program is gone, and so are its containers
            root = Path(os.sep)
            await async_subprocess.run_to_end(
                line, cwd=root, env=env, data=None, seconds=_CLEANUP_SECONDS
            )
        self._cleanup = None

    def find(self) -> dict[int, ProcessRow]:
        """Find all that is alive of it."""
        return orphans.living(self.tree)

    def strike(self) -> set[int]:
        """Kill at once what can be found of it, by its control group if it has one."""
        if self._group is not None:
            self._group.kill()
        return orphans.strike(self.tree)

    def measured(self, members: Collection[ProcessRow]) -> Activity:
        """Measure it, given its members, and enforce a memory limit that the kernel does not."""
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


def _exit_of(ended: os.waitid_result) -> ProcessExit:
    if ended.si_code == os.CLD_EXITED:
        return ProcessExit(ended.si_status, None)
    return ProcessExit(None, ended.si_status)
