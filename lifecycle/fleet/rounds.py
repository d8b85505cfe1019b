"""Looks after all living instances in one pass: measures them, and judges their health.

Rests while there are none. It must not end anything: whoever is to be given up is told of.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from lifecycle.fleet import health
from lifecycle.fleet.agentevents import AgentMetricsUpdatedEvent
from lifecycle.fleet.body import Failure
from lifecycle.fleet.instances import AgentMetrics, AgentState, HealthState, instant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lifecycle.clock import Clock, Timer
    from lifecycle.fleet.body import Body, Errands, Signs
    from lifecycle.fleet.instances import AgentHealthStatus
    from lifecycle.fleet.live import Live
    from lifecycle.fleet.scribe import Scribe
    from lifecycle.ports import Terminals

INTERVAL = 5.0
_LIVING = (AgentState.READY, AgentState.PROCESSING, AgentState.WAITING)


class Rounds:
    """Goes round every few seconds."""

    def __init__(  # noqa: PLR0913  # all by name
        self,
        *,
        living: Callable[[], Iterable[Live]],
        terminals: Terminals | None,
        scribe: Scribe,
        clock: Clock,
        errands: Errands,
        failed: Callable[[Live, Body, Failure], None],
        interval: float = INTERVAL,
    ) -> None:
        self._living = living
        self._terminals = terminals
        self._scribe = scribe
        self._clock = clock
        self._errands = errands
        self._failed = failed
        self._interval = interval
        self._timer: Timer | None = None

    def wake(self) -> None:
        """Somebody lives: go round from now on."""
        if self._timer is None:
            self._timer = self._clock.call_at(self._clock.now() + self._interval, self._ring)

    def rest(self) -> None:
        """Go round no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        self._timer = None
        try:
            self.go()
        finally:
            if any(True for _ in self._living()):
                self.wake()

    def go(self) -> None:
        """Go round once."""
        lives = [live for live in self._living() if live.body is not None]
        marked = any(live.body is not None and live.body.mark for live in lives)
        measured = self._terminals.sample() if marked and self._terminals is not None else {}
        now = self._clock.now()
        for live in lives:
            if live.body is not None and live.instance.is_active:
                signs = live.body.look(measured.get(live.body.mark))
                self._measure(live, signs, now)
                if live.instance.state in _LIVING:
                    self._look_after(live, signs, now)

    def _measure(self, live: Live, signs: Signs, now: float) -> None:
        share = 0.0
        if live.cpu is not None and now > live.cpu[0]:
            # What a process that died had used is not counted any more.
            share = max(0.0, (signs.cpu_seconds - live.cpu[1]) / (now - live.cpu[0]) * 100)
        live.cpu = (now, signs.cpu_seconds)
        live.metrics = AgentMetrics.model_construct(
            sampled_at=instant(now),
            memory_bytes=signs.memory_bytes,
            cpu_percent=round(share, 1),
            cpu_seconds=signs.cpu_seconds,
            processes=signs.processes,
            output_bytes=signs.output_bytes,
            uptime=timedelta(seconds=now - live.born),
            tasks_running=signs.tasks_running,
            tasks_done=signs.tasks_done,
            tasks_failed=signs.tasks_failed,
        )
        if self._scribe.hub.heard(live.id):
            self._scribe.tell(
                AgentMetricsUpdatedEvent(
                    instance_id=live.id,
                    occurred_at=instant(now),
                    correlation_id=live.correlation_id,
                    metrics=live.metrics,
                )
            )

    def _look_after(self, live: Live, signs: Signs, now: float) -> None:
        if signs.moved:
            live.moved_at = now
            if live.body is not None and live.body.mark and live.instance.state is AgentState.READY:
                self._errands.begin(self._at_work(live), f"sees {live.id} at work")
        if now < live.check_at or live.checking is not None:
            return
        config = live.options.health_check or health.HEARTBEAT
        live.check_at = now + config.interval.total_seconds()
        if config.custom:
            live.checking = self._errands.begin(self._check(live), f"checks {live.id}")
        else:
            quiet = now - live.moved_at
            status = health.heartbeat(live.instance.health, config, quiet, instant(now))
            self._judged(live, status)

    async def _at_work(self, live: Live) -> None:
        if live.instance.state is AgentState.READY and live.ending is None:
            await self._scribe.change(live, AgentState.PROCESSING, reason="it works")

    async def _check(self, live: Live) -> None:
        config, body = live.options.health_check, live.body
        try:
            if config is None or body is None:
                return
            seconds = config.timeout.total_seconds()
            if config.check:
                check = live.definition.checks[config.check]
                problem = await health.ask(check, live.shot(self._clock.now()), seconds)
            else:
                problem = await body.check(config.command, seconds)
            if live.body is not body or live.instance.state not in _LIVING:
                return
            now = instant(self._clock.now())
            status = health.judge(live.instance.health, config, problem, now)
            self._judged(live, status)
            if status.state is HealthState.UNHEALTHY and config.restart_when_unhealthy:
                self._failed(live, body, Failure(f"unhealthy: {status.details}"))
        finally:
            live.checking = None

    def _judged(self, live: Live, status: AgentHealthStatus) -> None:
        if status.state is HealthState.HEALTHY:
            live.history = live.history.healthy()
        if status.state is not live.instance.health.state:
            self._errands.begin(self._scribe.health(live, status), f"health of {live.id}")
        else:
            # Nothing new to write down; the counters go on.
            live.instance = live.instance.model_copy(update={"health": status})
