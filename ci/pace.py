"""When to ask again after something that waits outside: soon at first, then more rarely. Pure."""

from __future__ import annotations

from dataclasses import dataclass

FIRST = 10.0
GROWTH = 1.5
LONGEST = 120.0
RECONCILE = 600.0
"""Seconds after which everything that waits is asked after anew, whatever was known of it."""
SPREAD = 0.2
"""Up or down at random, so that those which began together do not go on asking together."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How long to wait before the next question about one thing."""

    interval: float = FIRST
    due: float = 0.0

    def after(self, now: float, chance: float, *, rests: bool = False) -> Pace:
        """Return the pace after a question without news; `chance` is in [0, 1).

        What rests is not expected to change, and a webhook or a reconciliation would tell.
        """
        wait = (RECONCILE if rests else self.interval) * (1 - SPREAD + 2 * SPREAD * chance)
        return Pace(min(self.interval * GROWTH, LONGEST), now + wait)

    def not_after(self, instant: float | None) -> Pace:
        """Return the pace with the next question at this instant, if that is sooner."""
        if instant is None or instant >= self.due:
            return self
        return Pace(self.interval, instant)

    def not_before(self, instant: float | None) -> Pace:
        """Return the pace with no question before this instant: nobody would answer."""
        if instant is None or instant <= self.due:
            return self
        return Pace(self.interval, instant)


def fresh(now: float) -> Pace:
    """Return the pace of something new: asked after at once, then soon again."""
    return Pace(FIRST, now)
