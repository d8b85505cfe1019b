"""The source of instants and timers; code that waits takes a `Clock`, which tests can step."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST_SLEEP = 60.0
"""Seconds. A timer checks the wall clock at least this often: it may have been set meanwhile."""


LATE = 0.001
"""Seconds. An event loop may wake early; to be armed again for that would wake it twice."""


class Timer(Protocol):
    """Something that will happen, unless it is cancelled."""

    def cancel(self) -> None:
        """Cancel it; harmless once it has happened."""
        ...


class Clock(Protocol):
    """Seconds since the epoch, UTC, and calls at such instants."""

    def now(self) -> float:
        """Return the present instant."""
        ...

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        """Call back from the event loop when the instant has come."""
        ...


SET_BACK = 2.0
"""Seconds. A larger step back of the wall clock is not an ordinary correction."""


class SystemClock:
    """The real clock. If it is set back, it continues as if not, so that no wait gets longer.

    All of a process go alike.
    """

    _anchor = (0.0, 0.0)
    """An instant of the wall clock, and of the one that nobody sets."""

    def now(self) -> float:
        """Return the present instant."""
        wall, steady = time.time(), time.monotonic()  # noqa: TID251  # the clock all others use
        wall_then, steady_then = SystemClock._anchor
        expected = wall_then + (steady - steady_then)
        if wall < expected - SET_BACK and wall_then:
            return expected
        SystemClock._anchor = (wall, steady)
        return wall

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        """Call back when the instant has come, also after the wall clock was set."""
        return _SystemTimer(self, when, callback)


class _SystemTimer:
    def __init__(self, clock: SystemClock, when: float, callback: Callable[[], None]) -> None:
        self._clock, self._when, self._callback = clock, when, callback
        self._loop = asyncio.get_running_loop()
        # A clock that is set back must not make anybody wait longer than was meant.
        self._latest = self._loop.time() + max(0.0, when - clock.now())
        self._handle = self._next()

    def _next(self) -> asyncio.TimerHandle:
        left = min(max(0.0, self._when - self._clock.now()), LONGEST_SLEEP)
        when = min(self._loop.time() + left, self._latest)
        return self._loop.call_at(when + (LATE if left else 0.0), self._fire)

    def _fire(self) -> None:
        if self._clock.now() >= self._when or self._loop.time() >= self._latest:
            self._callback()
        else:
            self._handle = self._next()

    def cancel(self) -> None:
        self._handle.cancel()


class SteppedClock:
    """A clock that moves only when told to; shipped so that users can test their own policies."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self._now = now
        self._order = itertools.count()
        self._due: list[tuple[float, int, _SteppedTimer]] = []

    def now(self) -> float:
        """Return the instant it was last moved to."""
        return self._now

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        """Call back when the clock is moved past the instant; at once if it is already."""
        timer = _SteppedTimer(callback)
        if when <= self._now:
            asyncio.get_running_loop().call_soon(timer.fire)
        else:
            heapq.heappush(self._due, (when, next(self._order), timer))
        return timer

    def advance(self, seconds: float) -> None:
        """Move on, firing every timer on the way in its order."""
        end = self._now + seconds
        while self._due and self._due[0][0] <= end:
            when, _, timer = heapq.heappop(self._due)
            self._now = max(self._now, when)
            timer.fire()
        self._now = end

    def next_instant(self) -> float | None:
        """Return when the next timer is due, if there is one."""
        while self._due and self._due[0][2].cancelled:
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None


class _SteppedTimer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback = callback
        self.cancelled = False

    def fire(self) -> None:
        if not self.cancelled:
            self._callback()

    def cancel(self) -> None:
        self.cancelled = True
