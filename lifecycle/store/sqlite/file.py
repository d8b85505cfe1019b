"""The database file: opening, migrating, and handling of damage.

A file from a newer version is not touched; a damaged one is set aside, never overwritten. While
another process runs this repository, it owns the file: it is neither migrated nor moved.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import functools
import os
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

from lifecycle.errors import (
    RepositoryBusyError,
    StoreDamagedError,
    StoreError,
    StoreFromNewerVersionError,
    StoreShortError,
)
from lifecycle.store.lock import RunnerLock, holder
from lifecycle.store.lost_records import beside, is_to_be_made, refuse_traces
from lifecycle.store.reading import is_read_only, on_read_only, open_reader
from runtime.shortage import shortage_of, told

if TYPE_CHECKING:
    from collections.abc import Iterator

OLDEST_SQLITE = (3, 37, 0)
"""The first with STRICT tables."""
MIGRATIONS = Path(__file__).parent / "migrations"
DOWN = ".down.sql"
"""The end of the name of a script that takes a migration back; `downgrade.py` runs it."""
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_PERHAPS_SHORT = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_IOERR)
_PARTS = ("", "-wal", "-shm", "-audit")


def open_writer(
    path: Path, *, durable: bool, patience: float, anew: bool = False
) -> sqlite3.Connection:
    """Return the one connection that writes, on a database that is whole and up to date.

    With `anew` lost records are accepted: what is left of them is moved aside.
    """
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise StoreError(
            f"this Python has SQLite {sqlite3.sqlite_version}, but 3.37 or newer is needed; "
            "use a newer Python"
        )
    if is_to_be_made(path):
        if anew:
            _move_aside(path, "lost")
        else:
            refuse_traces(path)
    _make(path)
    with _damage_noticed(path):
        unclean = _left_unclean(path)
        _refuse_unknown(path)
        if unclean and not _is_anothers(path):
            _check(path)
        connection = sqlite3.connect(path, timeout=patience, isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            connection.execute("PRAGMA foreign_keys = ON")
            _bring_up_to_date(connection, path)
        except BaseException:
            connection.close()
            raise
    return connection


def open_in_memory() -> sqlite3.Connection:
    """Return a connection to an empty database of its own, which any thread may use in turn."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    _empty().backup(connection)
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


@functools.cache
def _empty() -> sqlite3.Connection:
    """Return what all databases in memory begin as: to copy it is quicker than to migrate."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    atexit.register(connection.close)
    bring_up_to_date(connection)
    return connection


def explain(problem: sqlite3.Error, path: Path) -> StoreError:
    """Say what went wrong with the database and what to do about it."""
    code = getattr(problem, "sqlite_errorcode", None)
    # An error without a code is from Python: some text is not valid UTF-8.
    undecodable = code is None and isinstance(problem, sqlite3.OperationalError)
    primary = (code or 0) & 0xFF
    if primary in _DAMAGE or undecodable:
        _mark_suspect(path)
        return StoreDamagedError(
            f"{path} is damaged ({problem}); nothing was moved or overwritten. Stop what uses "
            "it and start again: it is then checked, and set aside if it is damaged"
        )
    if primary == sqlite3.SQLITE_FULL:
        return StoreError(
            f"nothing was written to {path}: the disk is full; "
            "make room, what was written before is intact"
        )
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreError(
            f"nothing was written to {path}: another process kept it locked; "
            "find it with `fuser` or `lsof` and stop it"
        )
    if primary in _PERHAPS_SHORT and (short := _short(primary)):
        return StoreShortError(f"{path} cannot be opened: {short}")
    return StoreError(
        f"{path} could not be read or written ({problem}); check free space, "
        "permissions and the disk, what was written before is intact"
    )


def _short(primary: int) -> str:
    """Say what the machine is short of; SQLite does not tell why a file cannot be opened."""
    if primary == sqlite3.SQLITE_NOMEM:
        return told(errno.ENOMEM)
    try:
        # Not the database: to close it would take this process's locks on it away.
        os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        return shortage_of(error)
    return ""


def bring_up_to_date(connection: sqlite3.Connection) -> None:
    """Apply the migrations that are missing, each wholly or not at all."""
    for number, script in migrations():
        if _version(connection) >= number:
            continue
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Asked again under the lock: another process may just have done it.
            if _version(connection) < number:
                for statement in statements(script.read_text(encoding="utf-8")):
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {number}")
            connection.execute("COMMIT")
        except sqlite3.Error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def migrations() -> list[tuple[int, Path]]:
    """List the numbered migrations in order."""
    scripts = MIGRATIONS.glob("[0-9][0-9][0-9]_*.sql")
    return sorted(
        (int(script.name[:3]), script) for script in scripts if not script.name.endswith(DOWN)
    )


def statements(script: str) -> Iterator[str]:
    """Split a script, so that it can run inside a transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip():
        yield statement


