"""Terminates instances: cancel their work, run the cleanup hooks, release the body, record the end.

All of it has `graceful_timeout` together. With a time of 0 nothing is waited for.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from lifecycle.fleet.api.instances import AgentHealthStatus, InstanceState, path
from lifecycle.fleet.api.queries import TerminationOptions, TerminationResult
from lifecycle.fleet.bodies.body import BackgroundTasks, within
from lifecycle.fleet.spawner import metrics as names
from lifecycle.fleet.spawner.stored_form import instance_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lifecycle.clock import Clock
    from lifecycle.fleet.api.instances import AgentInstance
    from lifecycle.fleet.api.registry import CleanupHook
    from lifecycle.fleet.bodies.body import StopResult
    from lifecycle.fleet.spawner.live_instance import LiveInstance
    from lifecycle.fleet.spawner.state_changes import StateWriter
    from lifecycle.store.instances import InstanceRow

AFTER_FAILURE = "terminated after it had failed"
NOT_ENDED = (
    "it did not end within {seconds:g} s and force_if_timeout is off; terminate it with force"
)
CUT_OFF = "was not done when its spawner was closed"


class Terminator:
    """Terminates instances that this process runs."""

    def __init__(
        self,
        writer: StateWriter,
        tasks: BackgroundTasks,
        cleanup: HookRunner,
        forget: Callable[[LiveInstance], None],
    ) -> None:
        self._writer = writer
        self._clock = writer.clock
        self._tasks = tasks
        self._cleanup = cleanup
        self._forget = forget

    async def end(self, live: LiveInstance, options: TerminationOptions) -> TerminationResult:
        """Terminate one, even if the caller is cancelled. A second call may hurry it."""
        running = live.ending
        if running is not None and not running.done():
            await self._hurry(live, running, options)
            result = await asyncio.shield(running)
            if result.success:
                return result
        live.ending = self._tasks.start(self._end(live, options), f"ends {live.id}")
        return await asyncio.shield(live.ending)

    async def _hurry(
        self, live: LiveInstance, running: asyncio.Task[Any], options: TerminationOptions
    ) -> None:
        """Wait for a termination under way; cut it short if these options leave it less time."""
        grace = options.graceful_timeout.total_seconds()
        timer = self._clock.call_at(self._clock.now() + grace, partial(_settle, live.hurry))
        waited_for: set[asyncio.Task[Any]] = {running}
        if live.body is not None and live.instance.state is InstanceState.TERMINATING:
            stopping = live.body.stop(grace, force=options.force_if_timeout)
            waited_for.add(self._tasks.start(stopping, f"hurries {live.id}"))
        try:
            await asyncio.wait(waited_for)
        finally:
            timer.cancel()

    async def _end(self, live: LiveInstance, options: TerminationOptions) -> TerminationResult:
        began = self._clock.now()
        if live.restart is not None:
            live.restart.cancel()
            live.restart = None
        if live.starting is not None:
            live.starting.cancel()
        if live.instance.state in (InstanceState.INITIALIZING, InstanceState.FAILED):
            # Wait for its start, or for the handling of its failure.
            async with live.lock:
                pass
        if live.instance.state is InstanceState.FAILED:
            return await self._bury(live, options, began)
        return await self._stop(live, options, began)

    async def _bury(
        self, live: LiveInstance, options: TerminationOptions, began: float
    ) -> TerminationResult:
        """Terminate one that has failed: only its record is left."""
        problems = await self._cleanup.run(live, options.graceful_timeout.total_seconds())
        reason = options.reason or AFTER_FAILURE
        end = self._writer.end(live, InstanceState.TERMINATED, graceful=True, reason=reason)
        await self._writer.change(live, InstanceState.TERMINATED, reason=reason, after=(end,))
        return self._result(live, began, graceful=True, problems=problems)

    async def _stop(
        self, live: LiveInstance, options: TerminationOptions, began: float
    ) -> TerminationResult:
        body, seconds = live.body, options.graceful_timeout.total_seconds()
        if body is None:
            return TerminationResult.failed("it was never started")
        kept: dict[str, Any] = {}
        if live.instance.state is not InstanceState.TERMINATING:
            way = path(live.instance.state, InstanceState.TERMINATING)
            await self._writer.change(live, *way, reason=options.reason)
        deadline = self._clock.now() + seconds
        if options.persist_final_state:
            kept = await body.keep_state(seconds)
        if seconds:
            # Its hooks find it at rest; but one that does not end leaves them half of the time.
            await body.cancel_work(seconds / 2 if live.hooks else seconds)
        problems = await self._cleanup.run(live, deadline - self._clock.now())
        if "final_state_problem" in kept:
            problems = (kept["final_state_problem"], *problems)
        left = max(0.0, deadline - self._clock.now())
        stopped = await body.stop(left, force=options.force_if_timeout)
        if not (stopped.gone or stopped.abandoned):
            # Its state must not say that it ended while a process of it is alive.
            why = "; ".join(stopped.problems) or NOT_ENDED.format(seconds=seconds)
            return TerminationResult.failed(why)
        if not stopped.graceful and seconds:
            self._writer.report(
                "graceful_shutdown_timeout", instance_id=str(live.id), seconds=seconds
            )
        await self._record(live, options, stopped, kept)
        if "final_state" not in kept:
            body.clean(everything=False)
        return self._result(
            live, began, graceful=stopped.graceful, problems=(*problems, *stopped.problems)
        )

    async def _record(
        self,
        live: LiveInstance,
        options: TerminationOptions,
        stopped: StopResult,
        kept: dict[str, Any],
    ) -> None:
        left = {"left_behind": list(stopped.problems)} if not stopped.gone else {}
        end = self._writer.end(
            live, InstanceState.TERMINATED, graceful=stopped.graceful, reason=options.reason
        )
        await self._writer.change(
            live,
            InstanceState.TERMINATED,
            reason=options.reason,
            after=(end,),
            health=AgentHealthStatus(),
            details={**live.instance.details, **kept, **left},
        )

    def _result(
        self, live: LiveInstance, began: float, *, graceful: bool, problems: tuple[str, ...]
    ) -> TerminationResult:
        self._forget(live)
        took = self._clock.now() - began
        self._writer.metrics.count(names.TERMINATE_COUNT)
        self._writer.metrics.took(names.TERMINATE_DURATION, took)
        if live.write_problem:
            problems = (*problems, f"its record could not be written: {live.write_problem}")
        if not graceful:
            self._writer.metrics.count(names.TERMINATE_FORCED)
        return TerminationResult.successful(
            live.snapshot(self._clock.now()),
            was_graceful=graceful,
            duration=timedelta(seconds=took),
            problems=problems,
        )


async def bury(writer: StateWriter, row: InstanceRow, reason: str | None) -> TerminationResult:
    """Mark an instance that had failed as terminated."""
    buried = await writer.end_recorded(
        row, InstanceState.TERMINATED, graceful=True, reason=reason or AFTER_FAILURE
    )
    writer.metrics.count(names.TERMINATE_COUNT)
    return TerminationResult.successful(
        instance_of(buried, writer.clock.now()), was_graceful=True, duration=timedelta()
    )


class HookRunner:
    """Runs the cleanup hooks of instances, each once and in its own time limit.

    One that fails keeps no other from running.
    """

    def __init__(self, writer: StateWriter) -> None:
        self._writer = writer
        self._tasks = BackgroundTasks()

    async def run(self, live: LiveInstance, seconds: float) -> tuple[str, ...]:
        """Run the hooks, and return what went wrong; those not done in time run on."""
        problems: list[str] = []
        running = self.start(live, problems)
        if running is not None and seconds > 0:
            waiting = asyncio.ensure_future(
                asyncio.wait({running, live.hurry}, return_when=asyncio.FIRST_COMPLETED)
            )
            await within(self._writer.clock, waiting, seconds)
            waiting.cancel()
        if running is not None and not running.done():
            problems.append("cleanup hooks still ran when its time was over")
        return tuple(problems)

    def start(self, live: LiveInstance, problems: list[str]) -> asyncio.Task[None] | None:
        """Run the hooks that did not run yet, in the background; add what goes wrong."""
        hooks, live.hooks = live.hooks, []
        if not hooks:
            return None
        instance = live.snapshot(self._writer.clock.now())
        return self._tasks.start(self._run_all(hooks, instance, problems), f"cleans up {live.id}")

    async def _run_all(
        self, hooks: Iterable[CleanupHook], instance: AgentInstance, problems: list[str]
    ) -> None:
        left = list(hooks)
        try:
            while left:
                problem = await _run(left[0], instance, self._writer.clock)
                hook = left.pop(0)
                if problem:
                    problems.append(problem)
                    self._report(instance, hook, problem)
        except asyncio.CancelledError:
            for hook in left:
                self._report(instance, hook, f"cleanup hook {hook.name!r} {CUT_OFF}")
            raise

    def _report(self, instance: AgentInstance, hook: CleanupHook, problem: str) -> None:
        self._writer.report(
            "cleanup_hook_failed",
            instance_id=str(instance.instance_id),
            hook=hook.name,
            reason=problem,
        )

    async def aclose(self, grace: float) -> None:
        """Wait so long for the hooks that still run, then end them and report each."""
        await self._tasks.cancel(grace)


async def _run(hook: CleanupHook, instance: AgentInstance, clock: Clock) -> str:
    async def run() -> None:
        await hook.run(instance)

    task = asyncio.get_running_loop().create_task(run(), name=f"cleanup {hook.name}")
    ended = False
    try:
        ended = await within(clock, task, hook.timeout)
    finally:
        if not ended:
            task.cancel()
            await asyncio.wait({task}, timeout=1.0)
    if not ended:
        return f"cleanup hook {hook.name!r} took longer than {hook.timeout:g} s"
    problem = None if task.cancelled() else task.exception()
    if problem is None:
        return ""
    return f"cleanup hook {hook.name!r} failed: {type(problem).__name__}: {problem}"


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
