"""What a decision and its parts write, as SQL; the caller holds the transaction."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from lifecycle.store.rows.records import (
    AGENT,
    ATTEMPT_COLUMNS,
    BIRTH,
    COARSE,
    COLUMNS,
    CURSOR,
    TAGS,
    TASK,
    VERSION,
    check_move,
    conflict,
    from_json,
    nobody_to_ask,
    ownerless,
    replaced,
    taken,
)
from lifecycle.store.sqlite.spending import put_spending

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lifecycle.store.rows.records import Row

ANSWERS_KEPT = 86_400.0
"""Seconds that requests to the runner are kept once they are answered."""
_DOUBLE = (sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_UNIQUE)
JOURNAL = (
    "SELECT agent_id, seq, at, kind, body, rule, before, after, late FROM journal "
    "WHERE agent_id = ?"
)
PENDING = "SELECT agent_id, effect_id, ord, kind, body FROM outbox WHERE agent_id = ? ORDER BY ord"
_INSERT = (
    f"INSERT INTO lifecycles ({', '.join(COLUMNS[1:])}) "  # noqa: S608  # our own column names
    f"VALUES ({', '.join('?' * len(COLUMNS[1:]))})"
)
_UPDATE = (
    f"UPDATE lifecycles SET {', '.join(f'{name} = ?' for name in COLUMNS[VERSION:])} "  # noqa: S608  # our own column names
    "WHERE cursor = ?"
)
_REPLACE = (
    f"UPDATE lifecycles SET {', '.join(f'{name} = ?' for name in COLUMNS[1:])} "  # noqa: S608  # our own column names
    "WHERE cursor = ?"
)
_UPDATE_AT_ONCE = (
    f"{_UPDATE} AND agent_id = ? AND version = ? AND birth = ? "
    "AND task_id = ? AND coarse = ? AND tags = ?"
)
"""Does it all where neither of what rows are found by has changed, which is nearly always."""
_UPSERT_ATTEMPT = (
    f"INSERT OR REPLACE INTO attempts ({', '.join(ATTEMPT_COLUMNS)}) "  # noqa: S608  # our own column names
    f"VALUES ({', '.join('?' * len(ATTEMPT_COLUMNS))})"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The rows that one decision writes."""

    record: Row
    journal: Sequence[Row]
    effects: Sequence[Row]
    done: Sequence[str]
    attempt: Row | None
    spending: Row | None
    taken: Sequence[int]
    at: float


def write_decision(connection: sqlite3.Connection, decision: Decision) -> int:
    """Write a decision; returns the record's cursor."""
    cursor = write_record(connection, decision.record)
    add_journal(connection, decision.journal)
    if decision.done:
        some = ", ".join("?" * len(decision.done))
        connection.execute(
            f"DELETE FROM outbox WHERE agent_id = ? AND effect_id IN ({some})",  # noqa: S608  # question marks
            (decision.record[AGENT], *decision.done),
        )
    add_effects(connection, decision.effects)
    if decision.attempt is not None:
        put_attempt(connection, decision.attempt)
    if decision.spending is not None:
        put_spending(connection, decision.spending)
    if decision.taken:
        answer(connection, decision.taken, decision.at)
    return cursor


