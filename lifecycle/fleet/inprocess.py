"""Agents that are Python objects, in the caller's event loop or in a thread of their own.

Neither contains anything: such an agent can read and change whatever this process can, and one that
does not heed cancellation cannot be ended. What can be kept to is kept to: time per piece of work,
pieces at once, threads of its own.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from lifecycle.fleet.body import Failure, Signs, Stopped, within
from lifecycle.fleet.errors import InvalidOperationError, WorkError, WorkTimeoutError
from lifecycle.fleet.options import IsolationLevel
from lifecycle.fleet.registry import AgentContext
from lifecycle.fleet.threads import TO_HEED, Here, OwnThread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from lifecycle.clock import Clock
    from lifecycle.fleet.instances import AgentInstance
    from lifecycle.fleet.options import ResourceLimits
    from lifecycle.fleet.registry import InProcessAgent
    from runtime.activity import Activity

NOTHING = (
    "nothing: it runs inside this process, trusted, and ends only if it heeds cancellation; "
    "memory and processor limits are advice"
)


class InProcessBody:
    """One Python agent and where it runs."""

    mark = ""
    containment = NOTHING

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
        failed: Callable[[Failure], None],
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
        self._place: Here | OwnThread = (
            OwnThread(name, self._workers) if level is IsolationLevel.THREAD else Here()
        )
        self._turns = asyncio.Semaphore(limits.max_concurrent_tasks)
        self._agent: InProcessAgent | None = None
        self._running: set[asyncio.Future[Any]] = set()
        self._done = self._bad = self._seen = 0
        self._ending: asyncio.Future[Any] | None = None
        self._closed = self._broken = False

    async def start(self) -> None:
        """Make the agent and let it get ready."""
        self._place.open()

        async def begin() -> None:
            self._agent = self._make()
            await self._agent.initialise(self._context)

        await self._hold(self._place.run(begin()))

    async def process(self, work: Any) -> Any:
        """Let the agent do a piece of work, when it is this one's turn."""
        async with self._turns:
            agent = self._agent
            if self._closed or agent is None:
                raise InvalidOperationError("the agent has ended; spawn it anew")
            task = self._place.run(agent.process(work))
            self._running.add(task)
            try:
                await self._busy(True)  # noqa: FBT003  # a callback takes what it gets
                result = await self._finish(task)
            except WorkError:
                self._bad += 1
                raise
            except Exception as problem:
                self._bad += 1
                if not (self._is_closed() or isinstance(problem, WorkTimeoutError)):
                    self._broken = True
                    self._failed(Failure(f"{type(problem).__name__}: {problem}", problem))
                raise
            else:
                self._done += 1
                return result
            finally:
                self._running.discard(task)
                task.cancel()
                if not (self._running or self._broken):
                    await self._busy(False)  # noqa: FBT003  # as above

    def _is_closed(self) -> bool:
        return self._closed

    async def _finish(self, task: asyncio.Future[Any]) -> Any:
        limit = self._limits.execution_timeout.total_seconds()
        try:
            if await within(self._clock, task, limit):
                if task.cancelled():
                    raise InvalidOperationError("the work was cancelled, because its agent ended")
                return task.result()
        finally:
            task.cancel()
        heeded = await _heeded(task)
        more = "" if heeded else "; it does not heed its cancellation and goes on"
        raise WorkTimeoutError(
            f"the work took longer than the execution timeout of {limit:g} s and was cancelled"
            f"{more}; give less at once, or raise execution_timeout"
        )

    async def stop(self, grace: float, *, force: bool) -> Stopped:
        """Cancel its work, let it shut down, and end its thread."""
        for task in tuple(self._running):
            task.cancel()
        agent, graceful = self._agent, grace > 0 or self._agent is None
        if agent is not None and not self._closed and (grace > 0 or not force):
            if self._ending is None:
                self._ending = self._place.run(agent.shut_down())
            graceful = await within(self._clock, self._ending, grace)
            if not graceful and not force:
                return Stopped(gone=False, graceful=False)
        return await self._close(graceful=graceful)

    async def _close(self, *, graceful: bool) -> Stopped:
        problems, left_behind = [], False
        self._closed = True
        left = [task for task in (*self._running, self._ending) if task is not None]
        for task in left:
            task.cancel()
        if not all([await _heeded(task) for task in left]):
            problems.append("it does not heed cancellation, and goes on until it returns")
            left_behind = True
            for task in left:
                task.cancel()
        if self._ending is not None and self._ending.done() and not self._ending.cancelled():
            wrong = self._ending.exception()
            if wrong is not None:
                problems.append(f"shut_down failed: {type(wrong).__name__}: {wrong}")
        self._workers.shutdown(wait=False, cancel_futures=True)
        if not await self._place.close(0.1 if left_behind else 2 * TO_HEED):
            problems.append("its thread cannot be ended from outside, and goes on until it returns")
            left_behind = True
        return Stopped(
            gone=not left_behind,
            graceful=graceful and not left_behind,
            problems=tuple(problems),
            abandoned=left_behind,
        )

    async def suspend(self) -> None:
        """Nothing is under way, so nothing is to be held."""

    async def resume(self) -> None:
        """Work is taken again."""

    def look(self, activity: Activity | None) -> Signs:
        """Return what it has done; it moves while its event loop turns."""
        del activity
        self._place.ping()
        seen, self._seen = self._seen, self._place.turns
        return Signs(
            moved=self._place.turns != seen,
            tasks_running=len(self._running),
            tasks_done=self._done,
            tasks_failed=self._bad,
        )

    async def check(self, command: tuple[str, ...], seconds: float) -> str:
        """A program has no place here; requests that ask for one are refused."""
        del seconds
        return f"{command[0]} cannot be run beside a Python object"

    def details(self) -> dict[str, Any]:
        """Return what the record shall say of it."""
        return self._place.details()

    async def keep_state(self) -> dict[str, Any]:
        """Write down what the agent says its state is, with its context."""
        if self._folder is None:
            return {"final_state_problem": "the spawner was given no folder"}
        ask = getattr(self._agent, "final_state", None)
        state = None
        if ask is not None:
            asked = self._place.run(ask())
            if not await within(self._clock, asked, self._limits.execution_timeout.total_seconds()):
                asked.cancel()
                return {"final_state_problem": "final_state took too long"}
            state = asked.result()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = self._folder / "final_state.json"
        file.write_text(json.dumps({"context": dict(self._context.values), "state": state}))
        return {"final_state": str(file)}

    def clean(self, *, everything: bool) -> None:
        """Remove what was kept, if all is to go."""
        if everything and self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    async def _hold(self, task: asyncio.Future[Any]) -> None:
        """Wait for a task, and take it along if the wait is cancelled."""
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            task.cancel()
            await _heeded(task)
            raise
        task.result()


async def _heeded(task: asyncio.Future[Any]) -> bool:
    """Wait a little for a cancelled task to end."""
    if not task.done():
        await asyncio.wait({task}, timeout=TO_HEED)
    return task.done()
