"""Which rows a page of a listing holds, found by keyset through an index for every filter."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from lifecycle.record import AgentState, Filter, Outline
from lifecycle.store.damage import as_page
from lifecycle.store.lenient import fetch
from lifecycle.store.rows import COLUMNS
from lifecycle.store.sqlite_file import open_reader

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence
    from pathlib import Path

    from lifecycle.store.damage import Damaged

_LOOK = 1000
_FEW = 200
"""Up to so many records in a span of time, it is quicker to sort them than to look for them."""
_ALL = ", ".join(f"l.{name}" for name in COLUMNS)
UNFINISHED = (
    f"SELECT {_ALL} FROM lifecycles AS l "  # noqa: S608  # our own column names
    "WHERE l.coarse IN ('queued', 'running', 'completed') AND l.work IS NOT NULL ORDER BY l.cursor"
)
ONE = f"SELECT {_ALL} FROM lifecycles AS l WHERE l.agent_id = ?"  # noqa: S608  # our own column names


def page(
    connection: sqlite3.Connection, which: Filter, cursor: int | None, limit: int
) -> list[tuple[Any, ...]]:
    """Return the rows of one page and one more, if there is one, newest first."""
    few = _timed(which) and _few_in_span(connection, which)
    picked, values = _pick(which, cursor, limit + 1, by_update=few)
    return fetch(
        connection,
        f"SELECT {_ALL} FROM ({picked}) AS p CROSS JOIN lifecycles AS l ON l.cursor = p.cursor "  # noqa: S608  # our own text
        "ORDER BY p.cursor DESC",
        values,
    )


def outlines(states: Sequence[AgentState]) -> tuple[str, tuple[str, ...]]:
    """Return the query for all records in outline; text in them may be no UTF-8."""
    where = f"WHERE coarse IN ({', '.join('?' * len(states))}) " if states else ""
    query = f"SELECT {', '.join(Outline._fields)} FROM lifecycles {where}ORDER BY cursor DESC"  # noqa: S608  # our own text
    return query.replace(" state,", " coarse,"), tuple(state.value for state in states)


def damaged_in(path: Path) -> list[Damaged]:
    """Look through a whole database, beside whoever writes it, for records that cannot be read."""
    found, cursor = list[Any](), None
    with closing(open_reader(path)) as connection:
        while True:
            looked = as_page(page(connection, Filter(), cursor, _LOOK), _LOOK)
            found += looked.damaged
            cursor = looked.next_cursor
            if cursor is None:
                return found


def _timed(which: Filter) -> bool:
    return which.updated_after is not None or which.updated_before is not None


def _few_in_span(connection: sqlite3.Connection, which: Filter) -> bool:
    conditions, values = _span(which, "l.updated_at")
    found = connection.execute(
        "SELECT count(*) FROM (SELECT 1 FROM lifecycles AS l INDEXED BY lifecycles_by_update "  # noqa: S608  # our own text
        f"WHERE {' AND '.join(conditions)} LIMIT {_FEW + 1})",
        values,
    ).fetchone()
    return int(found[0]) <= _FEW


def _pick(
    which: Filter, cursor: int | None, limit: int, *, by_update: bool
) -> tuple[str, list[Any]]:
    """Return the query for the cursors of a page.

    A `+` before a column keeps SQLite from choosing its index: one index gives the order, the
    others would have to be sorted.
    """
    states = tuple(dict.fromkeys(which.states))
    if len(states) == len(AgentState):
        states = ()
    lone = not (which.tags or which.task_id is not None or by_update)
    if lone and len(states) > 1:
        return _merge([_one_state(which, state, cursor, limit) for state in states], limit)
    place = "t.cursor" if which.tags and not by_update else "l.cursor"
    conditions, values = [], list[Any]()
    source = "lifecycles AS l"
    tags = list(dict.fromkeys(which.tags))
    if by_update:
        source += " INDEXED BY lifecycles_by_update"
    elif tags:
        source = "tags AS t CROSS JOIN lifecycles AS l ON l.cursor = t.cursor"
        conditions.append("t.tag = ?")
        values.append(tags.pop(0))
    for tag in tags:
        conditions.append("EXISTS (SELECT 1 FROM tags WHERE tag = ? AND cursor = l.cursor)")
        values.append(tag)
    if which.task_id is not None:
        indexed = not by_update and not which.tags
        conditions.append("l.task_id = ?" if indexed else "+l.task_id = ?")
        values.append(which.task_id)
    if states:
        column = "l.coarse" if lone else "+l.coarse"
        conditions.append(f"{column} IN ({', '.join('?' * len(states))})")
        values.extend(state.value for state in states)
    span, instants = _span(which, "l.updated_at" if by_update else "+l.updated_at")
    conditions.extend(span)
    values.extend(instants)
    if cursor is not None:
        conditions.append(f"{place} < ?")
        values.append(cursor)
    where = f"WHERE {' AND '.join(conditions)} " if conditions else ""
    query = f"SELECT {place} AS cursor FROM {source} {where}ORDER BY {place} DESC LIMIT {limit}"  # noqa: S608  # our own text
    return query, values


def _one_state(which: Filter, state: Any, cursor: int | None, limit: int) -> tuple[str, list[Any]]:
    conditions, values = ["l.coarse = ?"], [state.value]
    span, instants = _span(which, "+l.updated_at")
    conditions.extend(span)
    values.extend(instants)
    if cursor is not None:
        conditions.append("l.cursor < ?")
        values.append(cursor)
    query = (
        "SELECT l.cursor AS cursor FROM lifecycles AS l "  # noqa: S608  # our own text
        f"WHERE {' AND '.join(conditions)} ORDER BY l.cursor DESC LIMIT {limit}"
    )
    return query, values


def _merge(parts: list[tuple[str, list[Any]]], limit: int) -> tuple[str, list[Any]]:
    """Join pages that are each in order; SQLite would sort everything for `IN (...)`."""
    query = " UNION ALL ".join(f"SELECT * FROM ({part})" for part, _ in parts)  # noqa: S608  # our own text
    values = [value for _, each in parts for value in each]
    return f"{query} ORDER BY 1 DESC LIMIT {limit}", values


def _span(which: Filter, column: str) -> tuple[list[str], list[Any]]:
    conditions, values = [], list[Any]()
    if which.updated_after is not None:
        conditions.append(f"{column} > ?")
        values.append(which.updated_after)
    if which.updated_before is not None:
        conditions.append(f"{column} < ?")
        values.append(which.updated_before)
    return conditions, values
