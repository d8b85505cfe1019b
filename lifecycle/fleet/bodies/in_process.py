"""Agents that are Python objects, in the caller's event loop or in a thread of their own.

Neither isolates anything: such an agent can read and change whatever this process can, and one that
ignores cancellation cannot be ended. Enforced are the time per piece of work, the pieces at once,
and the worker threads. Memory cannot be told apart within a process: measured is by how much the
process grew since the agent started, whoever caused it.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from lifecycle.fleet.api.options import IsolationLevel
from lifecycle.fleet.api.registry import AgentContext
from lifecycle.fleet.bodies.body import BodyActivity, BodyFailure, StopResult, within
from lifecycle.fleet.bodies.threads import CANCEL_TIMEOUT, CallerLoop, OwnThread
from lifecycle.fleet.errors import InvalidOperationError, WorkError, WorkTimeoutError
from runtime import proc_table
from runtime.processes.activity import Activity

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from lifecycle.clock import Clock
    from lifecycle.fleet.api.instances import AgentInstance
    from lifecycle.fleet.api.options import ResourceLimits
    from lifecycle.fleet.api.registry import InProcessAgent

NO_ISOLATION = (
    "nothing: it runs inside this process, is trusted, and ends only if it honours cancellation; "
    "memory and processor limits are not enforced"
)
_MEGABYTE = 1 << 20


def own_activity() -> Activity:
    """Return the measurement of this process that all its in-process agents share."""
    row = proc_table.read_row(os.getpid())
    return Activity(0, 0, 1, memory_bytes=row.resident if row else 0)


class InProcessBody:
    """One Python agent and the event loop it runs in."""

    mark = ""
    containment = NO_ISOLATION

    def __init__(  # noqa: PLR0913  # all by name
        self,
        *,
        instance: AgentInstance,
        make: Callable[[], InProcessAgent],
        level: IsolationLevel,
        limits: ResourceLimits,
        values: Mapping[str, Any],
        folder: Path | None,
        clock: Clock,
        busy: Callable[[bool], Awaitable[None]],
        failed: Callable[[BodyFailure], None],
    ) -> None:
        self._make = make
        self._limits = limits
        self._clock = clock
        self._folder = folder
        self._busy, self._failed = busy, failed
        name = f"agent {instance.instance_id}"
        self._workers = ThreadPoolExecutor(limits.max_worker_threads, thread_name_prefix=name)
        self._context = AgentContext(
            instance_id=instance.instance_id,
            name=instance.name or "",
            values=values,
            limits=limits,
            workers=self._workers,
        )
        self._loop: CallerLoop | OwnThread = (
            OwnThread(name, self._workers) if level is IsolationLevel.THREAD else CallerLoop()
        )
        self._turns = asyncio.Semaphore(limits.max_concurrent_tasks)
        self._agent: InProcessAgent | None = None
        self._running: set[asyncio.Future[Any]] = set()
        self._successes = self._failures = self._seen = 0
        self._ending: asyncio.Future[Any] | None = None
        self._closed = self._broken = False
        self._takes_work = True
        self._stopped: StopResult | None = None
        self._memory_before = 0

    async def start(self) -> None:
        """Create the agent and initialise it."""
        self._memory_before = own_activity().memory_bytes
        self._loop.open()

        async def begin() -> None:
            self._agent = self._make()
            await self._agent.initialise(self._context)

        await self._finish_or_cancel(self._loop.run(begin()))

    async def process(self, work: Any) -> Any:
        """Let the agent do a piece of work once a slot is free."""
        async with self._turns:
            agent = self._agent
            if not self._takes_work or agent is None:
                raise InvalidOperationError("the agent has ended; spawn it again")
            task = self._loop.run(agent.process(work))
            self._running.add(task)
            try:
                await self._busy(True)  # noqa: FBT003  # the signature of a callback
                result = await self._finish(task)
            except WorkError:
                self._failures += 1
                raise
            except Exception as problem:
                self._failures += 1
                if not (self._is_ending() or isinstance(problem, WorkTimeoutError)):
                    self._broken = True
                    self._failed(BodyFailure(f"{type(problem).__name__}: {problem}", problem))
                raise
            else:
                self._successes += 1
                return result
            finally:
                self._running.discard(task)
                task.cancel()
                if not (self._running or self._broken):
                    await self._busy(False)  # noqa: FBT003  # as above

    def _is_ending(self) -> bool:
        return not self._takes_work

    async def _finish(self, task: asyncio.Future[Any]) -> Any:
        limit = self._limits.execution_timeout.total_seconds()
        try:
            if await within(self._clock, task, limit):
                if task.cancelled():
                    raise InvalidOperationError("the work was cancelled, because its agent ended")
                return task.result()
        finally:
            task.cancel()
        ended = await _ended_in_time(task)
        more = "" if ended else "; it ignores its cancellation and keeps running"
        raise WorkTimeoutError(
            f"the work took longer than the execution timeout of {limit:g} s and was cancelled"
            f"{more}; give less at once, or raise execution_timeout"
        )

    async def cancel_work(self, seconds: float) -> None:
        """Cancel all pieces of work, and take no more."""
        self._takes_work = False
        running = tuple(self._running)
        for task in running:
            task.cancel()
        if running:
            waiting = asyncio.ensure_future(asyncio.wait(running, timeout=CANCEL_TIMEOUT))
            await within(self._clock, waiting, seconds)
            waiting.cancel()

    async def stop(self, grace: float, *, force: bool) -> StopResult:
        """Cancel its work, let it shut down, and end its thread."""
        if self._stopped is not None:
            return self._stopped
        await self.cancel_work(0.0)
        agent, graceful = self._agent, grace > 0 or self._agent is None
        if agent is not None and not self._closed and (grace > 0 or not force):
            if self._ending is None:
                self._ending = self._loop.run(agent.shut_down())
            graceful = await within(self._clock, self._ending, grace)
            if not graceful and not force:
                return StopResult(gone=False, graceful=False)
        closed = await self._close(graceful=graceful)
        return self._closed_as(closed)

    def _closed_as(self, result: StopResult) -> StopResult:
        """Return how it was stopped first: a second call may have hurried the first one."""
        self._stopped = self._stopped or result
        return self._stopped

    async def _close(self, *, graceful: bool) -> StopResult:
        problems, left_behind = [], False
        self._closed = True
        left = [task for task in (*self._running, self._ending) if task is not None]
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=CANCEL_TIMEOUT)
        if not all(task.done() for task in left):
            problems.append("it ignores cancellation and keeps running until it returns")
            left_behind = True
            for task in left:
                task.cancel()
        if self._ending is not None and self._ending.done() and not self._ending.cancelled():
            wrong = self._ending.exception()
            if wrong is not None:
                problems.append(f"shut_down failed: {type(wrong).__name__}: {wrong}")
        self._workers.shutdown(wait=False, cancel_futures=True)
        if not await self._loop.close(0.1 if left_behind else 2 * CANCEL_TIMEOUT):
            problems.append(
                "its thread cannot be ended from outside and keeps running until it returns"
            )
            left_behind = True
        return StopResult(
            gone=not left_behind,
            graceful=graceful and not left_behind,
            problems=tuple(problems),
            abandoned=left_behind,
        )

    async def suspend(self) -> None:
        """Do nothing: an object is suspended only while it has no work."""

    async def resume(self) -> None:
        """Do nothing: the spawner gives it work again."""

    def sample(self, activity: Activity | None) -> BodyActivity:
        """Return its activity; it counts as active while its event loop turns."""
        self._loop.ping()
        seen, self._seen = self._seen, self._loop.turns
        grown = max(0, activity.memory_bytes - self._memory_before) if activity else 0
        return BodyActivity(
            active=self._loop.turns != seen,
            memory_bytes=grown,
            over_limit=self._beyond_memory(grown),
            tasks_running=len(self._running),
            tasks_done=self._successes,
            tasks_failed=self._failures,
        )

    def _beyond_memory(self, grown: int) -> str:
        limit = self._limits.max_memory_mb
        if grown <= limit * _MEGABYTE:
            return ""
        return (
            f"its process grew by {grown // _MEGABYTE} MB since it started, max_memory_mb is "
            f"{limit}: advisory, as all that runs in the process is counted"
        )

    async def check(self, command: tuple[str, ...], seconds: float) -> str:
        """Refuse: a program cannot check a Python object."""
        del seconds
        return f"{command[0]} cannot be run beside a Python object"

    def details(self) -> dict[str, Any]:
        """Return the details for its record."""
        return self._loop.details()

    async def keep_state(self, seconds: float) -> dict[str, Any]:
        """Write the agent's own account of its state to a file, with its context."""
        try:
            return await self._keep_state(seconds)
        except Exception as problem:  # noqa: BLE001  # of any agent, which must still be ended
            why = f"the final state was not kept: {type(problem).__name__}: {problem}"
            return {"final_state_problem": why}

    async def _keep_state(self, seconds: float) -> dict[str, Any]:
        if self._folder is None:
            return {"final_state_problem": "the spawner was given no folder"}
        ask = getattr(self._agent, "final_state", None)
        state = None
        if ask is not None:
            asked = self._loop.run(ask())
            if not await within(self._clock, asked, seconds):
                asked.cancel()
                return {"final_state_problem": "final_state took too long"}
            if asked.cancelled():
                return {"final_state_problem": "final_state was cancelled"}
            state = asked.result()
        text = json.dumps({"context": dict(self._context.values), "state": state})
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = self._folder / "final_state.json"
        file.write_text(text)
        return {"final_state": str(file)}

    def clean(self, *, everything: bool) -> None:
        """Remove the kept state, if everything is to go."""
        if everything and self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    async def _finish_or_cancel(self, task: asyncio.Future[Any]) -> None:
        """Wait for a task, and cancel it if the wait is cancelled."""
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            task.cancel()
            await _ended_in_time(task)
            raise
        task.result()


async def _ended_in_time(task: asyncio.Future[Any]) -> bool:
    """Wait briefly for a cancelled task; return whether it ended."""
    if not task.done():
        await asyncio.wait({task}, timeout=CANCEL_TIMEOUT)
    return task.done()
