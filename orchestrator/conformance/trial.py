"""One run of the agent program under test: started, fed, watched, ended, and all facts about it.

It gives facts only; whether they are good is judged by the cases. It must leave no process, and
uses the same parts that run agents in a loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.conformance.prompt_pipe import PromptPipe
from orchestrator.conformance.trial_log import TrialLog
from runtime import environment, proc_table
from runtime.agents.adapter import Target
from runtime.agents.outcome import Ending
from runtime.agents.parsing.fields import line_of
from runtime.process import SpawnOrder, TerminalManager
from runtime.processes import termination

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from orchestrator.conformance.subject import AgentUnderTest
    from runtime.agents.adapter import Launch, Stop
    from runtime.agents.outcome import RunOutcome
    from runtime.process import AgentProcess, ProcessExit, StopReport
    from runtime.processes.activity import Activity

_LOOK = 0.02
"""Seconds between two looks at a run."""
_MEASURE = 0.25
"""Seconds between two measurements, at most."""
_SWEEP_GRACE = 2.0
_PATIENCE, _MOMENT = 5.0, 0.001
_TICKS = 100.0
_IDLE_SHARE = 0.005
"""Of one core; timers of idle programs use that much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One run."""

    attempt: int
    prompt: bytes
    work: Path
    spawn_id: str
    launch: Launch
    source: Mapping[str, str]
    """The runner's variables."""
    own: Mapping[str, str]
    """What every attempt is told by the environment."""
    log: Path
    pipe: Path
    until: Callable[[], bool] | None = None
    """Once it holds, the program is stopped as its adapter says."""
    idle: bool = False
    """Whether the idle rule holds; a real model may think for longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """The facts of a run."""

    outcome: RunOutcome | None
    """None: the parser failed; `problem` says how."""
    problem: str
    exit: ProcessExit | None
    seconds: float
    ended_by: Ending | None
    """Why the kit ended it: killed (as ordered), hang (idle), timeout; None: by itself."""
    obeyed: bool
    """Whether it ended on a signal of the stop order, within its grace."""
    stop_seconds: float
    report: StopReport
    unread: int
    """Bytes of the prompt that nobody read."""
    written: int
    """Bytes that it printed."""
    kept: int
    """Bytes of that on disk."""
    grown: int
    """Bytes that the runner's memory grew by."""
    environ: Mapping[str, str] | None
    """What it was started with, as the kernel tells; None where it does not."""
    lines: tuple[bytes, ...] = field(repr=False)

    @property
    def code(self) -> int | None:
        """The exit code, negative for a signal; None when nobody saw it."""
        if self.exit is None or self.exit.signal is None:
            return None if self.exit is None else self.exit.code
        return -self.exit.signal

    @property
    def ending(self) -> str:
        """How it ended, in one word."""
        return "unreadable" if self.outcome is None else str(self.outcome.outcome)


def shown(ran: Ran) -> str:
    """Name the outcome, and why."""
    if ran.outcome is None or not ran.outcome.detail:
        return ran.ending
    return f"{ran.ending} ({line_of(ran.outcome.detail, 200)})"


def unfinished(ran: Ran) -> str:
    """Say why a run is incomplete; '' if it ended by itself and left no process."""
    if ran.ended_by is not None:
        return f"it did not end by itself within {ran.seconds:.0f} s"
    if ran.report.survivors:
        return f"processes {list(ran.report.survivors)} survived even KILL"
    return f"its parser failed: {ran.problem}" if ran.outcome is None else ""


def facts_of(ran: Ran) -> dict[str, Any]:
    """Return what every verdict on a run is judged by."""
    found: dict[str, Any] = {
        "outcome": ran.ending,
        "exit_code": ran.code,
        "run_seconds": round(ran.seconds, 2),
        "printed_bytes": ran.written,
        "unread_prompt_bytes": ran.unread,
        "left_behind": ran.report.left_behind,
    }
    if ran.outcome is not None:
        found |= {
            "detail": ran.outcome.detail,
            "tool_calls": ran.outcome.tool_calls,
            "denied": list(ran.outcome.denied),
            "cost_usd": ran.outcome.cost_usd,
        }
    return found


async def run(subject: AgentUnderTest, order: Order) -> Ran:
    """Run the program to its end; SpawnError when it cannot be started."""
    env = order.launch.environment(environment.allowed(order.source), order.source)
    manager = TerminalManager(order.work, environ=env)
    with PromptPipe(order.pipe, order.prompt) as pipe:
        process = await manager.spawn(
            SpawnOrder(
                agent_id="agent-conformance",
                attempt=order.attempt,
                spawn_id=order.spawn_id,
                command=order.launch.argv,
                cwd=order.work,
                stdin=order.pipe,
                log=order.log,
                env=order.own,
                log_cap=subject.bounds.log_cap,
                inherit=tuple(env),
            )
        )
        try:
            return await _Watch(subject, order, manager, process, pipe).through()
        finally:
            await asyncio.shield(process.stop(0.0))


