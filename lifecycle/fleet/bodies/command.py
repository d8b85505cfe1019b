"""Agents that are programs: each runs as a process tree of its own, in a sandbox if required.

Connects an instance to `TerminalManager`, which owns the tree. It must not know why an instance
ends, nor whether it is restarted.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lifecycle.fleet.api.options import AgentPriority
from lifecycle.fleet.bodies.body import BodyActivity, BodyFailure, StopResult, within
from lifecycle.fleet.bodies.token_rate import TokenRate
from lifecycle.fleet.errors import AgentInitializationError, IsolationUnavailableError
from runtime.agents import catalogue
from runtime.errors import RuntimeFault, SandboxUnavailableError, ShortageError, SpawnError
from runtime.limits import LimitUnavailableError
from runtime.logs.files import tail

if TYPE_CHECKING:
    from collections.abc import Callable

    from lifecycle.clock import Clock, Timer
    from lifecycle.fleet.bodies.command_order import CommandOrder
    from runtime.process import AgentProcess, ProcessExit, TerminalManager
    from runtime.processes.activity import Activity

MAILBOX = "communications.json"
TICKS_PER_SECOND = 100.0
SWEEP_GRACE = 5.0
"""Seconds for the processes that a program left behind."""
SWEEP_INTERVAL = 1.0
_READY_STEP = 0.02
_FOREVER = 86_400.0
_NO_END = 2**63
_LAST_WORDS = 2000
_NICE = {AgentPriority.LOW: 10, AgentPriority.HIGH: -5, AgentPriority.CRITICAL: -10}


class CommandBody:
    """One start of a program."""

    def __init__(
        self,
        *,
        order: CommandOrder,
        terminals: TerminalManager,
        clock: Clock,
        failed: Callable[[BodyFailure], None],
    ) -> None:
        self.mark = order.mark
        self._order = order
        self._limits, self._log = order.options.resource_limits, order.log
        self._terminals, self._clock = terminals, clock
        self._failed = failed
        self._process: AgentProcess | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._stop_task: asyncio.Task[Any] | None = None
        self._stopping = False
        self._timer: Timer | None = None
        self._left = 0.0
        if self._limits is not None:
            self._left = self._limits.execution_timeout.total_seconds()
        self._armed_at = 0.0
        self._timed_out = False
        self._seen: tuple[int, int, int] | None = None
        self._rate = self._token_rate()
        self._suspended = self._held = False
        """Whether it is frozen because somebody asked for it, or for its tokens."""
        self._freezing = asyncio.Lock()
        self._regulation: asyncio.Task[None] | None = None
        self._unheld = ""
        """Why it could not be frozen for its tokens."""

    def _token_rate(self) -> TokenRate | None:
        adapter = self._order.runs.adapter
        if not adapter:
            return None
        limit = self._limits.max_tokens_per_minute if self._limits is not None else 0
        return TokenRate(catalogue.adapter(adapter), self._log, limit or _NO_END, self._clock.now)

    @property
    def containment(self) -> str:
        """What isolates it, in words."""
        if self._process is None:
            return "nothing: it has not started"
        order = self._process.order
        return "; but ".join((order.contained, *order.weaker, *self._process.weaker))

    # --- its start ----------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the program and wait until it is ready."""
        try:
            order = await self._order.prepare(self._terminals)
            self._process = await self._terminals.spawn(order)
        except (SandboxUnavailableError, LimitUnavailableError) as problem:
            raise IsolationUnavailableError(str(problem)) from problem
        except (SpawnError, ShortageError, OSError) as problem:
            raise AgentInitializationError(str(problem)) from problem
        self._set_priority(self._process.identity.pid)
        self._watcher = asyncio.get_running_loop().create_task(
            self._watch(self._process), name=f"exit of {self.mark}"
        )
        if self._order.runs.ready_text:
            await self._wait_until_ready(self._process, self._order.runs.ready_text)
        self._arm()

    def _set_priority(self, pid: int) -> None:
        nice = _NICE.get(self._order.options.priority)
        if nice is not None:
            # Raising a priority needs privileges; a refusal must not fail the start.
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, pid, nice)

    async def _wait_until_ready(self, process: AgentProcess, text: str) -> None:
        wanted = text.encode()
        while not process.exit.done():
            if self._log.exists() and wanted in self._log.read_bytes():
                return
            await asyncio.sleep(_READY_STEP)
        raise AgentInitializationError(
            f"{self._order.runs.command[0]} ended before it was ready: "
            f"{_how(process.exit.result(), process.limit_reached)}. Its last output: "
            f"{tail(self._log, _LAST_WORDS) or 'none'}"
        )

    # --- its end ------------------------------------------------------------------------------

    async def _watch(self, process: AgentProcess) -> None:
        how = await process.wait()
        while True:
            # While any of its processes is left, no other start may take its place.
            with contextlib.suppress(OSError):
                if not (await process.sweep(SWEEP_GRACE)).survivors:
                    break
            await asyncio.sleep(SWEEP_INTERVAL)
        self._disarm()
        if self._rate is not None:
            self._rate.close()
        if not self._stopping:
            self._failed(self._failure(how, process.limit_reached))

    def _failure(self, how: ProcessExit, limit: str) -> BodyFailure:
        if self._timed_out and self._limits is not None:
            limit = f"execution timeout {self._limits.execution_timeout.total_seconds():g} s"
        details = {"exit_code": how.code, "signal": how.signal, "limit": limit or None}
        shown = {name: value for name, value in details.items() if value is not None}
        if not limit and how.code == 0:
            return BodyFailure("", details=shown)
        words = tail(self._log, _LAST_WORDS)
        said = f"; its last output: {words.splitlines()[-1]}" if words.strip() else ""
        return BodyFailure(f"{_how(how, limit)}{said}", details=shown)

    async def cancel_work(self, seconds: float) -> None:
        """Ask it to end: its run is its work."""
        self._stopping = True
        self._disarm()
        if self._process is not None:
            await asyncio.wait({self._ask_to_end(self._process)}, timeout=seconds)

    def _ask_to_end(self, process: AgentProcess) -> asyncio.Task[Any]:
        if self._stop_task is None:
            self._stop_task = asyncio.get_running_loop().create_task(
                process.stop(_FOREVER), name=f"asked to end: {self.mark}"
            )
        return self._stop_task

    async def stop(self, grace: float, *, force: bool) -> StopResult:
        """End the whole tree; without `force` only ask it to end."""
        self._stopping = True
        self._disarm()
        if self._rate is not None:
            self._rate.close()
        process = self._process
        if process is None:
            return StopResult(gone=True, graceful=True)
        if not force and not await within(self._clock, self._ask_to_end(process), grace):
            return StopResult(gone=False, graceful=False)
        report = await process.stop(grace)
        if self._stop_task is not None:
            await asyncio.wait({self._stop_task})
        if report.survivors:
            pids = ", ".join(map(str, report.survivors))
            return StopResult(gone=False, graceful=False, problems=(f"survived SIGKILL: {pids}",))
        if self._watcher is not None:
            await asyncio.wait({self._watcher})
        return StopResult(gone=True, graceful=not report.forced)

    def _arm(self) -> None:
        if self._left > 0 and not self._stopping:
            self._armed_at = self._clock.now()
            self._timer = self._clock.call_at(self._armed_at + self._left, self._time_out)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._left = max(0.001, self._left - (self._clock.now() - self._armed_at))

    def _time_out(self) -> None:
        self._timer = None
        if self._process is not None and not self._stopping:
            self._timed_out = True
            self._stop_task = asyncio.get_running_loop().create_task(
                self._process.stop(0.0), name=f"execution timeout of {self.mark}"
            )

    # --- in between ---------------------------------------------------------------------------

    async def suspend(self) -> None:
        """Freeze the whole tree and its execution timeout."""
        await self._freeze(suspended=True)

    async def resume(self) -> None:
        """Resume the tree and its execution timeout, unless it is held back for its tokens."""
        await self._freeze(suspended=False)

    async def _freeze(self, *, suspended: bool | None = None, held: bool | None = None) -> None:
        """Freeze the tree for either reason, or resume it when there is none left."""
        async with self._freezing:
            process, was = self._process, self._suspended or self._held
            if process is None or self._stopping:
                return
            suspended = self._suspended if suspended is None else suspended
            held = self._held if held is None else held
            if (suspended or held) and not was:
                await process.suspend()
                self._disarm()
            elif was and not (suspended or held):
                await process.resume()
                self._arm()
            self._suspended, self._held = suspended, held

    async def _regulate(self, *, held: bool) -> None:
        try:
            await self._freeze(held=held)
            self._unheld = ""
        except RuntimeFault as problem:
            self._unheld = str(problem)

    def _over_limit(self) -> str:
        """Hold it back while the last minute holds too many tokens; say so."""
        rate = self._rate
        if rate is None or self._stopping:
            return ""
        rate.read()
        over = rate.is_over
        idle = self._regulation is None or self._regulation.done()
        if over is not self._held and idle:
            self._regulation = asyncio.get_running_loop().create_task(
                self._regulate(held=over), name=f"tokens of {self.mark}"
            )
        if not over or self._limits is None:
            return ""
        how = "it is held back until the minute has room"
        return (
            f"{rate.last_minute} tokens in the last minute, max_tokens_per_minute is "
            f"{self._limits.max_tokens_per_minute}: {self._unheld or how}"
        )

    async def check(self, command: tuple[str, ...], seconds: float) -> str:
        """Run a health check in the same folder, sandbox and limits; end all that it started."""
        if self._process is None:
            return "the agent has not started"
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

    def sample(self, activity: Activity | None) -> BodyActivity:
        """Return its activity: output, processor time, mailbox; hold it back if it must be."""
        if activity is None:
            return BodyActivity(active=False)
        now = (activity.log_size, activity.cpu_ticks, self._mail())
        active, self._seen = self._seen is not None and now != self._seen, now
        return BodyActivity(
            active=active,
            memory_bytes=activity.memory_bytes,
            cpu_seconds=activity.cpu_ticks / TICKS_PER_SECOND,
            processes=activity.processes,
            output_bytes=activity.log_size,
            over_limit=self._over_limit(),
            tokens=self._rate.total if self._rate is not None else 0,
        )

    def _mail(self) -> int:
        if self._process is None:
            return 0
        try:
            return os.stat(self._process.order.cwd / MAILBOX).st_mtime_ns  # noqa: PTH116  # for every agent on every pass
        except OSError:
            return 0

    def details(self) -> dict[str, Any]:
        """Return the details for its record, by which a later runner recognizes it."""
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

    async def keep_state(self, seconds: float) -> dict[str, Any]:
        """Return where its context and working folder are; they stay there."""
        del seconds
        try:
            return {"final_state": str(self._order.create_folder())}
        except OSError as problem:
            return {"final_state_problem": f"the final state was not kept: {problem}"}

    def clean(self, *, everything: bool) -> None:
        """Remove the files it worked with but its log, or everything it ever wrote."""
        self._order.clean(everything=everything)


def _how(how: ProcessExit, limit: str) -> str:
    if limit:
        return limit
    if how.signal is not None:
        return f"ended by signal {how.signal}"
    return f"exit code {how.code}" if how.code is not None else "ended with an unknown status"
