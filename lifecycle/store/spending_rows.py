"""What attempts used as rows of plain values, and their sums. Must not know any database."""

from __future__ import annotations

from dataclasses import fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from lifecycle.machine.money import Spent
from lifecycle.record import Spending, SpendingSum
from lifecycle.store.rows import storable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lifecycle.store.rows import Row

COLUMNS = tuple(field.name for field in fields(Spending))
SUM_COLUMNS = tuple(field.name for field in fields(SpendingSum))
_values = attrgetter(*COLUMNS)


def spending_row(spending: Spending) -> Row:
    """Return the row of what an attempt used, in the order of `COLUMNS`."""
    return tuple(
        storable(value) if isinstance(value, str) else value for value in _values(spending)
    )


def row_spending(row: Sequence[Any]) -> Spending:
    """Return what an attempt used."""
    return Spending(**dict(zip(COLUMNS, row, strict=True)))


def row_sum(row: Sequence[Any]) -> SpendingSum:
    """Return the sums of a lifecycle."""
    return SpendingSum(**dict(zip(SUM_COLUMNS, row, strict=True)))


def total(spendings: Iterable[Spending]) -> Spent:
    """Add up what attempts used, as far as it is known."""
    several = list(spendings)
    return Spent(
        tokens=sum(each.tokens for each in several),
        cost_usd=sum(each.cost_usd or 0.0 for each in several),
        seconds=sum(each.seconds for each in several),
        attempts=len(several),
    )


def summed(spendings: Sequence[Spending]) -> SpendingSum:
    """Add up attempts of one lifecycle in one plan; there must be one."""
    first, costs = spendings[0], [each.cost_usd for each in spendings if each.cost_usd is not None]
    spent = total(spendings)
    return SpendingSum(
        agent_id=first.agent_id,
        birth=first.birth,
        plan=first.plan,
        attempts=spent.attempts,
        last_attempt=max(each.attempt for each in spendings),
        tokens=spent.tokens,
        cost_usd=spent.cost_usd,
        seconds=spent.seconds,
        most_tokens=max(each.tokens for each in spendings),
        most_usd=max(costs, default=0.0),
        most_seconds=max(each.seconds for each in spendings),
        with_tokens=sum(each.tokens > 0 for each in spendings),
        with_cost=sum(each.tells_cost for each in spendings),
        ended=max(each.at for each in spendings),
    )
