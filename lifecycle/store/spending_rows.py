"""What attempts used as rows of plain values, and their sums. Must not know any database."""

from __future__ import annotations

from dataclasses import fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from lifecycle.machine.money import Spent
from lifecycle.record import Spending, SpendingSum
from lifecycle.store.rows import in_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

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
    """Add up what attempts used, told and reckoned."""
    several = list(spendings)
    return Spent(
        tokens=sum(each.all_tokens for each in several),
        cost_usd=sum(each.all_usd for each in several),
        seconds=sum(each.seconds for each in several),
        attempts=len(several),
    )


def summed(spendings: Sequence[Spending]) -> SpendingSum:
    """Add up attempts of one lifecycle, plan, program and model; there must be one."""
    first, spent = spendings[0], total(spendings)
    whole = [each for each in spendings if each.processes == 1]
    rated = [each for each in spendings if each.tells_rate]
    return SpendingSum(
        agent_id=first.agent_id,
        birth=first.birth,
        plan=first.plan,
        program=first.program,
        model=first.model,
        attempts=spent.attempts,
        last_attempt=max(each.attempt for each in spendings),
        tokens=spent.tokens,
        cost_usd=spent.cost_usd,
        seconds=spent.seconds,
        most_tokens=max(each.all_tokens for each in spendings),
        most_usd=max(each.all_usd for each in spendings),
        most_seconds=max(each.seconds for each in spendings),
        with_tokens=sum(each.all_tokens > 0 for each in spendings),
        with_cost=sum(each.tells_cost or each.charged_usd > 0 for each in spendings),
        missing_tokens=sum(each.misses_tokens for each in spendings),
        missing_usd=sum(each.misses_usd for each in spendings),
        told_most_tokens=max((each.tokens for each in whole if each.tokens), default=None),
        told_most_usd=max(
            (each.cost_usd or 0.0 for each in whole if each.tells_cost), default=None
        ),
        rated_tokens=sum(each.tokens for each in rated),
        rated_usd=sum(each.cost_usd or 0.0 for each in rated),
        ended=max(each.at for each in spendings),
    )