def write_record(connection: sqlite3.Connection, row: Row) -> int:
    """Insert a first version, or replace the version before this one; returns the cursor."""
    same = (row[CURSOR], row[AGENT], row[VERSION] - 1, row[BIRTH], row[TASK], row[COARSE])
    if connection.execute(_UPDATE_AT_ONCE, (*row[VERSION:], *same, row[TAGS])).rowcount:
        return int(row[CURSOR])
    found = connection.execute(
        "SELECT cursor, task_id, coarse, version, birth, tags FROM lifecycles WHERE agent_id = ?",
        (row[AGENT],),
    ).fetchone()
    if found is None and row[VERSION] == 1:
        return insert_record(connection, row)
    if found is None or found[3:5] != (row[VERSION] - 1, row[BIRTH]):
        raise conflict(row, None if found is None else found[3])
    check_move(row, found[2])
    cursor = int(found[0])
    if found[1:3] != (row[TASK], row[COARSE]):
        # Kept apart, because naming an indexed column rewrites its index even if it is the same.
        connection.execute(
            "UPDATE lifecycles SET task_id = ?, coarse = ? WHERE cursor = ?",
            (row[TASK], row[COARSE], cursor),
        )
    connection.execute(_UPDATE, (*row[VERSION:], cursor))
    if found[5] != row[TAGS]:
        connection.execute("DELETE FROM tags WHERE cursor = ?", (cursor,))
        _write_tags(connection, cursor, row)
    return cursor


OPEN_REQUESTS = (
    "SELECT request_id, agent_id, at, body FROM requests "
    "WHERE answered_at IS NULL AND request_id > ? ORDER BY request_id"
)
REPLY = (
    "SELECT begun_at IS NOT NULL, answered_at IS NOT NULL, problem, answer FROM requests "
    "WHERE request_id = ?"
)


def insert_record(connection: sqlite3.Connection, row: Row) -> int:
    """Insert a record in the version it has; returns its cursor."""
    cursor = int(connection.execute(_INSERT, row[1:]).lastrowid or 0)
    _write_tags(connection, cursor, row)
    return cursor


def replace_record(connection: sqlite3.Connection, cursor: int, row: Row) -> None:
    """Put a record with all its versions in the place of one; the rows around it go."""
    for table in ("journal", "attempts", "outbox"):
        connection.execute(f"DELETE FROM {table} WHERE agent_id = ?", (row[AGENT],))  # noqa: S608  # our own names
    connection.execute("DELETE FROM tags WHERE cursor = ?", (cursor,))
    connection.execute(_REPLACE, (*row[1:], cursor))
    _write_tags(connection, cursor, row)


AROUND = ("journal", "attempts", "requests")
"""Tables whose rows belong to a record, beside the outbox, whose rows are dropped."""


def set_aside(connection: sqlite3.Connection, old: Row, earlier_id: str) -> None:
    """Give the record of this row, and all rows around it, another id; drop what it has ordered."""
    agent_id = old[AGENT]
    connection.execute("DELETE FROM outbox WHERE agent_id = ?", (agent_id,))
    # Both ends of a reference cannot change in one statement, and SQLite checks nothing of it any
    # more once this is off again. So all tables that refer to a record stand here; a test compares.
    connection.execute("PRAGMA defer_foreign_keys = ON")
    try:
        moved = connection.execute(
            "UPDATE lifecycles SET agent_id = ? WHERE agent_id = ? AND version = ? AND birth = ?",
            (earlier_id, agent_id, old[VERSION], old[BIRTH]),
        )
        if not moved.rowcount:
            raise replaced(agent_id)
        for table in AROUND:
            connection.execute(
                f"UPDATE {table} SET agent_id = ? WHERE agent_id = ?",  # noqa: S608  # our own names
                (earlier_id, agent_id),
            )
    finally:
        connection.execute("PRAGMA defer_foreign_keys = OFF")


def write_next(connection: sqlite3.Connection, old: Row, earlier_id: str, row: Row) -> int:
    """Set a record aside and insert another of the same agent; returns its cursor."""
    set_aside(connection, old, earlier_id)
    return write_record(connection, row)


def _write_tags(connection: sqlite3.Connection, cursor: int, row: Row) -> None:
    connection.executemany(
        "INSERT INTO tags (tag, cursor) VALUES (?, ?)",
        [(tag, cursor) for tag in dict.fromkeys(from_json(row[TAGS]))],
    )


