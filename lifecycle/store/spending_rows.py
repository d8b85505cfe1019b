"""What attempts used as rows of plain values, and their sums. Must not know any database."""

from __future__ import annotations

from dataclasses import fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from lifecycle.machine.money import NOTHING
from lifecycle.record import Spending, SpendingSum
from lifecycle.store.rows import in_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lifecycle.machine.money import Spent
    from lifecycle.store.rows import Row

COLUMNS = tuple(field.name for field in fields(Spending))
SUM_COLUMNS = tuple(field.name for field in fields(SpendingSum))
_values = attrgetter(*COLUMNS)


def spending_row(spending: Spending) -> Row:
    """Return the row of what an attempt used, in the order of `COLUMNS`."""
    return in_columns(_values(spending))


def row_spending(row: Sequence[Any]) -> Spending:
    """Return what an attempt used."""
    return Spending(**dict(zip(COLUMNS, row, strict=True)))


def row_sum(row: Sequence[Any]) -> SpendingSum:
    """Return the sums of a lifecycle."""
    return SpendingSum(**dict(zip(SUM_COLUMNS, row, strict=True)))


def total(spendings: Iterable[Spending]) -> Spent:
    """Add up what attempts used."""
    return sum((each.spent for each in spendings), NOTHING)


def summed(spendings: Sequence[Spending]) -> SpendingSum:
    """Add up attempts of one lifecycle and plan; there must be one."""
    first, spent = spendings[0], total(spendings)
    return SpendingSum(
        agent_id=first.agent_id,
        birth=first.birth,
        plan=first.plan,
        attempts=spent.attempts,
        last_attempt=max(each.attempt for each in spendings),
        tokens=spent.tokens,
        cost_usd=spent.cost_usd,
        seconds=spent.seconds,
        ended=max(each.at for each in spendings),
    )
