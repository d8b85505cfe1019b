"""Ends instances: told, cancelled, cleaned up, let go, written down, in this order."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lifecycle.fleet import metrics as names
from lifecycle.fleet.agentevents import AgentStateChangedEvent, AgentTerminatedEvent
from lifecycle.fleet.cleanup import clean_up
from lifecycle.fleet.instances import AgentHealthStatus, AgentState, instant, path
from lifecycle.fleet.queries import TerminationOptions, TerminationResult
from lifecycle.fleet.records import event_rows, instance_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from lifecycle.clock import Clock
    from lifecycle.fleet.body import Errands, Stopped
    from lifecycle.fleet.live import Live
    from lifecycle.fleet.scribe import Scribe
    from lifecycle.store.instances import InstanceRow

STILL = "it did not end within {seconds:g} s, and force_if_timeout is off; terminate it with force"


class Terminator:
    """Ends instances that this process runs."""

    def __init__(
        self, *, scribe: Scribe, clock: Clock, errands: Errands, forget: Callable[[Live], None]
    ) -> None:
        self._scribe = scribe
        self._clock = clock
        self._errands = errands
        self._forget = forget

    async def end(self, live: Live, options: TerminationOptions) -> TerminationResult:
        """End one; the end goes on if the caller is cancelled. A second call may hurry it."""
        under_way = live.ending
        if under_way is not None and not under_way.done():
            if live.body is not None and live.instance.state is AgentState.TERMINATING:
                grace = options.graceful_timeout.total_seconds()
                hurried = self._errands.begin(
                    live.body.stop(grace, force=options.force_if_timeout), f"hurries {live.id}"
                )
                await asyncio.wait({hurried, under_way}, return_when=asyncio.ALL_COMPLETED)
            result = await asyncio.shield(under_way)
            if result.success:
                return result
        live.ending = self._errands.begin(self._end(live, options), f"ends {live.id}")
        return await asyncio.shield(live.ending)

    async def _end(self, live: Live, options: TerminationOptions) -> TerminationResult:
        began = self._clock.now()
        if live.restart is not None:
            live.restart.cancel()
            live.restart = None
        if live.starting is not None:
            live.starting.cancel()
        if live.instance.state in (AgentState.INITIALIZING, AgentState.FAILED):
            # Whoever starts it, or deals with its failure, has to be through with it first.
            async with live.turn:
                pass
        if live.instance.state is AgentState.FAILED:
            return await self._bury(live, options, began)
        return await self._stop(live, options, began)

    async def _bury(
        self, live: Live, options: TerminationOptions, began: float
    ) -> TerminationResult:
        """Nothing of it is left but its record."""
        reason = options.reason or "terminated after it had failed"
        end = self._scribe.end(live, AgentState.TERMINATED, graceful=True, reason=reason)
        await self._scribe.change(live, AgentState.TERMINATED, reason=reason, after=(end,))
        problems = await clean_up(live, self._shot(live), self._clock, self._scribe.report)
        return self._result(live, began, graceful=True, problems=problems)

    async def _stop(
        self, live: Live, options: TerminationOptions, began: float
    ) -> TerminationResult:
        body, seconds = live.body, options.graceful_timeout.total_seconds()
        if body is None:
            return TerminationResult.failed("it was never started")
        kept: dict[str, Any] = {}
        if live.instance.state is not AgentState.TERMINATING:
            way = path(live.instance.state, AgentState.TERMINATING)
            await self._scribe.change(live, *way, reason=options.reason)
        if options.persist_final_state:
            kept = await body.keep_state()
        problems = await clean_up(live, self._shot(live), self._clock, self._scribe.report)
        stopped = await body.stop(seconds, force=options.force_if_timeout)
        if not (stopped.gone or stopped.abandoned):
            # Its state must not say that it ended while something of it lives.
            told = "; ".join(stopped.problems) or STILL.format(seconds=seconds)
            return TerminationResult.failed(told)
        if not stopped.graceful:
            self._scribe.report(
                "graceful_shutdown_timeout", instance_id=str(live.id), seconds=seconds
            )
        await self._record(live, options, stopped, kept)
        if not kept:
            body.clean(everything=False)
        return self._result(
            live, began, graceful=stopped.graceful, problems=(*problems, *stopped.problems)
        )

    async def _record(
        self, live: Live, options: TerminationOptions, stopped: Stopped, kept: dict[str, Any]
    ) -> None:
        left = {"left_behind": list(stopped.problems)} if not stopped.gone else {}
        end = self._scribe.end(
            live, AgentState.TERMINATED, graceful=stopped.graceful, reason=options.reason
        )
        await self._scribe.change(
            live,
            AgentState.TERMINATED,
            reason=options.reason,
            after=(end,),
            health=AgentHealthStatus(),
            details={**live.instance.details, **kept, **left},
        )

    def _result(
        self, live: Live, began: float, *, graceful: bool, problems: tuple[str, ...]
    ) -> TerminationResult:
        self._forget(live)
        took = self._clock.now() - began
        self._scribe.metrics.count(names.TERMINATE_COUNT)
        self._scribe.metrics.took(names.TERMINATE_DURATION, took)
        if live.unwritten:
            problems = (*problems, f"its record could not be written: {live.unwritten}")
        if not graceful:
            self._scribe.metrics.count(names.TERMINATE_FORCED)
        return TerminationResult.successful(
            self._shot(live),
            was_graceful=graceful,
            duration=timedelta(seconds=took),
            problems=problems,
        )

    def _shot(self, live: Live) -> Any:
        return live.shot(self._clock.now())


async def bury(scribe: Scribe, row: InstanceRow, reason: str | None) -> TerminationResult:
    """Write down that an instance which had failed is done with."""
    now = scribe.clock.now()
    common: dict[str, Any] = {"instance_id": row.id, "occurred_at": instant(now)}
    reason = reason or "terminated after it had failed"
    events = (
        AgentStateChangedEvent(
            **common,
            previous_state=AgentState.FAILED,
            new_state=AgentState.TERMINATED,
            reason=reason,
        ),
        AgentTerminatedEvent(
            **common,
            final_state=AgentState.TERMINATED,
            was_graceful=True,
            reason=reason,
            uptime=instant(row.terminated_at or now) - instant(row.created_at),
        ),
    )
    buried = replace(row, state=AgentState.TERMINATED.value, updated_at=now)
    await scribe.store.save(buried, event_rows(events))
    scribe.tell(*events)
    scribe.metrics.count(names.TERMINATE_COUNT)
    return TerminationResult.successful(
        instance_of(buried, now), was_graceful=True, duration=timedelta()
    )
