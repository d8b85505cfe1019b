"""Agents that are programs: each a process tree of its own, in a container if that was asked for.

Joins an instance to `TerminalManager`, which owns the tree. It must not know why an instance ends,
nor whether it is started again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lifecycle.fleet.body import Failure, Signs, Stopped, within
from lifecycle.fleet.errors import AgentInitializationError, IsolationUnavailableError
from lifecycle.fleet.options import AgentPriority
from runtime.errors import ShortageError, SpawnError
from runtime.isolation.errors import IsolationUnavailableError as BoxUnavailable
from runtime.limits import LimitUnavailableError
from runtime.output import tail

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lifecycle.clock import Clock, Timer
    from lifecycle.fleet.orders import Orders
    from lifecycle.ports import Terminals
    from runtime.activity import Activity
    from runtime.isolation.box import Box
    from runtime.process import AgentProcess, ProcessExit, SpawnOrder

    BoxFor = Callable[[SpawnOrder, Path | None], Awaitable["Boxed"]]

MAILBOX = "communications.json"
TICKS_PER_SECOND = 100.0
SWEEP_GRACE = 5.0
"""Seconds for what a program left behind."""
LOOK_AGAIN = 1.0
_READY_STEP = 0.02
_FOREVER = 86_400.0
_LAST_WORDS = 2000
_NICE = {AgentPriority.LOW: 10, AgentPriority.HIGH: -5, AgentPriority.CRITICAL: -10}


@dataclass(frozen=True, slots=True)
class Boxed:
    """The box of one start, and what was not to be had."""

    box: Box | None
    weaker: str = ""


class CommandBody:
    """One start of a program."""

    def __init__(
        self,
        *,
        orders: Orders,
        terminals: Terminals,
        box_for: BoxFor,
        clock: Clock,
        failed: Callable[[Failure], None],
    ) -> None:
        self.mark = orders.mark
        self._orders = orders
        self._instance, self._runs = orders.instance, orders.runs
        self._limits, self._log = orders.limits, orders.log
        self._terminals, self._box_for, self._clock = terminals, box_for, clock
        self._failed = failed
        self._process: AgentProcess | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._yielding: asyncio.Task[Any] | None = None
        self._stopping = False
        self._weaker: tuple[str, ...] = ()
        self._boxed = Boxed(None)
        self._timer: Timer | None = None
        self._left = 0.0
        if self._limits is not None:
            self._left = self._limits.execution_timeout.total_seconds()
        self._armed_at = 0.0
        self._overtime = False
        self._seen: tuple[int, int, int] | None = None

    @property
    def containment(self) -> str:
        """What keeps it in, in words."""
        if self._boxed.box is not None and not self._boxed.box.whole:
            net = "the machine's network" if self._boxed.box.network else "no network"
            kept = f"{self._boxed.box.engine}: its workspace, a read-only system and {net}"
        elif self._boxed.box is not None:
            kept = "a process tree of its own without a network; it may do what its user may"
        else:
            kept = "a process tree of its own; it may do what its user may"
        return "; but ".join((kept, *filter(None, (self._boxed.weaker, *self._weaker))))

    # --- its start ----------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the program and wait until it is ready."""
        try:
            order, context = self._orders.prepare()
            boxed = await self._box_for(order, context)
            self._boxed = boxed
            if boxed.box is not None:
                order = replace(order, box=boxed.box)
            self._process = await self._terminals.spawn(order)
        except (BoxUnavailable, LimitUnavailableError) as problem:
            raise IsolationUnavailableError(str(problem)) from problem
        except (SpawnError, ShortageError, OSError) as problem:
            raise AgentInitializationError(str(problem)) from problem
        self._weaker = tuple(self._process.weaker)
        self._set_priority(self._process.identity.pid)
        self._watcher = asyncio.get_running_loop().create_task(
            self._watch(self._process), name=f"exit of {self.mark}"
        )
        if self._runs.ready_text:
            await self._until_ready(self._process, self._runs.ready_text)
        self._arm()

    def _set_priority(self, pid: int) -> None:
        options = self._instance.spawn_options
        nice = _NICE.get(options.priority) if options is not None else None
        if nice is not None:
            # Only who may do anything may raise one; a wish that costs nothing is no failure.
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, pid, nice)

    async def _until_ready(self, process: AgentProcess, text: str) -> None:
        wanted = text.encode()
        while not process.exit.done():
            if self._log.exists() and wanted in self._log.read_bytes():
                return
            await asyncio.sleep(_READY_STEP)
        raise AgentInitializationError(
            f"{self._runs.command[0]} ended before it was ready: "
            f"{_how(process.exit.result(), process.limit_reached)}. It said last: "
            f"{tail(self._log, _LAST_WORDS) or 'nothing'}"
        )

    # --- its end ------------------------------------------------------------------------------

    async def _watch(self, process: AgentProcess) -> None:
        how = await process.wait()
        while True:
            # As long as something of it is left, no other start may take its place.
            with contextlib.suppress(OSError):
                if not (await process.sweep(SWEEP_GRACE)).survivors:
                    break
            await asyncio.sleep(LOOK_AGAIN)
        self._disarm()
        if not self._stopping:
            self._failed(self._failure(how, process.limit_reached))

    def _failure(self, how: ProcessExit, limit: str) -> Failure:
        if self._overtime and self._limits is not None:
            limit = f"execution timeout {self._limits.execution_timeout.total_seconds():g} s"
        details = {"exit_code": how.code, "signal": how.signal, "limit": limit or None}
        shown = {name: value for name, value in details.items() if value is not None}
        if not limit and how.code == 0:
            return Failure("", details=shown)
        words = tail(self._log, _LAST_WORDS)
        said = f"; it said last: {words.splitlines()[-1]}" if words.strip() else ""
        return Failure(f"{_how(how, limit)}{said}", details=shown)

    async def stop(self, grace: float, *, force: bool) -> Stopped:
        """End the whole tree; without force only ask it to end."""
        self._stopping = True
        self._disarm()
        process = self._process
        if process is None:
            return Stopped(gone=True, graceful=True)
        if not force:
            if self._yielding is None:
                self._yielding = asyncio.get_running_loop().create_task(
                    process.stop(_FOREVER), name=f"asked to end: {self.mark}"
                )
            if not await within(self._clock, self._yielding, grace):
                return Stopped(gone=False, graceful=False)
        report = await process.stop(grace)
        if self._yielding is not None:
            await asyncio.wait({self._yielding})
        if report.survivors:
            pids = ", ".join(map(str, report.survivors))
            return Stopped(
                gone=False, graceful=False, problems=(f"would not die, even by KILL: {pids}",)
            )
        if self._watcher is not None:
            await asyncio.wait({self._watcher})
        return Stopped(gone=True, graceful=not report.forced)

    def _arm(self) -> None:
        if self._left > 0 and not self._stopping:
            self._armed_at = self._clock.now()
            self._timer = self._clock.call_at(self._armed_at + self._left, self._too_long)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._left = max(0.001, self._left - (self._clock.now() - self._armed_at))

    def _too_long(self) -> None:
        self._timer = None
        if self._process is not None and not self._stopping:
            self._overtime = True
            self._yielding = asyncio.get_running_loop().create_task(
                self._process.stop(0.0), name=f"execution timeout of {self.mark}"
            )

    # --- in between ---------------------------------------------------------------------------

    async def suspend(self) -> None:
        """Freeze the whole tree and its execution timeout."""
        if self._process is not None:
            await self._process.suspend()
            self._disarm()

    async def resume(self) -> None:
        """Let it go on."""
        if self._process is not None:
            await self._process.resume()
            self._arm()

    async def check(self, command: tuple[str, ...], seconds: float) -> str:
        """Run a health check in the same folder, box and limits; nothing of it is left."""
        if self._process is None:
            return "it has not started"
        order = replace(
            self._process.order,
            command=command,
            spawn_id=f"{self.mark}.check",
            stdin=Path(os.devnull),
            log=self._log.with_name(f"{self._log.stem}.check.log"),
        )
        try:
            process = await self._terminals.spawn(order)
        except (SpawnError, ShortageError, OSError) as problem:
            return str(problem)
        try:
            async with asyncio.timeout(seconds):
                how = await process.wait()
        except TimeoutError:
            return f"{command[0]} took longer than {seconds:g} s"
        finally:
            await process.stop(0.0)
        return "" if how.code == 0 else f"{command[0]}: {_how(how, process.limit_reached)}"

    def look(self, activity: Activity | None) -> Signs:
        """Return its signs of life: output, processor time, mail."""
        if activity is None:
            return Signs(moved=False)
        now = (activity.log_size, activity.cpu_ticks, self._mail())
        moved, self._seen = self._seen is not None and now != self._seen, now
        return Signs(
            moved=moved,
            memory_bytes=activity.memory_bytes,
            cpu_seconds=activity.cpu_ticks / TICKS_PER_SECOND,
            processes=activity.processes,
            output_bytes=activity.log_size,
        )

    def _mail(self) -> int:
        if self._process is None:
            return 0
        try:
            return os.stat(self._process.order.cwd / MAILBOX).st_mtime_ns  # noqa: PTH116  # for every agent on every pass
        except OSError:
            return 0

    def details(self) -> dict[str, Any]:
        """Return what the record shall say of it: by this a later runner knows it again."""
        if self._process is None:
            return {}
        identity = self._process.identity
        return {
            "pid": identity.pid,
            "start_time": identity.start_time,
            "boot_id": identity.boot_id,
            "mark": identity.mark,
            "log": str(self._log),
            "workspace": str(self._process.order.cwd),
        }

    async def keep_state(self) -> dict[str, Any]:
        """Its context and working folder stay where they are."""
        return {"final_state": str(self._orders.made())}

    def clean(self, *, everything: bool) -> None:
        """Remove what it worked with, but not its log; or all it ever wrote."""
        self._orders.clean(everything=everything)


def _how(how: ProcessExit, limit: str) -> str:
    if limit:
        return limit
    if how.signal is not None:
        return f"ended by signal {how.signal}"
    return f"exit code {how.code}" if how.code is not None else "ended, and nobody saw how"
