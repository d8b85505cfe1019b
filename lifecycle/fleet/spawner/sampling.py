"""Measures all live instances in one pass, and checks their health.

Health is decided from consecutive checks by pure functions. Idle while there are no instances. Must
not end an instance: it reports the unhealthy ones.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

from lifecycle.fleet.api.events import AgentMetricsUpdatedEvent
from lifecycle.fleet.api.instances import (
    AgentHealthStatus,
    AgentMetrics,
    HealthState,
    InstanceState,
    instant,
)
from lifecycle.fleet.api.options import HealthCheckConfig
from lifecycle.fleet.bodies.body import BodyFailure
from lifecycle.fleet.bodies.in_process import own_activity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from lifecycle.clock import Timer
    from lifecycle.fleet.api.instances import AgentInstance
    from lifecycle.fleet.api.registry import HealthCheck
    from lifecycle.fleet.bodies.body import BackgroundTasks, Body, BodyActivity
    from lifecycle.fleet.spawner.live_instance import LiveInstance
    from lifecycle.fleet.spawner.state_changes import StateWriter
    from lifecycle.ports import Terminals

INTERVAL = 5.0
HEARTBEAT = HealthCheckConfig()
_LIVING = (InstanceState.READY, InstanceState.PROCESSING, InstanceState.WAITING)


class InstanceSampler:
    """Samples all live instances every few seconds."""

    def __init__(  # noqa: PLR0913  # all by name
        self,
        *,
        living: Callable[[], Iterable[LiveInstance]],
        terminals: Callable[[], Terminals | None],
        writer: StateWriter,
        tasks: BackgroundTasks,
        failed: Callable[[LiveInstance, Body, BodyFailure], None],
        interval: float = INTERVAL,
    ) -> None:
        self._living = living
        self._terminals = terminals
        self._writer = writer
        self._clock = writer.clock
        self._tasks = tasks
        self._failed = failed
        self._interval = interval
        self._timer: Timer | None = None

    def start(self) -> None:
        """Sample from now on; harmless when called again."""
        if self._timer is None:
            self._timer = self._clock.call_at(self._clock.now() + self._interval, self._on_timer)

    def stop(self) -> None:
        """Stop sampling."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timer(self) -> None:
        self._timer = None
        try:
            self.sample_all()
        finally:
            if any(True for _ in self._living()):
                self.start()

    def sample_all(self) -> None:
        """Sample and check all live instances once."""
        lives = [live for live in self._living() if live.body is not None]
        marks = {live.body.mark for live in lives if live.body is not None}
        terminals = self._terminals()
        measured = terminals.sample() if any(marks) and terminals is not None else {}
        if "" in marks:
            measured = {**measured, "": own_activity()}
        now = self._clock.now()
        for live in lives:
            if live.body is not None and live.instance.is_active:
                activity = live.body.sample(measured.get(live.body.mark))
                self._measure(live, activity, now)
                self._note_limit(live, activity, now)
                if live.instance.state in _LIVING:
                    self._check_health(live, activity, now)

    def _measure(self, live: LiveInstance, activity: BodyActivity, now: float) -> None:
        share = 0.0
        if live.cpu is not None and now > live.cpu[0]:
            # The usage of processes that ended is no longer counted, so it may fall.
            share = max(0.0, (activity.cpu_seconds - live.cpu[1]) / (now - live.cpu[0]) * 100)
        live.cpu = (now, activity.cpu_seconds)
        live.metrics = AgentMetrics.model_construct(
            sampled_at=instant(now),
            memory_bytes=activity.memory_bytes,
            cpu_percent=round(share, 1),
            cpu_seconds=activity.cpu_seconds,
            processes=activity.processes,
            output_bytes=activity.output_bytes,
            tokens=activity.tokens,
            uptime=timedelta(seconds=now - live.born),
            tasks_running=activity.tasks_running,
            tasks_done=activity.tasks_done,
            tasks_failed=activity.tasks_failed,
        )
        if self._writer.hub.is_observed(live.id):
            self._writer.emit(
                AgentMetricsUpdatedEvent(
                    instance_id=live.id,
                    occurred_at=instant(now),
                    correlation_id=live.correlation_id,
                    metrics=live.metrics,
                )
            )

    def _note_limit(self, live: LiveInstance, activity: BodyActivity, now: float) -> None:
        """Report one that comes to be beyond a limit, and check its health now."""
        before, live.over_limit = live.over_limit, activity.over_limit
        if bool(before) is bool(live.over_limit):
            return
        live.check_at = now
        if live.over_limit:
            self._writer.report(
                "agent_limit_exceeded", instance_id=str(live.id), reason=live.over_limit
            )

    def _check_health(self, live: LiveInstance, activity: BodyActivity, now: float) -> None:
        if activity.active:
            live.active_at = now
            if (
                live.body is not None
                and live.body.mark
                and live.instance.state is InstanceState.READY
            ):
                self._tasks.start(self._set_processing(live), f"marks {live.id} as processing")
        if now < live.check_at or live.checking is not None:
            return
        config = live.options.health_check or HEARTBEAT
        live.check_at = now + config.interval.total_seconds()
        if config.custom:
            live.checking = self._tasks.start(self._check(live), f"checks {live.id}")
        else:
            quiet = now - live.active_at
            status = heartbeat(live.instance.health, config, quiet, instant(now))
            self._set_health(live, limited(status, live.over_limit))

    async def _set_processing(self, live: LiveInstance) -> None:
        if live.instance.state is InstanceState.READY and live.ending is None:
            await self._writer.change(live, InstanceState.PROCESSING, reason="it is active")

    async def _check(self, live: LiveInstance) -> None:
        config, body = live.options.health_check, live.body
        try:
            if config is None or body is None:
                return
            seconds = config.timeout.total_seconds()
            if config.check:
                check = live.definition.checks[config.check]
                problem = await run_check(check, live.snapshot(self._clock.now()), seconds)
            else:
                problem = await body.check(config.command, seconds)
            if live.body is not body or live.instance.state not in _LIVING:
                return
            now = instant(self._clock.now())
            status = limited(judge(live.instance.health, config, problem, now), live.over_limit)
            self._set_health(live, status)
            if status.state is HealthState.UNHEALTHY and config.restart_when_unhealthy:
                self._failed(live, body, BodyFailure(f"unhealthy: {status.details}"))
        finally:
            live.checking = None

    def _set_health(self, live: LiveInstance, status: AgentHealthStatus) -> None:
        if status.state is HealthState.HEALTHY:
            live.history = live.history.healthy()
        if status.state is not live.instance.health.state:
            self._tasks.start(self._writer.health(live, status), f"health of {live.id}")
        else:
            # The state is the same, so only the counters in memory change.
            live.instance = live.instance.model_copy(update={"health": status})


