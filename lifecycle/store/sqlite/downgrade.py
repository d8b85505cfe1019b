"""Takes a database back to an earlier version of its schema, by the `*.down.sql` of each migration.

`python -m lifecycle.store.sqlite.downgrade .loopwright/state.db 7`. What the earlier version does
not know is lost; the head of each script says what that is. Must not run beside a runner.
"""

from __future__ import annotations

import argparse
import contextlib
import sqlite3
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lifecycle.errors import LifecycleError, StoreError
from lifecycle.store.lock import RunnerLock
from lifecycle.store.sqlite import file

if TYPE_CHECKING:
    from collections.abc import Sequence


def downgrade(path: Path, version: int) -> None:
    """Take back the migrations above a version, each wholly or not at all.

    RepositoryBusyError while a runner is alive, StoreError if that version cannot be reached.
    """
    if not path.is_file():
        raise StoreError(f"{path} does not exist; name the database, .loopwright/state.db")
    lock = RunnerLock(path.parent, who="taking the database to an earlier version")
    lock.acquire()
    try:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA foreign_keys = ON")
            take_down(connection, version)
    except sqlite3.Error as problem:
        raise file.explain(problem, path) from problem
    finally:
        lock.release()


def take_down(connection: sqlite3.Connection, version: int) -> None:
    """Take back the migrations above a version."""
    found = int(connection.execute("PRAGMA user_version").fetchone()[0])
    known = dict(file.migrations())
    if not 0 <= version <= found or found not in known:
        raise StoreError(
            f"the database has schema version {found}, which cannot be taken back to {version}: "
            f"this Loopwright takes back versions up to {max(known)}, to 0 at the earliest"
        )
    scripts = [(number, known[number].with_suffix(file.DOWN)) for number in known]
    missing = [
        str(script) for number, script in scripts if number > version and not script.exists()
    ]
    if missing:
        raise StoreError(f"there is no way back: {', '.join(missing)} is missing")
    for number, script in sorted(scripts, reverse=True):
        if not version < number <= found:
            continue
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statement in file.statements(script.read_text(encoding="utf-8")):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number - 1}")
            connection.execute("COMMIT")
        except sqlite3.Error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def main(arguments: Sequence[str] | None = None) -> int:
    """Take the named database back."""
    parser = argparse.ArgumentParser(prog="downgrade", description="Take a database back.")
    parser.add_argument("database", type=Path, help="such as .loopwright/state.db")
    parser.add_argument("version", type=int, help="the version of the schema that it shall have")
    asked = parser.parse_args(arguments)
    try:
        downgrade(asked.database, asked.version)
    except LifecycleError as problem:
        print(f"error: {problem}", file=sys.stderr)  # noqa: T201  # the command's answer
        return 2
    print(f"{asked.database} has schema version {asked.version} now")  # noqa: T201  # as above
    return 0


if __name__ == "__main__":
    sys.exit(main())
