"""What all repositories of one process used today, for the budget that they share.

Adds up the sums of their accounts. Must not know what a budget allows, nor when an attempt begins.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Protocol

from lifecycle.machine.budget import NOTHING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lifecycle.machine.budget import Spent


class DaySums(Protocol):
    """The sums of one repository."""

    def of_today(self, now: float) -> tuple[Spent, Spent]:
        """Return what ended attempts of the day used, and what those under way used so far."""
        ...

    def ask_again(self) -> None:
        """Let who waits for a budget ask again."""
        ...


@dataclass(frozen=True, slots=True)
class UnderWay:
    """What attempts under way used so far, in all repositories."""

    used: Spent

    def spent(self, now: float) -> Spent:
        """Return it."""
        del now
        return self.used


class SharedDay:
    """The sums of the repositories that one process serves, by name."""

    def __init__(self, names: Iterable[str]) -> None:
        self._unread = set(names)
        self._sums: dict[str, DaySums] = {}
        self._tellers: dict[str, DaySums] = {}

    @property
    def complete(self) -> bool:
        """Whether each repository was read, or could not be: before that nobody knows the sum."""
        return not self._unread

    def joined(self, name: str, sums: DaySums) -> None:
        """Count a repository from now on; one that was closed is counted as it was last."""
        self._sums[name] = sums
        self.settled(name)

    def settled(self, name: str) -> bool:
        """Wait no longer for the sums of a repository; whether it was waited for."""
        if name not in self._unread:
            return False
        self._unread.remove(name)
        if self.complete:
            self.freed()
        return True

    def freed(self, by: DaySums | None = None) -> None:
        """Let the others ask again, after one let go of a part."""
        for each in self._sums.values():
            if each is not by:
                each.ask_again()

    def of_today(self, now: float) -> tuple[Spent, UnderWay]:
        """Return what ended attempts used in all of them, and what those under way use."""
        sums = [each.of_today(now) for each in self._sums.values()]
        past = reduce(add, (each for each, _ in sums), NOTHING)
        return past, UnderWay(reduce(add, (each for _, each in sums), NOTHING))

    def tells(self, id_: str, sums: DaySums) -> bool:
        """Tell whether it is for this repository to tell something: the first that asks does."""
        return self._tellers.setdefault(id_, sums) is sums
