"""Which instances a page holds, found through an index for every filter.

A page is found in two steps: the keys of both kinds, each youngest first and no more than can be on
the page, then the rows of those that are.
"""

from __future__ import annotations

import heapq
from itertools import islice
from typing import TYPE_CHECKING, Any

from lifecycle.store.instances import ENDED, InstanceRow
from lifecycle.store.instances_attempts import (
    BAD_ENDS,
    LEDGER_COLUMNS,
    LIFECYCLE_COLUMNS,
    LIVE_KINDS,
    Attempt,
    as_instance,
    health_of,
    kinds_of,
    wanted,
)
from lifecycle.store.instances_rows import COLUMNS, instance_of_row

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from lifecycle.store.instances import InstanceFilter

_FEW = 1000
"""Up to so many rows it is quicker to sort them than to look for them in order."""
_INSTANCE = ", ".join(f"i.{name}" for name in COLUMNS)
_TAGS = "(SELECT json_group_array(tag) FROM agent_instance_tags WHERE instance_id = i.id)"
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

Key = tuple[float, str, int]
"""Instant of birth, id (or agent) and number of an attempt, which is 0 for other instances."""


def page(connection: sqlite3.Connection, which: InstanceFilter) -> tuple[InstanceRow, ...]:
    """Return the instances on a page."""
    last = which.offset + which.limit
    keys = _instance_keys(connection, which, last)
    live: dict[Key, InstanceRow] = {}
    ended: list[Key] = []
    if wanted(which):
        live = live_attempts(connection, which)
        ended = _ended_keys(connection, which, last)
    merged = heapq.merge(keys, sorted(live, reverse=True), ended, reverse=True)
    shown = list(islice(merged, which.offset, last))
    rows = _rows(connection, [key[1] for key in shown if not key[2]])
    return tuple(
        rows[key[1]] if not key[2] else live.get(key) or _ended(connection, key) for key in shown
    )


def _rows(connection: sqlite3.Connection, ids: Sequence[str]) -> dict[str, InstanceRow]:
    if not ids:
        return {}
    found = connection.execute(f"{ROWS}WHERE i.id IN ({', '.join('?' * len(ids))})", ids)
    return {row[0]: instance_of_row(row) for row in found}


# --- instances with rows of their own ---------------------------------------------------------


def _instance_keys(connection: sqlite3.Connection, which: InstanceFilter, last: int) -> list[Key]:
    query, values = instance_query(which, last, by_name=_few_of_name(connection, which))
    return [(at, instance_id, 0) for at, instance_id in connection.execute(query, values)]


def instance_query(which: InstanceFilter, last: int, *, by_name: bool) -> tuple[str, list[Any]]:
    """Return the query for the keys of a page, from one index that gives the order."""
    groups = _groups(which)
    parts, values = [], list[Any]()
    for source, conditions, found in (_lead(which, group, by_name=by_name) for group in groups):
        by_tag = source.startswith("agent_instance_tags")
        rest, more = _rest(which, by_tag=by_tag)
        where = " AND ".join((*conditions, *rest))
        order = "t.instance_id" if by_tag else "i.id"
        parts.append(
            f"SELECT i.created_at AS at, i.id AS id FROM {source} WHERE {where} "  # noqa: S608  # our own text
            f"ORDER BY {order} DESC LIMIT {last}"
        )
        values += [*found, *more]
    if len(parts) == 1:
        return parts[0], values
    joined = " UNION ALL ".join(f"SELECT * FROM ({part})" for part in parts)  # noqa: S608  # as above
    return f"{joined} ORDER BY 2 DESC LIMIT {last}", values


def _groups(which: InstanceFilter) -> list[tuple[str, Any]]:
    """Return what the parts of a page differ by: a state, or whether they have ended."""
    if which.states:
        return [("state", state) for state in dict.fromkeys(which.states)]
    return [("active", 1), ("active", 0)] if which.ended else [("active", 1)]


def _lead(
    which: InstanceFilter, group: tuple[str, Any], *, by_name: bool
) -> tuple[str, list[str], list[Any]]:
    """Return the source, its conditions and their values; the index in it gives the order."""
    column, value = group
    active = int(value not in ENDED) if column == "state" else value
    both, kind = [f"i.{column} = ?"], [value]
    if by_name and which.name_pattern is not None:
        low, high = _span(which.name_pattern)
        return (
            "agent_instances AS i INDEXED BY idx_agent_instances_name",
            [*both, "i.name >= ?", "i.name < ?"],
            [*kind, low, high],
        )
    if which.tag is not None:
        source = (
            "agent_instance_tags AS t INDEXED BY idx_instance_tags_tag "
            "CROSS JOIN agent_instances AS i ON i.id = t.instance_id"
        )
        return source, ["t.tag = ?", "t.active = ?", *both], [which.tag, active, *kind]
    index = _by_state(which) if column == "state" else _by_activity(which)
    return f"agent_instances AS i INDEXED BY idx_agent_instances_{index}", both, kind


def _by_state(which: InstanceFilter) -> str:
    return "state" if which.owner_id is None else "active"


def _by_activity(which: InstanceFilter) -> str:
    if which.definition_id is not None:
        return "definition"
    if which.health_state is not None:
        return "health"
    return "listed" if which.owner_id is None else "owner"