class _Watch:
    """Watches one process to its end."""

    def __init__(
        self,
        subject: AgentUnderTest,
        order: Order,
        manager: TerminalManager,
        process: AgentProcess,
        pipe: PromptPipe,
    ) -> None:
        self._subject, self._order = subject, order
        self._manager, self._process, self._pipe = manager, process, pipe
        self._parser = subject.adapter.parser(subject.now, live=False)
        self._reading = TrialLog(order.log, self._parser)
        self._clock = asyncio.get_running_loop().time
        self._began = self._quiet_since = self._measured_at = self._clock()
        self._seen: Activity | None = None
        self._memory = self._most = _resident()

    async def through(self) -> Ran:
        try:
            # Nothing of the prompt is there before this, so it cannot have ended by itself.
            environ = await self._environment()
            self._pipe.pour()
            why = await self._watch()
            ended = self._clock()
            obeyed = why is not None and await self._ask(self._subject.adapter.stop)
            stopping = why and not obeyed
            report = await (
                self._process.stop(0.0) if stopping else self._process.sweep(_SWEEP_GRACE)
            )
            stop_seconds = self._clock() - ended
            await self._reading.read_out()
            outcome, problem = self._judged(report.exit, why)
            return Ran(
                outcome=outcome,
                problem=problem,
                exit=report.exit,
                seconds=ended - self._began,
                ended_by=why,
                obeyed=obeyed,
                stop_seconds=stop_seconds,
                report=report,
                unread=self._pipe.unread(),
                written=self._reading.written,
                kept=self._order.log.stat().st_blocks * 512,
                grown=max(self._most, _resident()) - self._memory,
                environ=environ,
                lines=tuple(self._reading.lines),
            )
        finally:
            self._reading.close()

    async def _environment(self) -> dict[str, str] | None:
        """Read its variables; the kernel shows them a moment after the program was started."""
        until = self._clock() + _PATIENCE
        while not self._process.exit.done() and self._clock() < until:
            found = _environ(self._process.identity.pid)
            if found is None or proc_table.MARK_VARIABLE in found:
                return found
            await asyncio.wait({self._process.exit}, timeout=_MOMENT)
        return None

    async def _watch(self) -> Ending | None:
        """Watch until it ended, or has to be ended; return why."""
        bounds = self._subject.bounds
        until = self._order.until
        while not self._process.exit.done():
            await asyncio.wait({self._process.exit}, timeout=_LOOK)
            self._reading.go_on()
            now = self._clock()
            self._measure(now)
            if self._process.exit.done():
                break
            if until is not None and until():
                if bounds.settle:
                    await asyncio.wait({self._process.exit}, timeout=bounds.settle)
                return None if self._process.exit.done() else Ending.KILLED
            if self._order.idle and now - self._quiet_since >= bounds.idle:
                return Ending.HANG
            if now - self._began >= bounds.timeout:
                return Ending.TIMEOUT
        return None

    def _measure(self, now: float) -> None:
        """Take a measurement when it is time; the log is kept below its cap on the way."""
        if now - self._measured_at < min(_MEASURE, self._subject.bounds.idle / 8):
            return
        self._measured_at = now
        self._most = max(self._most, _resident())
        found = self._manager.sample().get(self._order.spawn_id)
        if found is None:
            return
        seen = self._seen
        if seen is None or self._moved(seen, found, now):
            self._seen, self._quiet_since = found, now

    def _moved(self, seen: Activity, found: Activity, now: float) -> bool:
        if (found.log_size, found.processes) != (seen.log_size, seen.processes):
            return True
        used = abs(found.cpu_ticks - seen.cpu_ticks) / _TICKS
        return used > _IDLE_SHARE * (now - self._quiet_since) + 1 / _TICKS

    async def _ask(self, stop: Stop) -> bool:
        """Signal it as its adapter says; tell whether it ended on that."""
        for name in stop.signals:
            number = signal.Signals[name if name.startswith("SIG") else f"SIG{name}"]
            self._send(number, stop.to)
            await asyncio.wait({self._process.exit}, timeout=stop.grace)
            if self._process.exit.done():
                return True
        return False

    def _send(self, number: signal.Signals, to: Target) -> None:
        pid = self._process.identity.pid
        row = proc_table.read_row(pid)
        if row is None or row.start != self._process.identity.start_time:
            return
        if to is Target.PID:
            termination.send(row, number)
            return
        # It leads its own group and is not reaped before `stop` or `sweep`.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, number)

    def _judged(self, how: ProcessExit | None, why: Ending | None) -> tuple[RunOutcome | None, str]:
        if self._reading.problem:
            return None, self._reading.problem
        code, number = (None, None) if how is None else (how.code, how.signal)
        try:
            return self._parser.finish(code, number, self._reading.tail(), why), ""
        except Exception as problem:  # noqa: BLE001  # an adapter's own code; that is a finding
            return None, f"{type(problem).__name__}: {problem}"


def _environ(pid: int) -> dict[str, str] | None:
    try:
        data = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return None
    pairs = (os.fsdecode(each).partition("=") for each in data.split(b"\0") if each)
    return {name: value for name, _, value in pairs}


def _resident() -> int:
    """Return how much memory this process takes, in bytes."""
    row = proc_table.read_row(os.getpid())
    return 0 if row is None else row.resident