def _make(path: Path) -> None:
    """Make the file for its owner alone; its companions get the same permissions."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.exists():
            # To open and close it would take this process's locks on it away, also those of a
            # store that is open already.
            _require_access(path)
        else:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except OSError as problem:
        if isinstance(problem, FileExistsError) and path.is_file():
            return  # another process made it in this moment
        if is_read_only(path):
            raise StoreError(on_read_only(path)) from problem
        what = "the disk is full" if problem.errno == errno.ENOSPC else problem.strerror
        raise StoreError(
            f"{path} cannot be opened ({what}); check that its folder belongs to you, "
            "can be written and has room"
        ) from problem


def _require_access(path: Path) -> None:
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not os.access(path, os.R_OK | os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def _left_unclean(path: Path) -> bool:
    """Whether the last writer did not close: closing empties the write-ahead log."""
    if _suspect(path).exists():
        return True
    with contextlib.suppress(FileNotFoundError):
        return beside(path, "-wal").stat().st_size > 0
    return False


def _refuse_unknown(path: Path) -> None:
    with contextlib.closing(open_reader(path)) as connection:
        found = _version(connection)
        tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    known = migrations()[-1][0]
    if found < 0 or (found == 0 and tables):
        raise StoreError(
            f"{path} holds tables, but its schema version (PRAGMA user_version) is {found}, which "
            "no Loopwright wrote; it was left untouched. Put a backup in its place, or set the "
            f"version that it had (the newest is {known})"
        )
    if found > known:
        raise StoreFromNewerVersionError(
            f"{path} has schema version {found}, written by a newer Loopwright; this one knows "
            f"versions up to {known} and left it untouched. Upgrade Loopwright"
        )


def _check(path: Path) -> None:
    with contextlib.closing(open_reader(path)) as connection:
        answers = [row[0] for row in connection.execute("PRAGMA quick_check(1)")]
    if answers != ["ok"]:
        raise _Damage(answers[0])
    _suspect(path).unlink(missing_ok=True)


def _bring_up_to_date(connection: sqlite3.Connection, path: Path) -> None:
    known = migrations()[-1][0]
    if 0 < _version(connection) < known and _is_anothers(path):
        raise StoreError(
            f"{path} was made by an older Loopwright that is still running "
            f"(pid {(holder(path.parent) or {}).get('pid', '?')}); stop it first"
        )
    bring_up_to_date(connection)


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


class _Damage(Exception):  # noqa: N818  # a finding on its way to StoreDamagedError, never seen outside
    """The check of the whole file found something."""


@contextlib.contextmanager
def _damage_noticed(path: Path) -> Iterator[None]:
    seen = path.stat().st_ino
    try:
        yield
    except _Damage as finding:
        raise _set_aside(path, str(finding), seen) from finding
    except sqlite3.Error as problem:
        if (getattr(problem, "sqlite_errorcode", 0) & 0xFF) in _DAMAGE:
            raise _set_aside(path, str(problem), seen) from problem
        raise explain(problem, path) from problem


def _set_aside(path: Path, finding: str, seen: int) -> StoreDamagedError:
    """Move a damaged database out of the way, unless it belongs to a running process."""
    lock = RunnerLock(path.parent, who="setting a damaged database aside")
    try:
        if not _is_ours(path):
            lock.acquire()
    except RepositoryBusyError as busy:
        return StoreDamagedError(f"{path} is damaged ({finding}) and was not moved: {busy}")
    try:
        if not path.exists() or path.stat().st_ino != seen:
            return StoreDamagedError(
                f"{path} was damaged ({finding}) and another process set it aside just now; "
                "start again"
            )
        aside = _move_aside(path, "damaged")
        _suspect(path).unlink(missing_ok=True)
    finally:
        lock.release()
    return StoreDamagedError(
        f"{path} is damaged ({finding}); it was moved to {aside} and nothing in it was changed. "
        "Start again to begin with empty records, or first put a backup in its old place; "
        f"`sqlite3 {aside} .recover` shows what can be saved"
    )


def _move_aside(path: Path, why: str) -> Path:
    """Move all files of a database to a name of its own that says why; return that of the first."""
    number = 1
    while any(beside(path, f".{why}-{number}{part}").exists() for part in _PARTS):
        number += 1
    aside = beside(path, f".{why}-{number}")
    for part in _PARTS:
        with contextlib.suppress(FileNotFoundError):
            beside(path, part).rename(beside(aside, part))
    return aside


def _is_ours(path: Path) -> bool:
    return (holder(path.parent) or {}).get("pid") == os.getpid()


def _is_anothers(path: Path) -> bool:
    said = holder(path.parent)
    return said is not None and said.get("pid") != os.getpid()


def _suspect(path: Path) -> Path:
    return beside(path, ".suspect")


def _mark_suspect(path: Path) -> None:
    with contextlib.suppress(OSError):
        _suspect(path).touch(mode=0o600)
