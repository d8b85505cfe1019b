"""Damages one record where it lies, as a bad disk does: no store takes part in it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from lifecycle.store.rows.records import COLUMNS

if TYPE_CHECKING:
    from pathlib import Path

NO_JSON = {"work": '{"kind":"Wor\x01ing","v":1'}
NO_OBJECT = {"facts": "[]"}
NO_LIST = {"tags": "7"}
NO_SUCH_KIND = {"work": '{"kind":"Wprking","v":1}'}
NO_FIELDS = {"work": '{"kind":"Working","v":1}'}
HARM = {
    "no JSON": NO_JSON,
    "no object": NO_OBJECT,
    "no list": NO_LIST,
    "no such kind": NO_SUCH_KIND,
    "no fields": NO_FIELDS,
}


def damage(path: Path, agent_id: str, changes: dict[str, str]) -> None:
    """Change columns of a record behind the store's back."""
    for column, value in changes.items():
        query = f"UPDATE lifecycles SET {column} = ? WHERE agent_id = ?"  # noqa: S608  # our own text
        execute(path, query, value, agent_id)


def garble(path: Path, agent_id: str, column: str) -> None:
    """Set the highest bit of a text's first byte, so that it is no UTF-8 any more."""
    rest = f"CAST(x'fb' || CAST(substr({column}, 2) AS BLOB) AS TEXT)"
    query = f"UPDATE lifecycles SET {column} = {rest} WHERE agent_id = ?"  # noqa: S608  # our own text
    execute(path, query, agent_id)


def garble_for_good(path: Path, agent_id: str) -> None:
    """Damage the state of a record now and after every write: its owner writes it whole again."""
    rest = "CAST(x'fb' || CAST(substr(work, 2) AS BLOB) AS TEXT)"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "CREATE TRIGGER bad_disk AFTER UPDATE ON lifecycles "  # noqa: S608  # our own text
            f"WHEN NEW.agent_id = '{agent_id}' "
            f"BEGIN UPDATE lifecycles SET work = {rest} WHERE agent_id = NEW.agent_id; END"
        )
    execute(path, "UPDATE lifecycles SET task = task WHERE agent_id = ?", agent_id)


def stored(path: Path, agent_id: str) -> tuple[object, ...]:
    """Return a row as it is, bytes for text."""
    with closing(sqlite3.connect(path)) as connection:
        connection.text_factory = bytes
        query = f"SELECT {', '.join(COLUMNS)} FROM lifecycles WHERE agent_id = ?"  # noqa: S608  # our own text
        found: tuple[object, ...] = connection.execute(query, (agent_id,)).fetchone()
        return found


def execute(path: Path, query: str, *values: str) -> None:
    """Write to a database as if no store were there."""
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute(query, values).rowcount == 1
