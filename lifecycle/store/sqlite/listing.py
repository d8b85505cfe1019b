"""Selects the rows of a page by keyset, with the index that fits the filter."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from lifecycle.record import EARLIER, LOOSE, AgentState, Filter, Outline
from lifecycle.store.damaged_records import as_page
from lifecycle.store.reading import fetch, open_reader
from lifecycle.store.rows.records import COLUMNS

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence
    from pathlib import Path

    from lifecycle.store.damaged_records import Damaged

_LOOK = 1000
CURRENT = f"instr(agent_id, '{EARLIER}') = 0"
PLAN = (
    "coalesce(CASE WHEN json_valid({facts}) THEN json_extract({facts}, '$.plan.name') END, "
    f"'{LOOSE}')"
)
PLANS = (
    f"SELECT {PLAN.format(facts='facts')}, coarse, work_kind, "  # noqa: S608  # our own text
    + ", ".join(
        f"CASE WHEN json_valid(work) THEN json_extract(work, '$.{name}') END"
        for name in ("reason", "frozen", "stopped")
    )
    + f", count(*), min(created_at), max(updated_at) FROM lifecycles WHERE {CURRENT} "
    "GROUP BY 1, 2, 3, 4, 5, 6"
)
"""How many current lifecycles of each plan are in each state; damaged ones among them."""
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
    picked, values = _cursors(which, cursor, limit + 1)
    return fetch(
        connection,
        f"SELECT {_ALL} FROM ({picked}) AS p CROSS JOIN lifecycles AS l ON l.cursor = p.cursor "  # noqa: S608  # our own text
        "ORDER BY p.cursor DESC",
        values,
    )


def is_timed(which: Filter) -> bool:
    """Tell whether a filter names a span of time, all of which is read and sorted."""
    return _by_creation(which) or (
        which.updated_after is not None or which.updated_before is not None
    )


def _by_creation(which: Filter) -> bool:
    return which.created_after is not None or which.created_before is not None


def outlines(states: Sequence[AgentState]) -> tuple[str, tuple[str, ...]]:
    """Return the query for all records in outline; text in them may be invalid UTF-8."""
    where = f"WHERE coarse IN ({', '.join('?' * len(states))}) " if states else ""
    query = f"SELECT {', '.join(Outline._fields)} FROM lifecycles {where}ORDER BY cursor DESC"  # noqa: S608  # our own text
    return query.replace(" state,", " coarse,"), tuple(state.value for state in states)


def damaged_in(path: Path) -> list[Damaged]:
    """Find the records of a whole database that cannot be read, beside its writer."""
    found, cursor = list[Any](), None
    with closing(open_reader(path)) as connection:
        while True:
            looked = as_page(page(connection, Filter(), cursor, _LOOK), _LOOK)
            found += looked.damaged
            cursor = looked.next_cursor
            if cursor is None:
                return found


def _cursors(which: Filter, cursor: int | None, limit: int) -> tuple[str, list[Any]]:
    """Return the query for the cursors of a page, newest first."""
    states = tuple(dict.fromkeys(which.states))
    alone = not (which.tags or which.task_id is not None or is_timed(which))
    # A page of each state, merged: for `IN (...)` alone SQLite would sort all that fits.
    groups = [(state,) for state in states] if alone and states else [states]
    parts, values = [], list[Any]()
    for group in groups:
        source, place, tests = _tests(which, group, cursor)
        where = f"WHERE {' AND '.join(test for test, _ in tests)} " if tests else ""
        query = f"SELECT {place} AS cursor FROM {source} {where}ORDER BY 1 DESC LIMIT {limit}"  # noqa: S608  # our own text
        parts.append(f"SELECT * FROM ({query})")  # noqa: S608  # as above
        for _, wanted in tests:
            values += wanted
    return f"{' UNION ALL '.join(parts)} ORDER BY 1 DESC LIMIT {limit}", values


def _tests(
    which: Filter, states: Sequence[AgentState], cursor: int | None
) -> tuple[str, str, list[tuple[str, Sequence[Any]]]]:
    """Return where to look, the column that gives the order, and the tests with their values."""
    source, place = "lifecycles AS l", "l.cursor"
    tests: list[tuple[str, Sequence[Any]]] = []
    tags = which.tags
    if is_timed(which):
        source += f" INDEXED BY lifecycles_by_{'creation' if _by_creation(which) else 'update'}"
    elif tags:
        source, place = "tags AS t JOIN lifecycles AS l ON l.cursor = t.cursor", "t.cursor"
        tests.append(("t.tag = ?", tags[:1]))
        tags = tags[1:]
    has_tag = "EXISTS (SELECT 1 FROM tags WHERE tag = ? AND cursor = l.cursor)"
    tests += [(has_tag, (tag,)) for tag in tags]
    if states:
        tests.append((f"l.coarse IN ({', '.join('?' * len(states))})", states))
    if which.current:
        tests.append((CURRENT, ()))
    if which.earlier_of is not None:
        # What begins with the agent and the sign: an index has them beside each other.
        tests.append(("l.agent_id > ? || '@' AND l.agent_id < ? || 'A'", (which.earlier_of,) * 2))
    for test, value in (
        ("l.task_id = ?", which.task_id),
        (f"{PLAN.format(facts='l.facts')} = ?", which.plan),
        ("l.created_at > ?", which.created_after),
        ("l.created_at < ?", which.created_before),
        ("l.updated_at > ?", which.updated_after),
        ("l.updated_at < ?", which.updated_before),
        (f"{place} < ?", cursor),
    ):
        if value is not None:
            tests.append((test, (value,)))
    return source, place, tests
