"""One process in the oracle's books, and sums of several. Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.lifecycle.night_world import Ran

HAIR = 1e-6


class Used(NamedTuple):
    """What one attempt, or several, used."""

    tokens: float = 0
    usd: float = 0.0
    attempts: float = 0

    def plus(self, other: Used) -> Used:
        """Return both together."""
        return Used(*(one + two for one, two in zip(self, other, strict=True)))

    def largest(self, other: Used) -> Used:
        """Return the larger of each."""
        return Used(*(max(one, two) for one, two in zip(self, other, strict=True)))


class Limit(NamedTuple):
    """A budget; None for none."""

    tokens: float | None = None
    usd: float | None = None
    attempts: float | None = None

    def reached(self, used: Used) -> bool:
        """Tell whether one of them is used up."""
        pairs = zip(self, used, strict=True)
        return any(most is not None and each >= most - HAIR for most, each in pairs)


@dataclass
class Entry:
    """One process in the books."""

    ran: Ran
    told: Used
    """By itself; the first process of an attempt counts as the attempt."""
    seen_at: float

    @property
    def key(self) -> tuple[str, int]:
        """Name its attempt."""
        return self.ran.agent_id, self.ran.attempt


def total(entries: Iterable[Entry]) -> Used:
    """Return what they used together."""
    used = Used()
    for each in entries:
        used = used.plus(each.told)
    return used


def largest(entries: Iterable[Entry]) -> Used:
    """Return the most that any one attempt used."""
    found = Used()
    for mine in by_attempt(entries).values():
        found = found.largest(total(mine))
    return found


def by_attempt(entries: Iterable[Entry]) -> dict[tuple[str, int], list[Entry]]:
    """Return the processes of each attempt."""
    found: defaultdict[tuple[str, int], list[Entry]] = defaultdict(list)
    for each in entries:
        found[each.key].append(each)
    return found
