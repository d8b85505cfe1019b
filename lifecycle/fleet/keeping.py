"""Brings instances up, and deals with the end of those that end by themselves.

Owns starts and restarts. One failure is dealt with once, whoever notices it.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

from lifecycle.fleet import metrics as names
from lifecycle.fleet.agentevents import AgentRestartingEvent
from lifecycle.fleet.body import Failure
from lifecycle.fleet.cleanup import clean_up
from lifecycle.fleet.errors import AgentInitializationError, SpawnTimeoutError
from lifecycle.fleet.instances import AgentHealthStatus, AgentState, instant, path
from lifecycle.fleet.restart import GiveUp, Restart, decide
from lifecycle.store.instances import TooManyInstancesError

if TYPE_CHECKING:
    from collections.abc import Callable

    from lifecycle.clock import Clock
    from lifecycle.fleet.agentevents import AgentEvent
    from lifecycle.fleet.body import Body, Errands
    from lifecycle.fleet.live import Live
    from lifecycle.fleet.restart import CrashLoop
    from lifecycle.fleet.scribe import Scribe

_LAST_GRACE = 2.0
"""Seconds that a failed agent gets to let go of what it holds."""
_SHOWN = 2000
"""Characters of an error that are kept in a record."""


class Keeper:
    """Starts and restarts what lives behind instances."""

    def __init__(  # noqa: PLR0913  # all by name
        self,
        *,
        scribe: Scribe,
        clock: Clock,
        errands: Errands,
        make: Callable[[Live, Callable[[Failure], None]], Body],
        forget: Callable[[Live], None],
        most: int | None,
        rule: CrashLoop,
        chance: Callable[[], float],
    ) -> None:
        self._scribe = scribe
        self._clock = clock
        self._errands = errands
        self._make = make
        self._forget = forget
        self._most = most
        self._rule = rule
        self._chance = chance

    async def bring_up(self, live: Live) -> None:
        """Start it and wait until it is ready; of one that does not get there nothing is left."""
        live.life += 1
        body = live.body = self._make(live, lambda failure: self.failed(live, body, failure))
        seconds = live.options.initialization_timeout.total_seconds()
        starting = live.starting = self._errands.begin(body.start(), f"starts {live.id}")
        alarm = self._clock.call_at(self._clock.now() + seconds, lambda: _cancel(starting))
        try:
            await asyncio.wait({starting})
            _check_started(live, starting, seconds)
        except BaseException:
            starting.cancel()
            await asyncio.shield(self._errands.begin(self._undo(live, body), f"undoes {live.id}"))
            raise
        finally:
            alarm.cancel()
            live.starting = None
        live.moved_at = live.check_at = self._clock.now()
        live.cpu = None

    async def _undo(self, live: Live, body: Body) -> None:
        if live.starting is not None:
            await asyncio.wait({live.starting})
        await body.stop(0.0, force=True)
        if live.life == 1:
            body.clean(everything=True)

    def failed(self, live: Live, body: Body, failure: Failure) -> None:
        """Take note that a body ended by itself, or that it must be given up."""
        self._errands.begin(self._over(live, body, failure), f"the end of {live.id}")

    async def _over(self, live: Live, body: Body, failure: Failure) -> None:
        async with live.turn:
            # Somebody else may have ended it, or noticed first.
            if body is not live.body or live.ending is not None or not live.instance.is_active:
                return
            if failure.text:
                await self._fell(live, body, failure)
            else:
                await self._finished(live, body, failure)

    async def _finished(self, live: Live, body: Body, failure: Failure) -> None:
        reason = "it ended by itself, as it should"
        end = self._scribe.end(live, AgentState.TERMINATED, graceful=True, reason=reason)
        way = path(live.instance.state, AgentState.TERMINATING)
        await self._scribe.change(
            live,
            *way,
            AgentState.TERMINATED,
            reason=reason,
            after=(end,),
            details={**live.instance.details, **failure.details},
            health=AgentHealthStatus(),
        )
        body.clean(everything=False)
        await self._let_go(live)

    async def _fell(self, live: Live, body: Body, failure: Failure) -> None:
        now = self._clock.now()
        live.history = live.history.failed(now, self._rule)
        then = decide(live.options.restart_policy, live.history, now, self._rule, self._chance())
        await body.stop(_LAST_GRACE, force=True)
        await self._fail(live, failure, then)
        if isinstance(then, Restart):
            live.restart = self._clock.call_at(
                now + then.delay,
                lambda: self._begin_again(live),
            )

    async def _fail(self, live: Live, failure: Failure, then: Restart | GiveUp) -> None:
        error = failure.text[:_SHOWN]
        after: list[AgentEvent] = []
        if isinstance(then, GiveUp):
            if live.options.restart_policy is not None:
                error = f"{error}; not started again: {then.reason}"
            after.append(self._scribe.end(live, AgentState.FAILED, graceful=False, reason=error))
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
        await self._scribe.change(
            live,
            *path(live.instance.state, AgentState.FAILED),
            reason=failure.text[:_SHOWN],
            before=(self._scribe.error(live, failure),),
            after=after,
            error_message=error,
            details={**live.instance.details, **failure.details},
            health=AgentHealthStatus(details="it failed"),
        )
        if isinstance(then, GiveUp):
            await self._let_go(live)

    def _begin_again(self, live: Live) -> None:
        self._errands.begin(self._again(live), f"restarts {live.id}")

    async def _again(self, live: Live) -> None:
        """Start it once more, with the same id: a fresh program or object."""
        async with live.turn:
            live.restart = None
            if live.ending is not None:
                return
            live.history = live.history.restarted()
            live.restarts_total += 1
            self._scribe.metrics.count(names.RESTARTS_COUNT)
            try:
                await self._scribe.change(
                    live,
                    AgentState.INITIALIZING,
                    reason=f"restart {live.history.restart_count}",
                    at_most=self._most,
                    restart_count=live.history.restart_count,
                )
            except TooManyInstancesError as full:
                await self._give_up(live, f"no room for a restart: {full}")
                return
            try:
                await self.bring_up(live)
            except AgentInitializationError as problem:
                body, failure = live.body, Failure(str(problem), problem.__cause__)
                if body is not None and not live.is_ending:
                    await self._fell(live, body, failure)
                else:
                    # Whoever ends it takes it from here.
                    await self._scribe.change(
                        live, AgentState.FAILED, reason=failure.text, error_message=failure.text
                    )
                return
            await self.ready(live)

    async def _give_up(self, live: Live, reason: str) -> None:
        error = f"{live.instance.error_message}; {reason}"
        end = self._scribe.end(live, AgentState.FAILED, graceful=False, reason=error)
        await self._scribe.change(live, after=(end,), error_message=error)
        await self._let_go(live)

    async def _let_go(self, live: Live) -> None:
        """It has ended for good, by itself."""
        await clean_up(live, live.shot(self._clock.now()), self._clock, self._scribe.report)
        self._forget(live)

    async def ready(self, live: Live, *told: AgentEvent) -> None:
        """Write down that it is ready, and what it is."""
        body = live.body
        if body is None or live.instance.state is not AgentState.INITIALIZING:
            return
        await self._scribe.change(
            live,
            AgentState.READY,
            after=told,
            later=True,
            error_message=None,
            containment=body.containment,
            details={**live.instance.details, **body.details()},
        )


def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()


def _check_started(live: Live, starting: asyncio.Task[None], seconds: float) -> None:
    """Say why it did not get ready, if it did not."""
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
