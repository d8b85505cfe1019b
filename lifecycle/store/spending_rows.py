"""What attempts used as rows of plain values, and their sums. Must not know any database."""

from __future__ import annotations

from dataclasses import fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from lifecycle.machine.money import NOTHING
from lifecycle.record import Spending, SpendingSum
from lifecycle.store.rows import in_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lifecycle.machine.money import Spent
    from lifecycle.store.rows import Row

    Setters = tuple[Callable[[object, object], None], ...]

T = TypeVar("T")

COLUMNS = tuple(field.name for field in fields(Spending))
SUM_COLUMNS = tuple(field.name for field in fields(SpendingSum))
_values = attrgetter(*COLUMNS)


def spending_row(spending: Spending) -> Row:
    """Return the row of what an attempt used, in the order of `COLUMNS`."""
    return in_columns(_values(spending))


def row_spending(row: Sequence[Any]) -> Spending:
    """Return what an attempt used."""
    return _made(Spending, _SET, row)


def row_sum(row: Sequence[Any]) -> SpendingSum:
    """Return the sums of a lifecycle."""
    return _made(SpendingSum, _SET_SUM, row)


def _setters(form: type, columns: Sequence[str]) -> Setters:
    return tuple(vars(form)[name].__set__ for name in columns)


def _made(form: type[T], setters: Setters, row: Sequence[Any]) -> T:
    """Make one of a row with a value for each field, five times as fast as by its name.

    There are tens of thousands to read before a runner begins.
    """
    made = object.__new__(form)
    for put, value in zip(setters, row, strict=True):
        put(made, value)
    return made


_SET, _SET_SUM = _setters(Spending, COLUMNS), _setters(SpendingSum, SUM_COLUMNS)


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
