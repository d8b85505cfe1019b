"""Selects the instances of a page, by index: those with rows of their own, and loop attempts."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from lifecycle.store.instances import ENDED, InstanceRow
from lifecycle.store.rows.instances import COLUMNS, instance_of_row
from lifecycle.store.rows.loop_attempts import (
    BAD_ENDS,
    LEDGER_COLUMNS,
    LIFECYCLE_COLUMNS,
    LIVE_KINDS,
    Attempt,
    as_instance,
    health_of,
    wanted,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence

    from lifecycle.store.instances import InstanceFilter

_INSTANCE = ", ".join(f"i.{name}" for name in COLUMNS)
_TAGS = "(SELECT json_group_array(tag) FROM agent_instance_tags WHERE instance_id = i.id)"
_CREATED = COLUMNS.index("created_at")
_BIRTH = itemgetter(0)
_HAS_TAG = "EXISTS (SELECT 1 FROM tags WHERE tag = ? COLLATE NOCASE AND cursor = l.cursor)"
ROWS = f"SELECT {_INSTANCE}, {_TAGS} FROM agent_instances AS i "  # noqa: S608  # our own column names
_READ = ", ".join(
    (
        *(f"l.{name}" for name in LIFECYCLE_COLUMNS),
        "l.attempt",
        "l.coarse = 'running'",
        "coalesce(json_extract(l.work, '$.frozen'), 0)",
        "coalesce(json_extract(l.work, '$.containment'), '')",
        *(f"a.{name}" for name in LEDGER_COLUMNS),
    )
)
_LIVE = f"l.coarse = 'running' AND l.work_kind IN ({', '.join(repr(kind) for kind in LIVE_KINDS)})"
_UNDER_WAY = (
    "lifecycles AS l INDEXED BY lifecycles_by_coarse "
    "LEFT JOIN attempts AS a ON a.agent_id = l.agent_id AND a.attempt = l.attempt"
)
ATTEMPT = (
    f"SELECT {_READ} FROM lifecycles AS l "  # noqa: S608  # our own column names
    "LEFT JOIN attempts AS a ON a.agent_id = l.agent_id AND a.attempt = ? WHERE l.cursor = ?"
)
ACTIVE = (
    "SELECT (SELECT count(*) FROM agent_instances INDEXED BY idx_agent_instances_listed "  # noqa: S608  # our own text
    "WHERE active = 1) + (SELECT count(*) FROM lifecycles AS l INDEXED BY lifecycles_by_coarse "
    f"WHERE {_LIVE})"
)

ENDED_ATTEMPTS = (
    f"SELECT a.outcome IN ({', '.join('?' * len(BAD_ENDS))}), count(*), "  # noqa: S608  # our own text
    "sum(coalesce(a.ended_at, a.started_at) - a.started_at) "
    "FROM attempts AS a JOIN lifecycles AS l ON l.agent_id = a.agent_id "
    f"WHERE NOT (a.attempt = l.attempt AND {_LIVE}) GROUP BY 1"
)

Found = tuple[float, Callable[[Any], InstanceRow], Any]
"""Instant of birth, and what makes the instance of what was read of it."""


def page(connection: sqlite3.Connection, which: InstanceFilter) -> tuple[InstanceRow, ...]:
    """Return the instances on a page: both kinds, each youngest first, merged."""
    last = which.offset + which.limit
    kinds = [_spawned(connection, which, last)]
    if wanted(which):
        live = [(row.created_at, _as_it_is, row) for row in live_attempts(connection, which)]
        kinds += [sorted(live, key=_BIRTH, reverse=True), _ended(connection, which, last)]
    merged = heapq.merge(*kinds, key=_BIRTH, reverse=True)
    return tuple(made(row) for _, made, row in islice(merged, which.offset, last))


def is_long(which: InstanceFilter) -> bool:
    """Tell whether the matches may have to be searched among all ended instances."""
    over = which.ended or not set(ENDED).isdisjoint(which.states)
    return which.name_pattern is not None or (which.tag is not None and over)


def _as_it_is(row: InstanceRow) -> InstanceRow:
    return row


def _spawned(connection: sqlite3.Connection, which: InstanceFilter, last: int) -> list[Found]:
    """Return those with rows of their own, as many as can be on the page."""
    if which.states:
        groups: list[tuple[str, Any]] = [("state", each) for each in dict.fromkeys(which.states)]
    else:
        groups = [("active", 1), ("active", 0)] if which.ended else [("active", 1)]
    exact = which.name_pattern is not None and "*" not in which.name_pattern
    parts, values = [], list[Any]()
    for column, value in groups:
        # By name alone few are left; else an index that begins with the group gives the order.
        tests: list[tuple[str, Any]] = [(f"{'+' if exact else ''}i.{column} = ?", value)]
        source, order = "agent_instances AS i", "i.id"
        if which.tag is not None:
            active = int(value not in ENDED) if column == "state" else value
            tests += [("t.tag = ?", which.tag), ("t.active = ?", active)]
            source = "agent_instance_tags AS t JOIN agent_instances AS i ON i.id = t.instance_id"
            order = "t.instance_id"
        for name in ("definition_id", "owner_id", "health_state"):
            if (asked := getattr(which, name)) is not None:
                tests.append((f"i.{name} = ?", str(asked)))
        tests += _named("i.name", which)
        where = " AND ".join(test for test, _ in tests)
        parts.append(
            f"SELECT * FROM (SELECT {_INSTANCE}, {_TAGS} FROM {source} WHERE {where} "  # noqa: S608  # our own text
            f"ORDER BY {order} DESC LIMIT {last})"
        )
        values += [value for _, value in tests]
    query = f"{' UNION ALL '.join(parts)} ORDER BY 1 DESC LIMIT {last}"
    return [(row[_CREATED], instance_of_row, row) for row in connection.execute(query, values)]


def live_attempts(connection: sqlite3.Connection, which: InstanceFilter) -> Iterator[InstanceRow]:
    """Give the attempts under way that fit, in any order; there are few."""
    where, values = _where([(_LIVE, ())], which)
    for row in connection.execute(f"SELECT {_READ} FROM {_UNDER_WAY} WHERE {where}", values):  # noqa: S608  # our own text
        made = as_instance(Attempt._make(row))
        fits = not which.states or made.state in which.states
        if fits and which.health_state in (None, made.health_state):
            yield made


def _ended(connection: sqlite3.Connection, which: InstanceFilter, last: int) -> list[Found]:
    """Return the attempts that are over, as many as can be on the page."""
    states = set(which.states) & set(ENDED)
    if (which.states and not states) or not (which.states or which.ended):
        return []
    if which.health_state not in (None, health_of("terminated")):
        return []
    tests: list[tuple[str, Sequence[Any]]] = [(f"NOT (a.attempt = l.attempt AND {_LIVE})", ())]
    if len(states) == 1:
        word = "IN" if "failed" in states else "NOT IN"
        tests.append((f"a.outcome {word} ({', '.join('?' * len(BAD_ENDS))})", BAD_ENDS))
    where, values = _where(tests, which)
    found = connection.execute(
        f"SELECT {_READ} FROM attempts AS a JOIN lifecycles AS l ON l.agent_id = a.agent_id "  # noqa: S608  # our own text
        f"WHERE {where} "
        f"ORDER BY a.started_at DESC, a.agent_id DESC, a.attempt DESC LIMIT {last}",
        values,
    )
    return [(each.started_at or 0.0, as_instance, each) for each in map(Attempt._make, found)]


def _where(tests: list[tuple[str, Sequence[Any]]], which: InstanceFilter) -> tuple[str, list[Any]]:
    """Return what holds for an attempt, with the name and the tag that are asked for."""
    tests = [*tests, *((test, (value,)) for test, value in _named("l.agent_id", which))]
    if which.tag is not None:
        tests.append((_HAS_TAG, (which.tag,)))
    values = [value for _, wanted in tests for value in wanted]
    return " AND ".join(test for test, _ in tests), values


def _named(column: str, which: InstanceFilter) -> list[tuple[str, Any]]:
    """Return the test of a name: exact, which an index finds, or as SQLite knows patterns."""
    pattern = which.name_pattern
    if pattern is None:
        return []
    if "*" not in pattern:
        return [(f"{column} = ?", pattern)]
    return [(f"{column} GLOB ?", pattern.replace("[", "[[]").replace("?", "[?]"))]