def judge(
    before: AgentHealthStatus, config: HealthCheckConfig, problem: str, at: datetime
) -> AgentHealthStatus:
    """Return the health after one more check; an empty problem means it passed."""
    if problem:
        failures = before.failures + 1
        bad = failures >= config.unhealthy_threshold
        state = HealthState.UNHEALTHY if bad else HealthState.DEGRADED
        return AgentHealthStatus(state=state, details=problem, checked_at=at, failures=failures)
    successes = before.successes + 1
    state = HealthState.HEALTHY if successes >= config.healthy_threshold else before.state
    details = "" if state is HealthState.HEALTHY else before.details
    return AgentHealthStatus(state=state, details=details, checked_at=at, successes=successes)


def heartbeat(
    before: AgentHealthStatus, config: HealthCheckConfig, quiet: float, at: datetime
) -> AgentHealthStatus:
    """Return the health of a live instance that has been inactive for so many seconds.

    A quiet agent may be thinking, so it becomes degraded at worst.
    """
    if quiet < config.stale_after.total_seconds():
        return judge(before, config, "", at)
    return AgentHealthStatus(
        state=HealthState.DEGRADED,
        details=f"no output, no processor use and no mailbox change for {quiet:.0f} s",
        checked_at=at,
        failures=before.failures + 1,
    )


def limited(status: AgentHealthStatus, over_limit: str) -> AgentHealthStatus:
    """Return the health of an instance that may be beyond a limit: degraded at best."""
    if not over_limit or status.state is HealthState.UNHEALTHY:
        return status
    return status.model_copy(update={"state": HealthState.DEGRADED, "details": over_limit})


async def run_check(check: HealthCheck, instance: AgentInstance, seconds: float) -> str:
    """Run a check of the definition; return its problem, or an empty string."""
    try:
        async with asyncio.timeout(seconds):
            return await check(instance)
    except TimeoutError:
        return f"the check took longer than {seconds:g} s"
    except Exception as problem:  # noqa: BLE001  # a check may run any code
        return f"the check failed: {type(problem).__name__}: {problem}"
