"""Samples all running agents in one pass: what they report, and their activity."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lifecycle.attempt.watch import described
from lifecycle.reporting import silent

if TYPE_CHECKING:
    from collections.abc import Callable

    from lifecycle.attempt.watch import AttemptWatch
    from lifecycle.clock import Clock, Timer
    from lifecycle.ports import Terminals
    from lifecycle.reporting import Report

SLEPT = 30.0
"""Seconds that a measurement may be late; beyond, the machine slept or its clock was set."""


class AttemptSampler:
    """Measures all running agents in one pass; no timer while there are none."""

    def __init__(
        self,
        terminals: Terminals,
        clock: Clock,
        interval: float,
        report: Report = silent,
    ) -> None:
        self._terminals = terminals
        self._clock = clock
        self._interval = interval
        self._report = report
        self._faulty: set[str] = set()
        """Marks of agents of which a fault was reported."""
        self._watches: dict[str, AttemptWatch] = {}
        self._timer: Timer | None = None
        self._due = 0.0

    def add(self, watch: AttemptWatch) -> None:
        """Measure this agent from now on."""
        self._watches[watch.process.identity.mark] = watch
        if self._timer is None:
            self._arm()

    def drop(self, watch: AttemptWatch) -> None:
        """Stop measuring this agent."""
        mark = watch.process.identity.mark
        self._watches.pop(mark, None)
        self._faulty.discard(mark)
        if not self._watches and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        shortest = min(
            (limit / 4 for each in self._watches.values()
             for limit in (each.settings.wall_limit, each.settings.idle_limit) if limit),
            default=self._interval,
        )  # fmt: skip
        pause = max(0.05, min(self._interval, shortest))
        self._due = self._clock.now() + pause
        self._timer = self._clock.call_at(self._due, self._pass)

    def _pass(self) -> None:
        slept = self._clock.now() - self._due
        try:
            # Before the logs are measured, which may also shorten them.
            for watch in list(self._watches.values()):
                if abs(slept) > SLEPT:
                    watch.slept(slept)
                self._guarded(watch, watch.listen)
            measured = self._terminals.sample()
            for mark, watch in list(self._watches.items()):
                activity = measured.get(mark)
                if activity is not None:
                    self._guarded(watch, partial(watch.measured, activity))
        finally:
            # Also when the system could not be looked at: limits must not be off from then on.
            self._timer = None
            if self._watches:
                self._arm()

    def _guarded(self, watch: AttemptWatch, look: Callable[[], None]) -> None:
        """Look at one agent; a fault there must not keep the limits of the others from holding."""
        try:
            look()
        except Exception as problem:  # noqa: BLE001  # whatever it is, the others go on
            mark = watch.process.identity.mark
            if mark not in self._faulty:  # the same comes again with every pass
                self._faulty.add(mark)
                self._report("attendance_failed", spawn_id=mark, problem=described(problem))
