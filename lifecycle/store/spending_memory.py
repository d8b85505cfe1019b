"""What attempts used, in memory: the promises without a disk."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import groupby
from typing import TYPE_CHECKING

from lifecycle.store.spending_rows import row_spending, summed, total

if TYPE_CHECKING:
    from lifecycle.machine.money import Spent
    from lifecycle.record import Spending, SpendingSum
    from lifecycle.store.rows import Row


class MemorySpendings(ABC):
    """The part of the store that tells what attempts used."""

    _spendings: dict[tuple[str, str, int], Row]

    @abstractmethod
    def _open(self) -> None:
        """The store gives it."""

    def _put_spending(self, row: Row) -> None:
        spending = row_spending(row)
        self._spendings[spending.agent_id, spending.birth, spending.attempt] = row

    async def spendings(
        self, since: float = 0.0, *, agent_id: str | None = None, plan: str | None = None
    ) -> list[Spending]:
        """Return what attempts used that ended since then, the oldest first."""
        self._open()
        found = [
            each
            for each in map(row_spending, self._spendings.values())
            if each.at >= since and agent_id in (None, each.agent_id) and plan in (None, each.plan)
        ]
        return sorted(found, key=lambda each: (each.at, each.agent_id, each.attempt))

    async def spent(
        self, since: float = 0.0, *, agent_id: str | None = None, plan: str | None = None
    ) -> Spent:
        """Return what those attempts used together."""
        return total(await self.spendings(since, agent_id=agent_id, plan=plan))

    async def spending_sums(self) -> list[SpendingSum]:
        """Return the sums of each lifecycle, by plan."""

        def whose(each: Spending) -> tuple[str, ...]:
            return each.agent_id, each.birth, each.plan

        everything = sorted(await self.spendings(), key=whose)
        return [summed(list(group)) for _, group in groupby(everything, whose)]

    async def forget_spending(self, now: float, keep: float) -> int:
        """Remove what ended more than `keep` seconds before now, and before the newest there is."""
        spendings = await self.spendings()
        newest = max((each.at for each in spendings), default=0.0)
        old = [each for each in spendings if each.at < min(now, newest) - keep]
        for each in old:
            del self._spendings[each.agent_id, each.birth, each.attempt]
        return len(old)
