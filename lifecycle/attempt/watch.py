"""Watches one running agent: its mailbox, exit and limits. Emits facts, decides nothing."""

from __future__ import annotations

import asyncio
import contextlib
import traceback
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from communication.mailbox import MailboxReading, ReadingKind
from lifecycle.attempt.output_monitor import EndNow
from lifecycle.machine import events as on
from lifecycle.machine.budget import Spent
from lifecycle.machine.states import Process, RemarkReply, Signal
from lifecycle.reporting import silent
from lifecycle.shortage_retry import patiently
from runtime.agents.outcome import Ending
from runtime.processes.activity import newest_change
from runtime.shortage import shortage_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from communication.subscription import Subscription
    from lifecycle.attempt.output_monitor import Monitor
    from lifecycle.clock import Clock
    from lifecycle.reporting import Report
    from lifecycle.settings import Settings
    from runtime.process import AgentProcess, ProcessExit, ProcessIdentity
    from runtime.processes.activity import Activity
    from runtime.workspace import Workspace


class _Said(TypedDict):
    """What each fact of one process says."""

    at: float
    attempt: int
    spawn_id: str


IDLE_SHARE = 0.005
"""A tree that uses less of one core than this counts as quiet; timers of idle programs do."""
TICKS_PER_SECOND = 100.0
LOOK_AGAIN = 1.0
"""Seconds between two attempts to see that nothing of an agent is left."""


def no_budget(spent: Spent) -> str:
    """Afford whatever is used."""
    del spent
    return ""


def described(problem: Exception) -> str:
    """Name a fault and its place, without its text: that may quote what a program wrote."""
    last = traceback.extract_tb(problem.__traceback__)[-1:]
    where = "".join(
        f" in {frame.name}, {Path(frame.filename).name}:{frame.lineno}" for frame in last
    )
    return f"{type(problem).__name__}{where}"


def signal_from(reading: MailboxReading) -> Signal | None:
    """Return the breakpoint as the machine knows it."""
    said = reading.breakpoint
    if reading.kind is not ReadingKind.SIGNAL or said is None:
        return None
    return Signal(
        type=str(said.type),
        summary=said.summary,
        blocked_on=said.blocked_on,
        reason=said.reason,
        pr_url=said.pr_url or "",
        question=said.question,
        replies=tuple(RemarkReply(remark=each, text=text) for each, text in said.replies.items()),
    )


def process_of(identity: ProcessIdentity) -> Process:
    """Return the process as the machine knows it."""
    return Process(
        pid=identity.pid,
        start_time=identity.start_time,
        boot_id=identity.boot_id,
        spawn_id=identity.mark,
    )