def add_journal(connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
    """Append journal entries; a number that is taken shows that somebody else wrote."""
    _add(connection, "journal", rows, lambda row: f"journal entry {row[1]} of {row[0]}")


def add_effects(connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
    """Append orders to the outbox: agent, id, place, kind and body."""
    _add(connection, "outbox", rows, lambda row: f"effect {row[1]} of {row[0]}")


def _add(
    connection: sqlite3.Connection, table: str, rows: Sequence[Row], name: Callable[[Row], str]
) -> None:
    """Insert rows by one statement: between two of them the other threads want their turn."""
    if not rows:
        return
    one = f"({', '.join('?' * len(rows[0]))})"
    insert = f"INSERT INTO {table} VALUES {one}"  # noqa: S608  # our own names and question marks
    try:
        connection.execute(insert + f", {one}" * (len(rows) - 1), tuple(chain.from_iterable(rows)))
    except sqlite3.IntegrityError:
        for row in rows:  # none was taken; one by one they show which is refused
            try:
                connection.execute(insert, row)
            except sqlite3.IntegrityError as problem:
                raise _taken(problem, name(row)) from problem


def drop_effects(connection: sqlite3.Connection, effect_ids: Iterable[str]) -> None:
    """Remove effects of any lifecycle from the outbox; unknown ones are ignored."""
    connection.executemany(
        "DELETE FROM outbox WHERE effect_id = ?", [(each,) for each in effect_ids]
    )


def put_attempt(connection: sqlite3.Connection, row: Row) -> None:
    """Write a row of the ledger in place of the one with its number."""
    try:
        connection.execute(_UPSERT_ATTEMPT, row)
    except sqlite3.IntegrityError as problem:
        raise _taken(problem, f"attempt {row[1]} of {row[0]}") from problem


def add_request(connection: sqlite3.Connection, row: Row) -> int:
    """Append a request (agent or None, instant, event); returns its id.

    Requests to lifecycles go with their records; those to the runner once they are old.
    """
    if row[0] is None:
        old = (row[1] - ANSWERS_KEPT,)
        connection.execute("DELETE FROM requests WHERE agent_id IS NULL AND answered_at < ?", old)
    try:
        added = connection.execute(
            "INSERT INTO requests (agent_id, at, body) VALUES (?, ?, ?)", row
        )
    except sqlite3.IntegrityError as problem:
        raise nobody_to_ask(row[0]) from problem
    return int(added.lastrowid or 0)


def begin_request(connection: sqlite3.Connection, request_id: int, at: float) -> None:
    """Note when a request was begun."""
    connection.execute(
        "UPDATE requests SET begun_at = ? WHERE request_id = ? AND begun_at IS NULL",
        (at, request_id),
    )


def answer(
    connection: sqlite3.Connection,
    request_ids: Iterable[int],
    at: float,
    problem: str = "",
    text: str = "",
) -> None:
    """Close requests; those that are closed or unknown are ignored."""
    connection.executemany(
        "UPDATE requests SET answered_at = ?, problem = ?, answer = ? "
        "WHERE request_id = ? AND answered_at IS NULL",
        [(at, problem, text, each) for each in request_ids],
    )


def put_document(connection: sqlite3.Connection, row: Row) -> None:
    """Write a document (collection, key, body); one that is replaced keeps its place."""
    connection.execute(
        "INSERT INTO documents (collection, key, body) VALUES (?, ?, ?) "
        "ON CONFLICT (collection, key) DO UPDATE SET body = excluded.body",
        row,
    )


def remove_document(connection: sqlite3.Connection, collection: str, key: str) -> None:
    """Remove a document, if there is one."""
    connection.execute("DELETE FROM documents WHERE collection = ? AND key = ?", (collection, key))


def _taken(problem: sqlite3.IntegrityError, what: str) -> Exception:
    if problem.sqlite_errorcode == sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
        return ownerless(what)
    if problem.sqlite_errorcode in _DOUBLE:
        return taken(what)
    return ValueError(f"{what} cannot be kept: {problem}")
