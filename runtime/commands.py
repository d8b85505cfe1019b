"""Runs one shell command to its end: a gate, a test, a build.

Contained like an agent: own session, filtered environment, a time limit that ends the whole tree,
nothing left behind. It must not judge the result.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.limits import NO_LIMITS, Limits
from runtime.logs import files
from runtime.process import SpawnOrder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime.isolation.sandbox import Sandbox
    from runtime.process import AgentProcess, TerminalManager

_TRIM_STEP = 1.0
_LOG_CAP = 16 << 20
_EXCERPT = 8 << 10
_GRACE = 2.0
_NOTHING = Path(os.devnull)


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a command ended. After a timeout `signal` is what ended it."""

    command: str
    code: int | None
    signal: int | None
    timed_out: bool
    seconds: float
    log: Path
    excerpt: str
    limit_reached: str = ""

    @property
    def ok(self) -> bool:
        """It ended by itself, in time, with code 0."""
        return self.code == 0 and not self.timed_out


class CommandRunner:
    """Runs shell commands under a terminal manager, any number at once."""

    def __init__(
        self,
        terminals: TerminalManager,
        *,
        grace: float = _GRACE,
        log_cap: int = _LOG_CAP,
    ) -> None:
        self._terminals = terminals
        self._grace = grace
        self._log_cap = log_cap

    async def run(  # noqa: PLR0913  # each names one fact of the run
        self,
        command: str,
        *,
        cwd: Path,
        log: Path,
        timeout: float,  # noqa: ASYNC109  # a limit that is reported, not an error that is raised
        env: Mapping[str, str] | None = None,
        mark: str,
        limits: Limits = NO_LIMITS,
        sandbox: Sandbox | None = None,
        allow_weaker: bool = False,
        made: tuple[str, ...] | None = (),
        stdin: Path = _NOTHING,
    ) -> CommandResult:
        """Run `command` with `/bin/sh -c`, its output appended to `log`.

        `mark` is its spawn id, unique like an attempt's. Cancelling the call ends the command.
        Limits, sandbox and `made` are those of a `SpawnOrder`. SpawnError if it cannot be started.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        before = files.size(log)
        order = SpawnOrder(
            agent_id="",
            attempt=0,
            spawn_id=mark,
            command=("/bin/sh", "-c", command),
            cwd=cwd,
            stdin=stdin,
            log=log,
            env=env or {},
            log_cap=self._log_cap,
            limits=limits,
            sandbox=sandbox,
            allow_weaker=allow_weaker,
            made=made,
        )
        process = await self._terminals.spawn(order)
        try:
            timed_out = not await self._ended_by(process, began + timeout)
        finally:
            # Also on cancellation; leftovers of a finished command get the same grace.
            report = await process.stop(self._grace)
        seconds = loop.time() - began
        how = report.exit
        return CommandResult(
            command=command,
            code=how.code if how else None,
            signal=how.signal if how else None,
            timed_out=timed_out,
            seconds=seconds,
            log=log,
            excerpt=files.tail(log, _EXCERPT, before),
            limit_reached=process.limit_reached,
        )

    async def _ended_by(self, process: AgentProcess, deadline: float) -> bool:
        loop = asyncio.get_running_loop()
        while not process.exit.done() and (left := deadline - loop.time()) > 0:
            await asyncio.wait((process.exit,), timeout=min(left, _TRIM_STEP))
            files.trim(process.order.log, process.order.log_cap)
        return process.exit.done()
