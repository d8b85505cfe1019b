"""The attempts of a night as the diary has them: how each ended, and what a runner saw of it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from tests.lifecycle.night_script import GOOD
from tests.lifecycle.night_world import ASKS_AGAIN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lifecycle.record import AttemptRow
    from tests.lifecycle.night import Kept
    from tests.lifecycle.night_world import Diary, Ran

LINGERS = 60.0
"""Seconds that a process may stay after its turn."""


@dataclass
class Turn:
    """One attempt: a process, or several where a runner died."""

    attempt: int
    runs: list[Ran]
    kinds: list[str]
    """How each of them ended."""

    @property
    def last(self) -> Ran:
        """The process that decided."""
        return self.runs[-1]


class Turns:
    """All attempts of one night.

    The ledger is only asked where something fell together with the end of a runner.
    """

    def __init__(self, diary: Diary, kept: Mapping[str, Kept], idle_limit: float) -> None:
        self.diary, self._kept, self._idle_limit = diary, kept, idle_limit
        self.of = self._all()

    def died(self, ran: Ran) -> float:
        """Return when the runner died that had started it."""
        died = self.diary.lives[ran.life][1]
        return float("inf") if died is None else died

    def is_lost(self, ran: Ran) -> bool:
        """Tell whether no runner saw its end; where both fell together the runner's word counts."""
        ended, died = ran.ended or 0.0, self.died(ran)
        if ended != died:
            return ended > died
        row = self._row(ran)
        return row is None or row.outcome in ("interrupted", "")

    def seen_at(self, ran: Ran) -> float:
        """Return when a runner learned of its end."""
        ended, died = ran.ended or 0.0, self.died(ran)
        if ended < died:
            return ended
        again = self.diary.lives[ran.life + 1][0]
        row = self._row(ran) if ended == died else None
        return again if row is None or row.ended_at != ended else ended

    def is_torn(self, ran: Ran) -> bool:
        """Tell whether it began, or ended, in the very moment in which its runner died.

        Then it depends on which of both came first what is known of it.
        """
        return self.died(ran) in (ran.began, ran.ended)

    def gap_after(self, ran: Ran) -> float:
        """Return how much later what follows may be decided: not before another runner lives."""
        again = self.died(ran) == self.seen_at(ran)
        return self.diary.lives[ran.life + 1][0] - self.died(ran) if again else 0.0

    def was_noted(self, ran: Ran) -> bool:
        """Tell whether what it used is in the books; of those that are not torn it has to be."""
        if not self.is_torn(ran):
            return True
        runs = [
            each
            for each in self.diary.runs
            if (each.agent_id, each.attempt) == (ran.agent_id, ran.attempt)
        ]
        torn = [each for each in runs if self.is_torn(each)]
        rows = [each for each in self._kept[ran.agent_id].spendings if each.attempt == ran.attempt]
        missing = sum(each.tokens for each in runs) - sum(each.tokens for each in rows)
        several = (combinations(torn, many) for many in range(len(torn) + 1))
        left_out = (each for some in several for each in some if _tokens(each) == missing)
        return ran not in next(left_out, ())

    def _row(self, ran: Ran) -> AttemptRow | None:
        """Return the ledger's row of an attempt, if this is the last process of it."""
        mine = [each for each in self.diary.runs if each.agent_id == ran.agent_id]
        if any(each.attempt == ran.attempt and each.life > ran.life for each in mine):
            return None
        rows = self._kept[ran.agent_id].attempts
        return next((row for row in rows if row.attempt == ran.attempt), None)

    def _all(self) -> dict[str, list[Turn]]:
        found: dict[str, list[Turn]] = defaultdict(list)
        for ran in self.diary.runs:
            mine = found[ran.agent_id]
            if mine and mine[-1].attempt == ran.attempt:
                mine[-1].runs.append(ran)
            else:
                mine.append(Turn(ran.attempt, [ran], []))
        for mine in found.values():
            for turn in mine:
                turn.kinds = [self._kind(ran) for ran in turn.runs]
        return found

    def _kind(self, ran: Ran) -> str:
        if ran.word:
            failed = ran.word == "task_complete" and ran.deed and ran.deed.kind not in GOOD
            return "gate_failed" if failed else ran.word
        if self.is_lost(ran):
            # A runner may have known, and died before it could end the process.
            row, known = self._row(ran), self._ended_for(ran, self.died(ran))
            return known if row is not None and row.outcome == known else "interrupted"
        if ran.by_itself:
            return ran.told or ("crash" if ran.program else "error")
        return self._ended_for(ran, ran.ended or 0.0)

    def _ended_for(self, ran: Ran, at: float) -> str:
        """Return for what a runner had to end a process at that instant."""
        writes_events, quiet = bool(ran.program), at - ran.silent_since
        if ran.flooded and writes_events:
            return "loop"
        if ran.waits or at - ran.waited <= ASKS_AGAIN:
            # Others may use up a shared budget meanwhile; whether they did, the books tell.
            row = self._row(ran)
            return "budget" if row is not None and row.outcome == "budget" else "network"
        if ran.stays and ran.told and writes_events and quiet >= LINGERS:
            return "no_breakpoint"
        if ran.stays and quiet >= self._idle_limit:
            return "hang"
        return "budget"


def _tokens(runs: Iterable[Ran]) -> int:
    return sum(ran.tokens for ran in runs)
