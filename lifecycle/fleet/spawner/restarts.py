"""Starts instances, and handles those that end by themselves.

Owns starts and restarts. Each failure is handled once, no matter how many parts report it.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

from lifecycle.fleet.api.events import AgentRestartingEvent
from lifecycle.fleet.api.instances import AgentHealthStatus, InstanceState, instant, path
from lifecycle.fleet.bodies.body import BodyFailure
from lifecycle.fleet.errors import AgentInitializationError, SpawnTimeoutError
from lifecycle.fleet.spawner import metrics as names
from lifecycle.fleet.spawner.restart_policy import GiveUp, Restart, decide
from lifecycle.fleet.spawner.state_changes import stack_of
from lifecycle.store.instances import TooManyInstancesError

if TYPE_CHECKING:
    from collections.abc import Callable

    from lifecycle.fleet.api.events import AgentEvent
    from lifecycle.fleet.bodies.body import BackgroundTasks, Body
    from lifecycle.fleet.spawner.live_instance import LiveInstance
    from lifecycle.fleet.spawner.restart_policy import CrashLoop
    from lifecycle.fleet.spawner.state_changes import StateWriter
    from lifecycle.fleet.spawner.terminate import HookRunner

_LAST_GRACE = 2.0
"""Seconds that a failed agent gets to release its resources."""
_SHOWN = 2000
"""Characters of an error that a record keeps."""


class InstanceStarter:
    """Starts and restarts the bodies of instances."""

    def __init__(  # noqa: PLR0913  # all by name
        self,
        *,
        writer: StateWriter,
        tasks: BackgroundTasks,
        make: Callable[[LiveInstance, Callable[[BodyFailure], None]], Body],
        cleanup: HookRunner,
        forget: Callable[[LiveInstance], None],
        max_active: int | None,
        rule: CrashLoop | None,
        chance: Callable[[], float],
    ) -> None:
        self._writer = writer
        self._clock = writer.clock
        self._tasks = tasks
        self._make = make
        self._cleanup = cleanup
        self._forget = forget
        self._max_active = max_active
        self._rule = rule
        self._chance = chance

    async def start(self, live: LiveInstance) -> None:
        """Start it and wait until it is ready; clean up completely if that fails."""
        live.life += 1
        body = live.body = self._make(live, lambda failure: self.failed(live, body, failure))
        seconds = live.options.initialization_timeout.total_seconds()
        starting = live.starting = self._tasks.start(body.start(), f"starts {live.id}")
        timer = self._clock.call_at(self._clock.now() + seconds, lambda: _cancel(starting))
        try:
            await asyncio.wait({starting})
            _check_started(live, starting, seconds)
        except BaseException:
            starting.cancel()
            await asyncio.shield(self._tasks.start(self._undo(live, body), f"undoes {live.id}"))
            raise
        finally:
            timer.cancel()
            live.starting = None
        live.active_at = live.check_at = self._clock.now()
        live.cpu = None

    async def _undo(self, live: LiveInstance, body: Body) -> None:
        if live.starting is not None:
            await asyncio.wait({live.starting})
        await body.stop(0.0, force=True)
        if live.life == 1:
            body.clean(everything=True)

    def failed(self, live: LiveInstance, body: Body, failure: BodyFailure) -> None:
        """Handle a body that ended by itself or is unhealthy, in the background."""
        self._tasks.start(self._handle_end(live, body, failure), f"the end of {live.id}")

    async def _handle_end(self, live: LiveInstance, body: Body, failure: BodyFailure) -> None:
        async with live.lock:
            # It may have been terminated, or its failure handled, meanwhile.
            if body is not live.body or live.ending is not None or not live.instance.is_active:
                return
            if failure.text:
                self._writer.report(
                    "agent_crashed",
                    instance_id=str(live.id),
                    error=failure.text,
                    stack_trace=stack_of(failure),
                )
                await self._handle_failure(live, body, failure)
            else:
                await self._record_end(live, body, failure)

    async def _record_end(self, live: LiveInstance, body: Body, failure: BodyFailure) -> None:
        reason = "it ended normally"
        end = self._writer.end(live, InstanceState.TERMINATED, graceful=True, reason=reason)
        way = path(live.instance.state, InstanceState.TERMINATING)
        await self._writer.change(
            live,
            *way,
            InstanceState.TERMINATED,
            reason=reason,
            after=(end,),
            details={**live.instance.details, **failure.details},
            health=AgentHealthStatus(),
        )
        body.clean(everything=False)
        self._finish(live)

    async def _handle_failure(self, live: LiveInstance, body: Body, failure: BodyFailure) -> None:
        """Stop what is left of it, record the failure, and restart it if its policy says so."""
        now = self._clock.now()
        live.history = live.history.failed(now, self._rule)
        then = decide(live.options.restart_policy, live.history, now, self._rule, self._chance())
        await body.stop(_LAST_GRACE, force=True)
        if live.ending is not None:
            # It was terminated meanwhile, and the terminator records how it ended.
            return
        await self._record_failure(live, failure, then)
        if isinstance(then, Restart):
            live.restart = self._clock.call_at(
                now + then.delay,
                lambda: self._restart_soon(live),
            )

    async def _record_failure(
        self, live: LiveInstance, failure: BodyFailure, then: Restart | GiveUp
    ) -> None:
        error = failure.text[:_SHOWN]
        after: list[AgentEvent] = []
        if isinstance(then, GiveUp):
            if live.options.restart_policy is not None:
                error = f"{error}; not restarted: {then.reason}"
            after.append(self._writer.end(live, InstanceState.FAILED, graceful=False, reason=error))
        else:
            policy = live.options.restart_policy
            after.append(
                AgentRestartingEvent(
                    instance_id=live.id,
                    occurred_at=instant(self._clock.now()),
                    correlation_id=live.correlation_id,
                    attempt_number=then.number,
                    max_attempts=policy.max_retries if policy is not None else 0,
                    delay_before_retry=timedelta(seconds=then.delay),
                    reason=error,
                )
            )
        await self._writer.change(
            live,
            *path(live.instance.state, InstanceState.FAILED),
            reason=failure.text[:_SHOWN],
            before=(self._writer.error(live, failure, is_recoverable=isinstance(then, Restart)),),
            after=after,
            error_message=error,
            details={**live.instance.details, **failure.details},
            health=AgentHealthStatus(details="it failed"),
        )
        if isinstance(then, GiveUp):
            self._finish(live)

    def _restart_soon(self, live: LiveInstance) -> None:
        self._tasks.start(self._restart(live), f"restarts {live.id}")

    async def _restart(self, live: LiveInstance) -> None:
        """Start it again under the same id, with a new process or object."""
        async with live.lock:
            live.restart = None
            if live.ending is not None:
                return
            live.history = live.history.restarted()
            live.restarts_total += 1
            self._writer.metrics.count(names.RESTARTS_COUNT)
            try:
                await self._writer.change(
                    live,
                    InstanceState.INITIALIZING,
                    reason=f"restart {live.history.restart_count}",
                    at_most=self._max_active,
                    restart_count=live.history.restart_count,
                )
            except TooManyInstancesError as full:
                await self._give_up(live, f"no room for a restart: {full}")
                return
            try:
                await self.start(live)
            except AgentInitializationError as problem:
                body, failure = live.body, BodyFailure(str(problem), problem.__cause__)
                self._writer.initialization_failed(live, failure.text)
                if body is not None and live.ending is None:
                    await self._handle_failure(live, body, failure)
                if live.instance.state is InstanceState.INITIALIZING:
                    # The terminator takes over from here.
                    await self._writer.change(
                        live, InstanceState.FAILED, reason=failure.text, error_message=failure.text
                    )
                return
            await self.ready(live)

    async def _give_up(self, live: LiveInstance, reason: str) -> None:
        error = f"{live.instance.error_message}; {reason}"
        end = self._writer.end(live, InstanceState.FAILED, graceful=False, reason=error)
        await self._writer.change(live, after=(end,), error_message=error)
        self._finish(live)

    def _finish(self, live: LiveInstance) -> None:
        """Forget an instance that will not be restarted, and run its cleanup hooks."""
        self._cleanup.start(live, [])
        self._forget(live)

    async def ready(self, live: LiveInstance, *told: AgentEvent) -> None:
        """Record that it is ready, with its details."""
        body = live.body
        if body is None or live.instance.state is not InstanceState.INITIALIZING:
            return
        await self._writer.change(
            live,
            InstanceState.READY,
            after=told,
            later=True,
            error_message=None,
            containment=body.containment,
            details={**live.instance.details, **body.details()},
        )


def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()


def _check_started(live: LiveInstance, starting: asyncio.Task[None], seconds: float) -> None:
    """Raise the reason if it did not become ready."""
    name = live.instance.name
    if starting.cancelled():
        if live.ending is not None:
            raise AgentInitializationError(f"{name} was terminated before it was ready", live.id)
        raise SpawnTimeoutError(
            f"{name} was not ready within {seconds:g} s; nothing of it is left. "
            "Raise initialization_timeout if it needs longer",
            live.id,
        )
    problem = starting.exception()
    if isinstance(problem, AgentInitializationError):
        problem.instance_id = live.id
        raise problem
    if problem is not None:
        raise AgentInitializationError(
            f"{name} could not be initialised: {type(problem).__name__}: {problem}", live.id
        ) from problem
