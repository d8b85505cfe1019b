"""What a spawner does every so many seconds, whether or not it has live instances."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lifecycle.clock import Clock, Timer
    from lifecycle.fleet.api.quota import Quota
    from lifecycle.fleet.bodies.body import BackgroundTasks
    from lifecycle.fleet.spawner.authorization_gate import AuthorizationGate
    from lifecycle.fleet.spawner.state_changes import StateWriter
    from lifecycle.reporting import Report


class PeriodicTask:
    """Awaits `run` when it is started and then every `interval` seconds, never twice at once."""

    def __init__(  # noqa: PLR0913  # all by name
        self,
        *,
        name: str,
        run: Callable[[], Awaitable[object]],
        interval: float,
        clock: Clock,
        tasks: BackgroundTasks,
        report: Report,
    ) -> None:
        self._name, self._run, self._interval = name, run, interval
        self._clock, self._tasks, self._report = clock, tasks, report
        self._timer: Timer | None = None
        self._stopped = False

    def start(self) -> None:
        """Run from now on; harmless when called again."""
        if self._timer is None and not self._stopped:
            self._wait(0.0)

    def stop(self) -> None:
        """Run no more."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self, seconds: float) -> None:
        self._timer = self._clock.call_at(self._clock.now() + seconds, self._on_timer)

    def _on_timer(self) -> None:
        if not self._stopped:
            self._tasks.start(self._run_once(), self._name)

    async def _run_once(self) -> None:
        try:
            await self._run()
        except StoreError as problem:
            self._report("instance_upkeep_failed", task=self._name, reason=str(problem))
        finally:
            if not self._stopped:
                self._wait(self._interval)


class LimitCheck:
    """Tells when more instances are active than the quota tier allows; ends none of them.

    A spawn never goes beyond the limit, but a store may be shared with a spawner of a higher tier.
    """

    def __init__(self, quota: Quota, writer: StateWriter, gate: AuthorizationGate) -> None:
        self._quota, self._writer, self._gate = quota, writer, gate
        self._told = 0
        """How many were active when that was last told, 0 while they are within the limit."""

    async def run(self) -> None:
        """Report and audit it, once for each number of active instances."""
        most = self._quota.max_concurrent
        active = await self._writer.store.active()
        if most is None or active <= most:
            self._told = 0
        elif active != self._told:
            self._told = active
            reason = f"the quota tier {self._quota.tier} allows {most} agents at once"
            self._writer.report(
                "concurrent_limit_exceeded", current=active, max=most, reason=reason
            )
            await self._gate.note(
                "limit", "instances", "exceeded", reason, {"current": active, "max": most}
            )
