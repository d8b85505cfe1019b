"""When a host may be asked: one door per host, shut by failures in a row and by its rate limit.

Owns the states of the door. Pure: the time and the chance are passed in; it asks nobody itself.
"""

from __future__ import annotations

import math

from ci.errors import LimitedError, UnreachableError

FAILURES = 3
"""In a row, until the host is left alone for a while."""
FIRST_SHUT = 5.0
LONGEST_SHUT = 120.0
SPREAD = 0.2
"""Up or down at random, so that not all runners come back at the same moment."""
PROBE_PATIENCE = 1.0
"""Seconds after which to look again whether the one that was let through came back."""


class Door:
    """The door of one host.

    Who goes in gets a ticket and must give it back by `passed`, `failed` or `left`. After failures
    in a row the door is shut for a while, each time for longer; then it lets one through, and only
    if that one comes back well is it open again.
    """

    def __init__(self, host: str) -> None:
        self.host = host
        self._failures = 0
        self._shuttings = 0
        self._shut_until: float | None = None
        self._limited_until = 0.0
        self._reason = ""
        self._round = 0
        """Of the tickets: a failure that began before the door was shut says nothing new."""
        self._probe: int | None = None

    def check(self, now: float) -> None:
        """Raise if the host is not to be asked now."""
        if now < self._limited_until:
            wait = _wait(self._limited_until - now)
            raise LimitedError(
                f"{self.host} is not asked for another {wait}: its rate limit is used up",
                retry_at=self._limited_until,
            )
        if self._shut_until is None:
            return
        until = self._shut_until
        if self._probe is not None:
            until = max(until, now + PROBE_PATIENCE)
        if now < until:
            raise UnreachableError(
                f"{self.host} is not asked for another {_wait(until - now)}, "
                f"because it failed: {self._reason}",
                retry_at=until,
            )

    def enter(self, now: float) -> int:
        """Go in, or raise as `check` does."""
        self.check(now)
        if self._shut_until is not None:
            self._round += 1
            self._probe = self._round
        return self._round

    def passed(self) -> None:
        """Came back with an answer: the host is there."""
        if self._shut_until is not None:
            self._round += 1
        self._failures = self._shuttings = 0
        self._shut_until = self._probe = None

    def failed(
        self, ticket: int, now: float, reason: str, chance: float, *, until: float | None = None
    ) -> float:
        """Came back without an answer; return when to try again.

        `chance` is in [0, 1); `until` is what the host itself asked for.
        """
        if ticket != self._round:
            return self._shut_until if self._shut_until is not None else now
        self._failures += 1
        self._reason = reason
        probed = self._probe is not None
        if until is None and not probed and self._failures < FAILURES:
            return now + self._failures
        wait = min(FIRST_SHUT * 2**self._shuttings, LONGEST_SHUT)
        self._shuttings = min(self._shuttings + 1, 16)
        self._round += 1
        self._probe = None
        self._shut_until = max(until or 0.0, now + wait * (1 - SPREAD + 2 * SPREAD * chance))
        return self._shut_until

    def left(self, ticket: int) -> None:
        """Came back having found out nothing: cancelled, or the answer was of no use."""
        if self._probe == ticket:
            self._probe = None

    def limit(self, until: float) -> None:
        """Shut for a used-up rate limit."""
        self._limited_until = max(self._limited_until, until)


class Doors:
    """The doors of all hosts; all `Web` objects of a program are given the same ones."""

    def __init__(self) -> None:
        self._doors: dict[str, Door] = {}

    def of(self, host: str) -> Door:
        """Return the one door of this host."""
        return self._doors.setdefault(host, Door(host))


def _wait(seconds: float) -> str:
    return f"{math.ceil(seconds)} s"
