"""Reads rows of which some text is no UTF-8: SQLite keeps it, Python refuses all rows for it.

Imports nothing else of ours, so that quick commands can use it.
"""

from __future__ import annotations

import sqlite3
from typing import Any


class Garbled(str):
    """Text that is no UTF-8, with the wrong bytes shown; it must not be taken for what was kept."""

    __slots__ = ()


def fetch(
    connection: sqlite3.Connection, query: str, values: tuple[Any, ...] | list[Any] = ()
) -> list[tuple[Any, ...]]:
    """Return all rows; text that is none comes as `Garbled`."""
    try:
        return connection.execute(query, values).fetchall()
    except UnicodeEncodeError:
        return []  # asked for by a name that is no Unicode (bytes in an argument): no column has it
    except sqlite3.OperationalError as problem:
        # Without a code it is Python that found text which is none.
        if getattr(problem, "sqlite_errorcode", None) is not None:
            raise
    connection.text_factory = _text
    try:
        return connection.execute(query, values).fetchall()
    finally:
        connection.text_factory = str


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return Garbled(raw.decode(errors="backslashreplace"))
