"""What is known of each program at an instant, and which attempts nobody knows anything of.

Says once more, process by process, what the documentation says of attempts that told nothing.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from tests.lifecycle.night_entries import HAIR, Used, by_attempt
from tests.lifecycle.night_lines import PRICE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from tests.lifecycle.night_entries import Entry, Limit

SILENT = 3
"""Attempts in a row of which nothing is known, after which a budget cannot be held."""


class Lore:
    """What the processes of a night told of their programs; `lives` are those of the runners."""

    def __init__(
        self, entries: Sequence[Entry], lives: Sequence[tuple[float, float | None]]
    ) -> None:
        self._entries, self._lives = entries, lives
        for mine in by_attempt(entries).values():
            for one, two in pairwise(mine):
                one.again = two.seen_at

    def reckoned(self, entry: Entry) -> Used:
        """Return what an attempt that kept silent is charged, by what is known by then."""
        tokens, usd = entry.silent
        program, at = entry.ran.program, entry.seen_at
        if not (tokens or usd):
            return Used()
        most = Used()
        for each in self._teachers(program, at):
            # Of several at that instant nobody knows which came first: then the books say it.
            most = most.largest(each.told) if each is not entry else most
        if usd and entry.told.tokens and self._has_price(program, at):
            return Used(0, entry.told.tokens * PRICE)
        return Used(most.tokens if tokens else 0, most.usd if usd else 0.0)

    def _teachers(self, program: str, at: float) -> Iterator[Entry]:
        """Return who taught what a program uses.

        Those are attempts of one process; of one that was repeated since, only the runner knows
        that was told of its first process, or read that when it began.
        """
        born = max(born for born, _ in self._lives if born <= at + HAIR)
        for each in self._entries:
            mine = each.ran.program == program and each.told.attempts
            if mine and each.seen_at <= at and each.again >= born - HAIR:
                yield each

    def _has_price(self, program: str, at: float) -> bool:
        """Tell whether tokens and cost of the same work are known."""
        return any(
            each.told.usd > 0 and each.told.tokens > 0 and each.again > at
            for each in self._teachers(program, at)
        )

    def is_unheld(
        self,
        limit: Limit,
        entries: Collection[Entry],
        programs: Collection[str],
        at: float,
        *,
        sure: bool,
    ) -> bool:
        """Tell whether one of its programs was let work often enough while nothing was known.

        `sure`: whatever came first of what happened at that instant; else, whether it may be.
        """
        for index, budget in enumerate((limit.tokens, limit.usd)):
            for program in programs if budget is not None else ():
                teachers = self._teachers(program, at + HAIR if sure else at - HAIR)
                if any(each.told[index] for each in teachers):
                    continue
                before = _silent(entries, index, program, at - HAIR, sure=sure)
                after = _silent(entries, index, program, at + HAIR, sure=sure)
                if len(before & after if sure else before | after) >= SILENT:
                    return True
        return False


def _silent(
    entries: Collection[Entry], index: int, program: str, at: float, *, sure: bool
) -> set[tuple[str, int]]:
    """Return the attempts of a program of which nothing is known by then."""
    seen = by_attempt(each for each in entries if each.seen_at <= at)
    return {key for key, mine in seen.items() if _is_silent(mine, index, program, sure=sure)}


def _is_silent(mine: Sequence[Entry], index: int, program: str, *, sure: bool) -> bool:
    """Tell whether an attempt worked as that program, and none of its processes is accounted for.

    It is of the program that repeated it last.
    """
    if any(each.torn for each in mine):
        # What is known of it, nobody can tell; it may be that it told nothing.
        named = any(each.told[index] for each in mine)
        return not sure and not named and any(each.ran.program == program for each in mine)
    if mine[-1].ran.program != program or not any(each.silent[index] for each in mine):
        return False
    told = sum(each.told.tokens for each in mine)
    costs_nothing = any(each.ran.cost is not None for each in mine) and told > 0
    named = told > 0 if index == 0 else costs_nothing or any(each.told.usd for each in mine)
    return not named and not any(each.charged[index] for each in mine)