def _rest(which: InstanceFilter, *, by_tag: bool) -> tuple[list[str], list[Any]]:
    conditions, values = [], list[Any]()
    for column, value in (
        ("definition_id", which.definition_id),
        ("owner_id", which.owner_id),
        ("health_state", which.health_state),
    ):
        if value is not None:
            conditions.append(f"i.{column} = ?")
            values.append(str(value))
    if which.tag is not None and not by_tag:
        conditions.append(
            "EXISTS (SELECT 1 FROM agent_instance_tags WHERE instance_id = i.id AND tag = ?)"
        )
        values.append(which.tag)
    if which.name_pattern is not None:
        conditions.append("i.name GLOB ?")
        values.append(_glob(which.name_pattern))
    return conditions, values


def _few_of_name(connection: sqlite3.Connection, which: InstanceFilter) -> bool:
    return which.name_pattern is not None and _few(
        connection,
        "agent_instances WHERE name >= ? AND name < ?",
        _span(which.name_pattern),
    )


def _few(connection: sqlite3.Connection, what: str, values: Iterable[Any]) -> bool:
    found = connection.execute(
        f"SELECT count(*) FROM (SELECT 1 FROM {what} LIMIT {_FEW + 1})",  # noqa: S608  # our own text
        tuple(values),
    ).fetchone()
    return int(found[0]) <= _FEW


def _span(pattern: str) -> tuple[str, str]:
    """Return between which names all lie that begin as the pattern does."""
    start = pattern.partition("*")[0]
    return start, start + chr(0x10FFFF)


def _glob(pattern: str) -> str:
    """Return the pattern as SQLite knows it, in which only `*` is special."""
    return pattern.replace("[", "[[]").replace("?", "[?]")


# --- attempts of loops ------------------------------------------------------------------------


def live_attempts(connection: sqlite3.Connection, which: InstanceFilter) -> dict[Key, InstanceRow]:
    """Return those under way that fit; there are few, so that they need no order."""
    kinds = kinds_of(which)
    if not kinds:
        return {}
    conditions, values = _named(which)
    where = " AND ".join(
        ("l.coarse = 'running'", f"l.work_kind IN ({', '.join('?' * len(kinds))})", *conditions)
    )
    found = connection.execute(
        f"SELECT {_READ} FROM {_UNDER_WAY} WHERE {where}",  # noqa: S608  # our own text
        (*kinds, *values),
    )
    rows = [(each, as_instance(each)) for each in map(Attempt._make, found)]
    return {
        (row.created_at, each.agent_id, each.current): row
        for each, row in rows
        if (not which.states or row.state in which.states)
        and which.health_state in (None, row.health_state)
    }


def _ended_keys(connection: sqlite3.Connection, which: InstanceFilter, last: int) -> list[Key]:
    states = set(which.states) & set(ENDED)
    if (which.states and not states) or not (which.states or which.ended):
        return []
    if which.health_state not in (None, health_of("terminated")):
        return []
    conditions, values = _named(which)
    conditions.append(f"NOT (a.attempt = l.attempt AND {_LIVE})")
    if len(states) == 1:
        word = "IN" if "failed" in states else "NOT IN"
        conditions.append(f"a.outcome {word} ({', '.join('?' * len(BAD_ENDS))})")
        values += BAD_ENDS
    source, conditions, values = _ended_source(connection, which, conditions, values)
    query = (
        f"SELECT a.started_at, a.agent_id, a.attempt FROM {source} "  # noqa: S608  # our own text
        f"WHERE {' AND '.join(conditions)} "
        f"ORDER BY a.started_at DESC, a.agent_id DESC, a.attempt DESC LIMIT {last}"
    )
    return [(at, agent_id, number) for at, agent_id, number in connection.execute(query, values)]


def _ended_source(
    connection: sqlite3.Connection,
    which: InstanceFilter,
    conditions: list[str],
    values: list[Any],
) -> tuple[str, list[str], list[Any]]:
    """Say where to look: among the few that a name or a tag leaves, else in the order of time."""
    if which.name_pattern is not None:
        span = _span(which.name_pattern)
        if _few(connection, "attempts WHERE agent_id >= ? AND agent_id < ?", span):
            return (
                "attempts AS a NOT INDEXED CROSS JOIN lifecycles AS l ON l.agent_id = a.agent_id",
                ["a.agent_id >= ?", "a.agent_id < ?", *conditions],
                [*span, *values],
            )
    if which.tag is not None:
        tagged = (
            "tags AS t INDEXED BY tags_in_any_case "
            "CROSS JOIN lifecycles AS l ON l.cursor = t.cursor "
            "CROSS JOIN attempts AS a NOT INDEXED ON a.agent_id = l.agent_id"
        )
        chosen = "t.tag = ? COLLATE NOCASE"
        if _few(connection, f"{tagged} WHERE {chosen}", (which.tag,)):
            return tagged, [chosen, *conditions], [which.tag, *values]
    source = (
        "attempts AS a INDEXED BY attempts_by_start "
        "CROSS JOIN lifecycles AS l ON l.agent_id = a.agent_id"
    )
    return source, conditions, values


def _named(which: InstanceFilter) -> tuple[list[str], list[Any]]:
    conditions, values = [], list[Any]()
    if which.name_pattern is not None:
        conditions.append("l.agent_id GLOB ?")
        values.append(_glob(which.name_pattern))
    if which.tag is not None:
        conditions.append(
            "EXISTS (SELECT 1 FROM tags WHERE tag = ? COLLATE NOCASE AND cursor = l.cursor)"
        )
        values.append(which.tag)
    return conditions, values


def _ended(connection: sqlite3.Connection, key: Key) -> InstanceRow:
    found = connection.execute(
        f"SELECT {_READ} FROM lifecycles AS l JOIN attempts AS a ON a.agent_id = l.agent_id "  # noqa: S608  # our own text
        "WHERE l.agent_id = ? AND a.attempt = ?",
        key[1:],
    ).fetchone()
    return as_instance(Attempt._make(found))
