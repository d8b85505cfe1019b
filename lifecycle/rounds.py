"""Looks at all living agents in one pass: what they report, and how much they move."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lifecycle.attend import fault_of
from lifecycle.parts import silent

if TYPE_CHECKING:
    from collections.abc import Callable

    from lifecycle.attend import Attendance
    from lifecycle.clock import Clock, Timer
    from lifecycle.parts import Report
    from lifecycle.ports import Terminals

SAMPLE_INTERVAL = 2.0
"""Seconds between two measurements of all living agents."""
SLEPT = 30.0
"""Seconds that a measurement may be late; beyond, the machine slept or its clock was set."""


class Rounds:
    """Measures all living agents in one pass; rests while there are none."""

    def __init__(
        self,
        terminals: Terminals,
        clock: Clock,
        interval: float = SAMPLE_INTERVAL,
        report: Report = silent,
    ) -> None:
        self._terminals = terminals
        self._clock = clock
        self._interval = interval
        self._report = report
        self._faulty: set[str] = set()
        """Marks of agents of which a fault was reported."""
        self._attended: dict[str, Attendance] = {}
        self._timer: Timer | None = None
        self._due = 0.0

    def add(self, attendance: Attendance) -> None:
        """Measure this agent from now on."""
        self._attended[attendance.process.identity.mark] = attendance
        if self._timer is None:
            self._arm()

    def drop(self, attendance: Attendance) -> None:
        """Measure this agent no more."""
        mark = attendance.process.identity.mark
        self._attended.pop(mark, None)
        self._faulty.discard(mark)
        if not self._attended and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        shortest = min(
            (limit / 4 for each in self._attended.values()
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
            for attendance in list(self._attended.values()):
                if abs(slept) > SLEPT:
                    attendance.slept(slept)
                self._guarded(attendance, attendance.listen)
            measured = self._terminals.sample()
            for mark, attendance in list(self._attended.items()):
                activity = measured.get(mark)
                if activity is not None:
                    self._guarded(attendance, partial(attendance.measured, activity))
        finally:
            # Also when the system could not be looked at: limits must not be off from then on.
            self._timer = None
            if self._attended:
                self._arm()

    def _guarded(self, attendance: Attendance, look: Callable[[], None]) -> None:
        """Look at one agent; a fault there must not keep the limits of the others from holding."""
        try:
            look()
        except Exception as problem:  # noqa: BLE001  # whatever it is, the others go on
            mark = attendance.process.identity.mark
            if mark not in self._faulty:  # the same comes again with every pass
                self._faulty.add(mark)
                self._report("attendance_failed", spawn_id=mark, problem=fault_of(problem))