class AttemptWatch:
    """Watches one running agent for its breakpoint, exit and limits."""

    def __init__(  # noqa: PLR0913  # all by name
        self,
        *,
        process: AgentProcess,
        attempt: int,
        workspace: Workspace,
        settings: Settings,
        clock: Clock,
        emit: Callable[[on.Event], None],
        monitor: Monitor | None = None,
        afford: Callable[[Spent], str] = no_budget,
        report_fault: Report = silent,
    ) -> None:
        self.process = process
        self.attempt = attempt
        self.workspace = workspace
        self.settings = settings
        self.since = clock.now()
        self._clock = clock
        self._emit = emit
        self._monitor = monitor
        self._afford = afford
        self._report_fault = report_fault
        self._mail: Subscription | None = None
        self._ending: asyncio.Task[None] | None = None
        self.quiet_since = self.since
        self._seen: Activity | None = None
        self._at_rest = 1
        """Processes while no tool ran: its own, and servers it keeps."""
        self._limit_told = False
        self._ours: Ending | None = None
        """Why we end the program, as its parser is to know it."""
        self.report: on.AgentReport | None = None
        """What the program told of the attempt, once it ended."""
        self._frozen_at: float | None = None
        self._freezing = asyncio.Lock()

    def begin(self, mail: Subscription) -> None:
        """Wait for the exit; words of the mailbox come by `heard`."""
        self._mail = mail
        self._ending = asyncio.get_running_loop().create_task(
            self._until_exit(), name=f"exit of {self.process.identity.mark}"
        )

    def heard(self, reading: MailboxReading) -> None:
        """Pass on what the mailbox says while the agent lives."""
        word = signal_from(reading)
        if reading.cause is not None and shortage_of(reading.cause):
            return  # it is looked at again, and says nothing about what the agent wrote
        if word is not None:
            self._emit(on.BreakpointReached(**self._said(), word=word))
        elif reading.problem:
            self._emit(on.MailboxInvalid(**self._said(), problem=reading.problem))

    def _said(self) -> _Said:
        """Return what each fact of this process says: when, and of which it speaks."""
        mark = self.process.identity.mark
        return {"at": self._clock.now(), "attempt": self.attempt, "spawn_id": mark}

    async def stop(self, grace: float) -> on.AgentStopped:
        """End the whole tree and take its last word; the exit is not told any more."""
        if self._ending is not None:
            self._ending.cancel()
        while True:
            report = await self.process.stop(grace)
            if not report.survivors:
                break
            await asyncio.sleep(LOOK_AGAIN)  # as in _until_exit
        last = await self._last_look()
        how, word = report.exit, signal_from(last)
        return on.AgentStopped(
            **self._said(),
            exit_code=how.code if how else None,
            signal=how.signal if how else None,
            forced=report.forced,
            swept=report.killed,
            word=word,
            report=self._reported(how, self._ours or Ending.KILLED, spoke=word is not None),
        )

    def close(self) -> None:
        """Look no more."""
        if self._monitor is not None:
            self._monitor.close()
        if self._mail is not None:
            self._mail.close()
        if self._ending is not None:
            self._ending.cancel()

    async def freeze(self) -> None:
        """Hold the tree still; none of its clocks runs until it is thawed."""
        async with self._freezing:
            await self.process.suspend()
            if self._frozen_at is None:
                self._frozen_at = self._clock.now()

    async def thaw(self) -> None:
        """Let the process tree and its clocks continue."""
        async with self._freezing:
            await self.process.resume()
            if self._frozen_at is not None:
                self._excuse(self._clock.now() - self._frozen_at)
                self._frozen_at = None

    def slept(self, seconds: float) -> None:
        """Leave out a time for which the machine stood still; a thaw leaves out all of a freeze."""
        if self._frozen_at is None:
            self._excuse(seconds)

    def _excuse(self, seconds: float) -> None:
        self.since += seconds
        self.quiet_since += seconds
        if self._monitor is not None:
            self._monitor.ignore_time(seconds)

    def listen(self) -> None:
        """Take what the program reports; tell when that rules out that the attempt succeeds."""
        if self._monitor is None or self._limit_told:
            return
        # What is frozen reports nothing, but others may use up the budget that it shares.
        end_now = self._monitor.listen() if self._frozen_at is None else None
        if end_now is None:
            over = self._afford(self._spent())
            end_now = EndNow(Ending.BUDGET, over) if over else None
        if end_now is not None:
            self._limit_told = True
            self._ours = end_now.ended
            self._emit(
                on.AttemptDoomed(
                    **self._said(),
                    ended=end_now.ended,
                    text=end_now.text,
                    reset_at=end_now.reset_at,
                    advice=end_now.advice,
                )
            )

    def _spent(self) -> Spent:
        used = self._monitor.spent() if self._monitor is not None else Spent()
        return replace(used, seconds=self._clock.now() - self.since, attempts=1)

    def _reported(
        self, how: ProcessExit | None, ours: Ending | None, *, spoke: bool
    ) -> on.AgentReport | None:
        if self._monitor is None:
            return None
        code, signal = (how.code, how.signal) if how is not None else (None, None)
        try:
            self.report = self._monitor.finish(code, signal, ours, spoke=spoke)
        except Exception as problem:  # noqa: BLE001  # its end has to be told, whatever is wrong
            mark = self.process.identity.mark
            self._report_fault("attendance_failed", spawn_id=mark, problem=described(problem))
        return self.report

    def measured(self, activity: Activity) -> None:
        """Take one measurement; tell when a limit is reached."""
        now = self._clock.now()
        seen = self._seen
        if seen is None or self._moved(seen, activity, now):
            self._seen, self.quiet_since = activity, now
        if self._limit_told or self._frozen_at is not None:
            return
        wall, idle = self.settings.wall_limit, self._idle_limit(activity)
        if wall and now - self.since >= wall:
            self._limit(idle=False, text=f"it took longer than the wall limit of {wall:g} s")
        elif idle and now - self.quiet_since >= idle:
            change = newest_change(self.workspace.path, self.quiet_since)
            if change is not None:
                self.quiet_since = max(min(change, now), self.quiet_since + 1.0)
                return
            text = f"no output, no file change and no CPU use for {idle:g} s"
            self._limit(idle=True, text=text)

    def _idle_limit(self, activity: Activity) -> float:
        """Go by the limit for tools while one runs a program: that may wait for something."""
        idle, tool = self.settings.idle_limit, self.settings.tool_limit
        if self._monitor is None or not self._monitor.tools_running:
            self._at_rest = activity.processes
            return idle
        if not idle or activity.processes <= self._at_rest:
            return idle
        return tool

    def _moved(self, seen: Activity, activity: Activity, now: float) -> bool:
        if activity.log_size != seen.log_size or activity.processes != seen.processes:
            return True
        used = abs(activity.cpu_ticks - seen.cpu_ticks) / TICKS_PER_SECOND
        return used > IDLE_SHARE * (now - self.quiet_since) + 1 / TICKS_PER_SECOND

    def _limit(self, *, idle: bool, text: str) -> None:
        self._limit_told = True
        self._ours = Ending.HANG if idle else Ending.TIMEOUT
        self._emit(on.LimitReached(**self._said(), idle=idle, text=text))

    async def _last_look(self) -> MailboxReading:
        mail = self._mail
        if mail is None:
            return MailboxReading(ReadingKind.ABSENT)

        async def look() -> MailboxReading:
            reading = mail.check()
            if reading.cause is not None and shortage_of(reading.cause):
                raise reading.cause
            return reading

        reading = await patiently(look, self._report_fault, agent_id=self.process.order.agent_id)
        mail.close()
        return reading

    async def _until_exit(self) -> None:
        how: ProcessExit = await self.process.wait()
        while True:
            # Nobody else tells that it ended, so a system without a free file handle is asked
            # again. What not even KILL ended hangs in the kernel: no other agent may start before
            # it is gone.
            with contextlib.suppress(OSError):
                report = await self.process.sweep(self.settings.stop_grace)
                if not report.survivors:
                    break
            await asyncio.sleep(LOOK_AGAIN)
        last = await self._last_look()
        word = signal_from(last)
        self._emit(
            on.AgentExited(
                **self._said(),
                exit_code=how.code,
                signal=how.signal,
                word=word,
                problem="" if word is not None else last.problem,
                swept=report.left_behind,
                limit=self.process.limit_reached,
                report=self._reported(how, None, spoke=word is not None),
            )
        )
