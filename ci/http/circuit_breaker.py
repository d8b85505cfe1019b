"""Circuit breakers: one per host, opened by consecutive failures and by the rate limit.

Owns the states of a breaker. Pure: time and randomness are passed in; it sends no requests.
"""

from __future__ import annotations

import math

from ci.errors import LimitedError, UnreachableError

FAILURES = 3
"""Consecutive failures that open the breaker."""
FIRST_PAUSE = 5.0
LONGEST_PAUSE = 120.0
SPREAD = 0.2
"""Random spread, so that not all runners retry at the same moment."""
PROBE_PATIENCE = 1.0
"""Seconds after which to check again whether the probe has returned."""


class CircuitBreaker:
    """The circuit breaker of one host.

    A request takes a ticket by `enter` and gives it back by `passed`, `failed` or `left`. After
    consecutive failures the breaker is open for a while, each time for longer; then it lets one
    probe through, and only if that succeeds is it closed again.
    """

    def __init__(self, host: str) -> None:
        self.host = host
        self._failures = 0
        self._openings = 0
        self._open_until: float | None = None
        self._limited_until = 0.0
        self._reason = ""
        self._round = 0
        """Of the tickets: a failure of a request sent before the breaker opened is not news."""
        self._probe: int | None = None

    def check(self, now: float) -> None:
        """Raise if no request may be sent to the host now."""
        if now < self._limited_until:
            wait = _wait(self._limited_until - now)
            raise LimitedError(
                f"{self.host} is not asked for another {wait}: its rate limit is used up",
                retry_at=self._limited_until,
            )
        if self._open_until is None:
            return
        until = self._open_until
        if self._probe is not None:
            until = max(until, now + PROBE_PATIENCE)
        if now < until:
            raise UnreachableError(
                f"{self.host} is not asked for another {_wait(until - now)}, "
                f"because it failed: {self._reason}",
                retry_at=until,
            )

    def enter(self, now: float) -> int:
        """Take a ticket, or raise as `check` does."""
        self.check(now)
        if self._open_until is not None:
            self._round += 1
            self._probe = self._round
        return self._round

    def passed(self) -> None:
        """Record an answer: the host works."""
        if self._open_until is not None:
            self._round += 1
        self._failures = self._openings = 0
        self._open_until = self._probe = None

    def failed(
        self, ticket: int, now: float, reason: str, chance: float, *, until: float | None = None
    ) -> float:
        """Record a failure; return when to try again.

        `chance` is in [0, 1); `until` is what the host itself asked for.
        """
        if ticket != self._round:
            return self._open_until if self._open_until is not None else now
        self._failures += 1
        self._reason = reason
        probed = self._probe is not None
        if until is None and not probed and self._failures < FAILURES:
            return now + self._failures
        wait = min(FIRST_PAUSE * 2**self._openings, LONGEST_PAUSE)
        self._openings = min(self._openings + 1, 16)
        self._round += 1
        self._probe = None
        self._open_until = max(until or 0.0, now + wait * (1 - SPREAD + 2 * SPREAD * chance))
        return self._open_until

    def left(self, ticket: int) -> None:
        """Record a request without result: cancelled, or an unusable answer."""
        if self._probe == ticket:
            self._probe = None

    def limit(self, until: float) -> None:
        """Open the breaker until the rate limit resets."""
        self._limited_until = max(self._limited_until, until)


class CircuitBreakers:
    """The breakers of all hosts; all `HttpClient` objects of a program are given the same ones."""

    def __init__(self) -> None:
        self._breakers: dict[str, CircuitBreaker] = {}

    def of(self, host: str) -> CircuitBreaker:
        """Return the breaker of this host."""
        return self._breakers.setdefault(host, CircuitBreaker(host))


def _wait(seconds: float) -> str:
    return f"{math.ceil(seconds)} s"
