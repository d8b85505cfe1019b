"""Opens a database to read it, also one in which some text is not valid UTF-8.

Imports nothing else of this program, so that quick commands can use it. Must not write.
"""

from __future__ import annotations

import os
import sqlite3
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


def open_reader(
    path: Path, *, patience: float = 1.0, any_thread: bool = False
) -> sqlite3.Connection:
    """Return a connection that cannot write; waits so many seconds for a lock.

    With `any_thread` several may use it, one at a time.
    """
    name = os.fsencode(path.absolute())
    for byte in b"%?#":
        name = name.replace(bytes((byte,)), b"%%%02x" % byte)
    uri = b"file:" + name + b"?mode=ro"
    return sqlite3.connect(
        uri, uri=True, timeout=patience, isolation_level=None, check_same_thread=not any_thread
    )


def is_read_only(path: Path) -> bool:
    """Tell whether the file system of a file, existing or not, is mounted read-only."""
    try:
        found = os.statvfs(path if path.exists() else path.parent)
    except OSError:
        return False
    return bool(found.f_flag & os.ST_RDONLY)


def on_read_only(path: Path) -> str:
    """Say why records cannot be read there: SQLite has to write beside what it reads."""
    return (
        f"{path} is on a file system that is mounted read-only, and the records cannot be opened "
        f"without writing beside them; mount it writable, or copy the repository with "
        f"{path.parent.name}/ to where it can be written"
    )


class InvalidText(str):
    """Text that is not valid UTF-8, with the invalid bytes escaped; not the stored value."""

    __slots__ = ()


def fetch(
    connection: sqlite3.Connection, query: str, values: tuple[Any, ...] | list[Any] = ()
) -> list[tuple[Any, ...]]:
    """Return all rows; text that is none comes as `InvalidText`."""
    try:
        return connection.execute(query, values).fetchall()
    except UnicodeEncodeError:
        return []  # a value that is not valid Unicode (bytes in an argument) is in no column
    except sqlite3.OperationalError as problem:
        # An error without a code is from Python: some text is not valid UTF-8.
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
        return InvalidText(raw.decode(errors="backslashreplace"))
