"""The remaining rate limit of a forge, and how to spread requests over its window.

Owns the reading of rate headers. Pure: the time is always passed in.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

LONGEST = 3600.0
"""Seconds. Whatever a header says, try again after this long."""
DAY = 86400.0
PLENTY = 0.5
"""While more than this share of the limit is left, requests are not slowed down."""
SAME_WINDOW = 5.0
"""Seconds by which reset times of one window may differ."""
EPOCH_LIKE = 1e9
"""A smaller number cannot be an instant; it is a number of seconds from now."""


@dataclass(frozen=True, slots=True)
class RateBudget:
    """What the forge's rate headers said last; None where they are missing."""

    limit: int | None = None
    remaining: int | None = None
    resets_at: float | None = None
    poll_interval: float | None = None
    """Seconds that the forge requires between two polls of the same thing."""
    spent: int = 0
    """Answers so far that were not 304, which are the ones that count."""
    asked: int = 0
    """Answers of any kind since the last reset."""
    drawn: int = 0
    """By how much `remaining` fell in that time, including other users of the token."""
    users: int = 1
    """How many repositories of this process share it; each asks on its own."""

    def told(self, headers: Mapping[str, str], now: float, *, counted: bool) -> RateBudget:
        """Return what is known after an answer with these headers."""
        spent = self.spent + counted
        told = _rate(headers, now)
        if told is None:
            return dataclasses.replace(self, spent=spent) if counted else self
        limit, remaining, resets_at = told
        poll_interval = _seconds(headers.get("x-poll-interval", "")) or self.poll_interval
        before = self.remaining
        if before is None or self.resets_at is None or resets_at > self.resets_at + SAME_WINDOW:
            return RateBudget(limit, remaining, resets_at, poll_interval, spent, users=self.users)
        drawn, asked = self.drawn + max(0, before - remaining), self.asked + 1
        return RateBudget(
            limit, remaining, resets_at, poll_interval, spent, asked, drawn, self.users
        )

    def shared_by(self, users: int) -> RateBudget:
        """Return the same, shared by so many."""
        return dataclasses.replace(self, users=users)

    def pause(self, now: float, *, reserve: float = 0.1) -> float:
        """Return how long to wait before the next request that is not urgent.

        What is left beyond the reserve is spread evenly over the time until the reset. Others may
        use the same limit: each slows down by how much is used in total per own request, and by how
        many repositories of this process ask.
        """
        if self.limit is None or self.remaining is None or self.resets_at is None:
            return 0.0
        left = self.resets_at - now
        if left <= 0 or self.remaining > self.limit * PLENTY:
            return 0.0
        spare = self.remaining - reserve * self.limit
        drawn_per_request = self.users * (self.drawn + 1) / (self.asked + 1)
        return min(left, LONGEST, drawn_per_request * left / spare if spare > 0 else left)


def usual(headers: Mapping[str, str]) -> bool:
    """Return whether this is the limit of usual requests; GitHub counts searches separately."""
    return headers.get("x-ratelimit-resource", "core") == "core"


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Return the instant that a Retry-After header names, in seconds or as a date."""
    value = headers.get("retry-after", "").strip()
    if not value:
        return None
    seconds = _seconds(value)
    if seconds is None:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - now
        except (ValueError, TypeError, OverflowError):
            return None
    return now + min(max(seconds, 0.0), LONGEST)


def next_window(headers: Mapping[str, str], now: float) -> float | None:
    """Return when an exhausted limit resets; None if it is not exhausted."""
    told = _rate(headers, now, any_kind=True)
    if told is None or told[1] > 0:
        return None
    # The forge counts whole seconds, and our clock need not agree with its own.
    return now + min(max(told[2] + 1.0 - now, 1.0), LONGEST)


def _rate(
    headers: Mapping[str, str], now: float, *, any_kind: bool = False
) -> tuple[int, int, float] | None:
    """Return limit, remaining and the instant of the reset, if all three are given."""
    if not any_kind and not usual(headers):
        return None
    for start in ("x-ratelimit", "ratelimit"):
        limit = _seconds(headers.get(f"{start}-limit", ""))
        remaining = _seconds(headers.get(f"{start}-remaining", ""))
        reset = _seconds(headers.get(f"{start}-reset", ""))
        if limit is None or remaining is None or reset is None:
            continue
        at = reset if reset > EPOCH_LIKE else now + reset
        if at <= now + DAY:
            return int(limit), int(remaining), at
    return None


def _seconds(value: str) -> float | None:
    """Return a plain number that is not negative; None for anything else."""
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None
