"""Terminates instances: cancel the start, run the cleanup hooks, stop the body, record the end."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lifecycle.fleet.api.instances import AgentHealthStatus, AgentState, path
from lifecycle.fleet.api.queries import TerminationOptions, TerminationResult
from lifecycle.fleet.bodies.body import within
from lifecycle.fleet.spawner import metrics as names
from lifecycle.fleet.spawner.stored_form import instance_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from lifecycle.clock import Clock
    from lifecycle.fleet.api.instances import AgentInstance
    from lifecycle.fleet.api.registry import CleanupHook
    from lifecycle.fleet.bodies.body import BackgroundTasks, StopResult
    from lifecycle.fleet.spawner.live_instance import LiveInstance
    from lifecycle.fleet.spawner.state_changes import StateWriter
    from lifecycle.store.instances import InstanceRow

AFTER_FAILURE = "terminated after it had failed"
NOT_ENDED = (
    "it did not end within {seconds:g} s and force_if_timeout is off; terminate it with force"
)


class Terminator:
    """Terminates instances that this process runs."""

    def __init__(
        self,
        writer: StateWriter,
        tasks: BackgroundTasks,
        forget: Callable[[LiveInstance], None],
    ) -> None:
        self._writer = writer
        self._clock = writer.clock
        self._tasks = tasks
        self._forget = forget

    async def end(self, live: LiveInstance, options: TerminationOptions) -> TerminationResult:
        """Terminate one, even if the caller is cancelled. A second call may hurry it."""
        running = live.ending
        if running is not None and not running.done():
            if live.body is not None and live.instance.state is AgentState.TERMINATING:
                grace = options.graceful_timeout.total_seconds()
                hurried = self._tasks.start(
                    live.body.stop(grace, force=options.force_if_timeout), f"hurries {live.id}"
                )
                await asyncio.wait({hurried, running}, return_when=asyncio.ALL_COMPLETED)
            result = await asyncio.shield(running)
            if result.success:
                return result
        live.ending = self._tasks.start(self._end(live, options), f"ends {live.id}")
        return await asyncio.shield(live.ending)

    async def _end(self, live: LiveInstance, options: TerminationOptions) -> TerminationResult:
        began = self._clock.now()
        if live.restart is not None:
            live.restart.cancel()
            live.restart = None
        if live.starting is not None:
            live.starting.cancel()
        if live.instance.state in (AgentState.INITIALIZING, AgentState.FAILED):
            # Wait for its start, or for the handling of its failure.
            async with live.lock:
                pass
        if live.instance.state is AgentState.FAILED:
            return await self._bury(live, options, began)
        return await self._stop(live, options, began)

    async def _bury(
        self, live: LiveInstance, options: TerminationOptions, began: float
    ) -> TerminationResult:
        """Terminate one that has failed: only its record is left."""
        reason = options.reason or AFTER_FAILURE
        end = self._writer.end(live, AgentState.TERMINATED, graceful=True, reason=reason)
        await self._writer.change(live, AgentState.TERMINATED, reason=reason, after=(end,))
        problems = await clean_up(live, self._writer)
        return self._result(live, began, graceful=True, problems=problems)

    async def _stop(
        self, live: LiveInstance, options: TerminationOptions, began: float
    ) -> TerminationResult:
        body, seconds = live.body, options.graceful_timeout.total_seconds()
        if body is None:
            return TerminationResult.failed("it was never started")
        kept: dict[str, Any] = {}
        if live.instance.state is not AgentState.TERMINATING:
            way = path(live.instance.state, AgentState.TERMINATING)
            await self._writer.change(live, *way, reason=options.reason)
        if options.persist_final_state:
            kept = await body.keep_state()
        problems = await clean_up(live, self._writer)
        stopped = await body.stop(seconds, force=options.force_if_timeout)
        if not (stopped.gone or stopped.abandoned):
            # Its state must not say that it ended while a process of it is alive.
            why = "; ".join(stopped.problems) or NOT_ENDED.format(seconds=seconds)
            return TerminationResult.failed(why)
        if not stopped.graceful:
            self._writer.report(
                "graceful_shutdown_timeout", instance_id=str(live.id), seconds=seconds
            )
        await self._record(live, options, stopped, kept)
        if not kept:
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
            live, AgentState.TERMINATED, graceful=stopped.graceful, reason=options.reason
        )
        await self._writer.change(
            live,
            AgentState.TERMINATED,
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
        row, AgentState.TERMINATED, graceful=True, reason=reason or AFTER_FAILURE
    )
    writer.metrics.count(names.TERMINATE_COUNT)
    return TerminationResult.successful(
        instance_of(buried, writer.clock.now()), was_graceful=True, duration=timedelta()
    )


async def clean_up(live: LiveInstance, writer: StateWriter) -> tuple[str, ...]:
    """Run the cleanup hooks of an instance once; return what went wrong.

    Each hook has its own time limit; one that fails keeps no other from running.
    """
    problems = []
    hooks, live.hooks = live.hooks, []
    instance = live.snapshot(writer.clock.now())
    for hook in hooks:
        problem = await _run(hook, instance, writer.clock)
        if problem:
            problems.append(problem)
            writer.report(
                "cleanup_hook_failed", instance_id=str(live.id), hook=hook.name, reason=problem
            )
    return tuple(problems)


async def _run(hook: CleanupHook, instance: AgentInstance, clock: Clock) -> str:
    async def run() -> None:
        await hook.run(instance)

    task = asyncio.get_running_loop().create_task(run(), name=f"cleanup {hook.name}")
    if not await within(clock, task, hook.timeout):
        task.cancel()
        await asyncio.wait({task}, timeout=1.0)
        return f"cleanup hook {hook.name!r} took longer than {hook.timeout:g} s"
    problem = None if task.cancelled() else task.exception()
    if problem is None:
        return ""
    return f"cleanup hook {hook.name!r} failed: {type(problem).__name__}: {problem}"
