"""What attempts used, in the database: as rows of plain values, and summed up there."""

from __future__ import annotations

from dataclasses import fields
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from lifecycle.machine.budget import Spent
from lifecycle.record import Spending, SpendingSum
from lifecycle.store.reading import fetch
from lifecycle.store.rows.records import in_columns

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence

    from lifecycle.store.rows.records import Row
    from lifecycle.store.sqlite.driver import Driver

    Setters = tuple[Callable[[object, object], None], ...]

T = TypeVar("T")

COLUMNS = tuple(field.name for field in fields(Spending))
SUM_COLUMNS = tuple(field.name for field in fields(SpendingSum))
_values = attrgetter(*COLUMNS)
_UNUSED = {
    "charged_tokens": 0, "charged_usd": 0.0, "silent_tokens": 0, "silent_usd": 0, "processes": 1,
}  # fmt: skip
"""Columns of earlier versions, which estimated what was not told; written, and never read."""
_PUT = (
    f"INSERT OR REPLACE INTO spending ({', '.join((*COLUMNS, *_UNUSED))}) "  # noqa: S608  # our own column names
    f"VALUES ({', '.join((*('?' * len(COLUMNS)), *map(str, _UNUSED.values())))})"
)
_ATTEMPTS = "coalesce(sum(review = 0), 0)"
_SPENT = f"coalesce(sum(tokens), 0), total(cost_usd), total(seconds), {_ATTEMPTS}"
_WHOSE = "agent_id, birth, plan"
SUMS = (
    f"SELECT {_WHOSE}, {_ATTEMPTS}, max(attempt), sum(tokens), total(cost_usd), total(seconds), "  # noqa: S608  # our own text
    f"max(at) FROM spending GROUP BY {_WHOSE}"
)
SINCE = (
    "SELECT a.agent_id, l.task_id, a.attempt, a.program, a.started_at, a.ended_at, a.outcome, "
    "coalesce(s.plan, ''), s.tokens, s.cost_usd FROM attempts AS a "
    "JOIN lifecycles AS l ON l.agent_id = a.agent_id LEFT JOIN spending AS s "
    "ON s.agent_id = a.agent_id AND s.birth = l.birth AND s.attempt = a.attempt AND s.review = 0 "
    "WHERE a.started_at > 0 AND (a.ended_at >= ?1 "
    "OR (a.ended_at IS NULL AND l.coarse = 'running')) AND (?2 = '' OR s.plan = ?2) "
    "ORDER BY a.started_at DESC LIMIT ?3"
)
FORGET = "DELETE FROM spending WHERE at < min(?, (SELECT max(at) FROM spending) - ?)"


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


def put_spending(connection: sqlite3.Connection, row: Row) -> None:
    """Write what an attempt used, in place of what stands there; the caller holds a transaction."""
    connection.execute(_PUT, row)


def picked(
    columns: str, since: float, agent_id: str | None, plan: str | None
) -> tuple[str, tuple[Any, ...]]:
    """Return the query for what ended since then, of one agent or plan if that is given."""
    conditions, values = ["at >= ?"], [since]
    wanted: list[Any] = values
    for column, value in (("agent_id", agent_id), ("plan", plan)):
        if value is not None:
            conditions.append(f"{column} = ?")
            wanted.append(value)
    return f"SELECT {columns} FROM spending WHERE {' AND '.join(conditions)}", tuple(wanted)  # noqa: S608  # our own text


class AttemptSpan(NamedTuple):
    """When one attempt worked, and how it ended."""

    agent_id: str
    task_id: str
    attempt: int
    program: str
    started_at: float
    ended_at: float | None
    outcome: str
    plan: str
    tokens: int | None
    cost_usd: float | None


class SqliteSpendings:
    """The usage of attempts. It outlives the lifecycles: deleting those removes none of it."""

    _driver: Driver

    async def spendings(
        self, since: float = 0.0, *, agent_id: str | None = None, plan: str | None = None
    ) -> list[Spending]:
        """Return what attempts used that ended since then, the oldest first."""
        query, values = picked(", ".join(COLUMNS), since, agent_id, plan)

        def read(connection: sqlite3.Connection) -> list[Spending]:
            rows = connection.execute(f"{query} ORDER BY at, agent_id, attempt, review", values)
            return [row_spending(row) for row in rows]

        return await self._driver.read(read)

    async def spent(
        self, since: float = 0.0, *, agent_id: str | None = None, plan: str | None = None
    ) -> Spent:
        """Return the total usage of those attempts, as far as it is known."""
        query, values = picked(_SPENT, since, agent_id, plan)

        def read(connection: sqlite3.Connection) -> Spent:
            tokens, cost_usd, seconds, attempts = connection.execute(query, values).fetchone()
            return Spent(tokens=tokens, cost_usd=cost_usd, seconds=seconds, attempts=attempts)

        return await self._driver.read(read)

    async def spending_sums(self) -> list[SpendingSum]:
        """Return the sums of each lifecycle in each plan."""

        def read(connection: sqlite3.Connection) -> list[SpendingSum]:
            return [row_sum(row) for row in connection.execute(SUMS)]

        return await self._driver.read(read)

    async def forget_spending(self, now: float, keep: float) -> int:
        """Remove what ended more than `keep` seconds before now, and before the newest there is.

        Returns how many attempts that were. A clock that runs far ahead for a while must not take
        everything with it.
        """
        return await self._driver.write(partial(_forget, now=now, keep=keep))

    async def attempts_since(
        self, since: float, *, plan: str = "", limit: int = 1000
    ) -> tuple[AttemptSpan, ...]:
        """Return attempts that went on after an instant, of all lifecycles, the newest first."""
        rows = await self._driver.read(
            lambda connection: fetch(connection, SINCE, (since, plan, limit))
        )
        return tuple(map(AttemptSpan._make, rows))


def _forget(connection: sqlite3.Connection, now: float, keep: float) -> int:
    return connection.execute(FORGET, (now - keep, keep)).rowcount
