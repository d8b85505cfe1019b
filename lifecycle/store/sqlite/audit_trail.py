"""The audit's trail in the database, and the note of its newest entry in a file beside it.

Entries are sealed in the writing thread, in the transaction of the decision that they tell of. The
note is written after each commit, so it is never ahead of the trail.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from dataclasses import fields
from functools import partial
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from lifecycle.audit import BEGINNING, Act, AuditCheck, AuditEntry, AuditHead, break_noted, seal
from lifecycle.errors import StoreError
from lifecycle.store.lost_records import is_to_be_made, refuse_traces
from lifecycle.store.reading import open_reader
from lifecycle.store.rows.audit import refused_row
from lifecycle.store.sqlite import file as sqlite_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from lifecycle.audit import AuditVerdict
    from lifecycle.store.sqlite.driver import Driver

T = TypeVar("T")

_NAMES = tuple(each.name for each in fields(AuditEntry))
_COLUMNS = ", ".join(_NAMES)
_values = attrgetter(*_NAMES)
_INSERT = f"INSERT INTO audit ({_COLUMNS}) VALUES ({', '.join('?' * len(_NAMES))})"  # noqa: S608  # our own names
_TAIL = "SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1"
PAGE = 1000
_NOTE_LENGTH = 128
"""Bytes, always all of them: a note is written over the last one in one piece."""


def note_path(database: Path) -> Path:
    """Return where the newest entry is noted."""
    return database.with_name(f"{database.name}-audit")


class FileNote:
    """The note in a file beside the database, which is held open."""

    def __init__(self, database: Path) -> None:
        self._path = note_path(database)
        self._file: int | None = None

    def read(self) -> AuditHead | None:
        """Return what the file holds."""
        return read_note(self._path)

    def write(self, head: AuditHead) -> None:
        """Write over all of it."""
        if self._file is None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.open(self._path, flags, 0o600)
        text = json.dumps({"seq": head.seq, "hash": head.hash})
        os.pwrite(self._file, f"{text:<{_NOTE_LENGTH - 1}}\n".encode(), 0)

    def close(self) -> None:
        """Close the file."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


class MemoryNote:
    """The note of a trail in memory, which cannot be truncated from outside."""

    def __init__(self) -> None:
        self._head: AuditHead | None = None

    def read(self) -> AuditHead | None:
        """Return what was written."""
        return self._head

    def write(self, head: AuditHead) -> None:
        """Keep it."""
        self._head = head

    def close(self) -> None:
        """Do nothing."""


class TrailWriter:
    """Adds to the trail of one database, where that is written to.

    A note that cannot be written fails the first entry; later ones only fall behind.
    """

    def __init__(self, note: FileNote | MemoryNote) -> None:
        self.note = note
        self._compared = False
        """Whether the trail was found to end as it was left."""
        self._break: AuditEntry | None = None
        """The entry that tells how it was not."""
        self._added: AuditHead | None = None
        """What was added last; its transaction may have been rolled back."""
        self._kept: AuditHead | None = None
        """What was known last to be in the trail: nobody may take it out while we write."""

    def append(self, connection: sqlite3.Connection, acts: Sequence[Act]) -> tuple[AuditEntry, ...]:
        """Add to the end, within the caller's transaction."""
        if not acts:
            return ()
        end = self._end(connection, acts[0].at)
        entries = []
        for act in acts:
            entry = seal(act, end.seq + 1, end.hash)
            _insert(connection, entry)
            entries.append(entry)
            end = AuditHead(entry.seq, entry.hash)
        self._added = end
        return tuple(entries)

    def together(
        self, run: Callable[[sqlite3.Connection], T], acts: Sequence[Act]
    ) -> Callable[[sqlite3.Connection], T]:
        """Return a function that does `run` and records the acts, both or neither."""
        if not acts:
            return run

        def both(connection: sqlite3.Connection) -> T:
            result = run(connection)
            self.append(connection, acts)
            return result

        return both

    def refusing(
        self, run: Callable[[sqlite3.Connection], T], request_id: int, at: float, problem: str
    ) -> Callable[[sqlite3.Connection], T]:
        """Return a function that refuses an open request by `run`, and records the refusal."""

        def both(connection: sqlite3.Connection) -> T:
            asked = connection.execute(
                "SELECT agent_id, body FROM requests WHERE request_id = ? AND answered_at IS NULL",
                (request_id,),
            ).fetchone()
            result = run(connection)
            if asked is not None:
                self.append(connection, (refused_row(asked[0], asked[1], at, problem),))
            return result

        return both

    def note_newest(self, connection: sqlite3.Connection) -> None:
        """Note the newest entry, if any was added; call it after each commit."""
        added, self._added = self._added, None
        if added is None:
            return
        # All is committed already; the check names a note that could not be written.
        with contextlib.suppress(OSError, sqlite3.Error):
            end = _tail(connection)
            if end == added and self._is_whole:
                self._kept = added  # found sound when it was added, under the same lock
            elif not self._is_sound(connection):
                return  # what was added was taken back, and the note is still to be compared
            elif _holds(connection, added):
                self._kept = added
            if end is not None:
                self.note.write(end)

    def _end(self, connection: sqlite3.Connection, at: float) -> AuditHead:
        """Return the newest entry, after recording a truncated trail."""
        end = _tail(connection) or AuditHead(0, BEGINNING)
        if (self._is_whole and end in (self._kept, self._added)) or self._is_sound(connection):
            return end
        noted = self.note.read()
        if noted is None and not end.seq:
            # Before the first entry, so that a trail without a note has lost it.
            self.note.write(end)
        found = self._cut(connection) or _difference(connection, noted, end.seq)
        if not found:
            self._compared, self._break = True, None
            self._kept = end if end.seq else None
            return end
        known = max(filter(None, (noted, self._kept)), key=lambda head: head.seq, default=None)
        # Continue after the last known entry, so that the gap stays visible.
        if known is not None and known.seq > end.seq:
            end = known
        self._break = seal(break_noted(known, at, found), end.seq + 1, end.hash)
        _insert(connection, self._break)
        return AuditHead(self._break.seq, self._break.hash)

    @property
    def _is_whole(self) -> bool:
        """Tell whether the trail was found to end as it was left."""
        return self._compared and self._break is None

    def _is_sound(self, connection: sqlite3.Connection) -> bool:
        if self._break is None:
            return self._compared and not self._cut(connection)
        # Its transaction may have been rolled back.
        if not _holds(connection, AuditHead(self._break.seq, self._break.hash)):
            return False
        told = self._kept is None or self._kept.seq < self._break.seq
        return told or not self._cut(connection)

    def _cut(self, connection: sqlite3.Connection) -> str:
        """Say which entry disappeared while we wrote; empty if none did."""
        if self._kept is None or _holds(connection, self._kept):
            return ""
        return f"entry {self._kept.seq} was taken out or changed while the runner wrote"


def _tail(connection: sqlite3.Connection) -> AuditHead | None:
    row = connection.execute(_TAIL).fetchone()
    return None if row is None else AuditHead(int(row[0]), str(row[1]))


def _holds(connection: sqlite3.Connection, head: AuditHead) -> bool:
    row = connection.execute("SELECT hash FROM audit WHERE seq = ?", (head.seq,)).fetchone()
    return row is not None and row[0] == head.hash


def _difference(connection: sqlite3.Connection, noted: AuditHead | None, seq: int) -> str:
    if noted is None:
        return "the note of the newest entry was gone" if seq else ""
    if not noted.seq:
        return ""
    if noted.seq > seq:
        return f"the note names entry {noted.seq}, but the trail ended at {seq}"
    if not _holds(connection, noted):
        return f"entry {noted.seq} was not the one that the note names"
    return ""


class SqliteTrail:
    """The trail of an open store."""

    def __init__(self, driver: Driver, audit: TrailWriter) -> None:
        self._driver = driver
        self._audit = audit

    async def append(self, acts: Sequence[Act]) -> tuple[AuditEntry, ...]:
        """Add to the end; durable when this returns."""
        return await self._driver.write(partial(self._audit.append, acts=acts))

    async def entries(
        self, *, after: int = 0, limit: int = PAGE, newest: bool = False
    ) -> tuple[AuditEntry, ...]:
        """Return entries in order; with `newest`, the last `limit` of them."""
        return await self._driver.read(
            lambda connection: _page(connection, after, limit, newest=newest)
        )

    async def newest_of(self, action: str, subject: str) -> AuditEntry | None:
        """Return the last entry of an action on a subject."""

        def read(connection: sqlite3.Connection) -> AuditEntry | None:
            row = connection.execute(
                f"SELECT {_COLUMNS} FROM audit WHERE action = ? AND subject = ? "  # noqa: S608  # our own names
                "ORDER BY seq DESC LIMIT 1",
                (action, subject),
            ).fetchone()
            return None if row is None else AuditEntry(**_named(row))

        return await self._driver.read(read)


class TrailReader:
    """Reads the trail of a database beside its writer; changes nothing."""

    def __init__(self, database: Path) -> None:
        self._database = database

    def newest(self, limit: int) -> tuple[AuditEntry, ...]:
        """Return the last entries, in order."""
        with self._opened() as connection:
            return _page(connection, 0, limit, newest=True)

    def page(
        self,
        limit: int,
        *,
        before: int | None = None,
        only: Mapping[str, str] = MappingProxyType({}),
    ) -> tuple[AuditEntry, ...]:
        """Return entries before a number, the newest first: only those with these values."""
        tests = [
            f"{name} = ?" for name in ("actor", "action", "subject", "outcome") if only.get(name)
        ]
        values: list[Any] = [only[test.partition(" ")[0]] for test in tests]
        if before is not None:
            tests.append("seq < ?")
            values.append(before)
        where = f"WHERE {' AND '.join(tests)} " if tests else ""
        with self._opened() as connection:
            rows = connection.execute(
                f"SELECT {_COLUMNS} FROM audit {where}ORDER BY seq DESC LIMIT ?",  # noqa: S608  # our own names
                (*values, limit),
            )
            return tuple(AuditEntry(**_named(row)) for row in rows)

    def verify(self) -> AuditVerdict:
        """Check the whole trail against itself and the note beside it."""
        # Read first: entries that come meanwhile are then no surprise.
        noted = read_note(note_path(self._database))
        check = AuditCheck(noted)
        with self._opened() as connection:
            rows = connection.execute(f"SELECT {_COLUMNS} FROM audit ORDER BY seq")  # noqa: S608  # our own names
            check.take(AuditEntry(**_named(row)) for row in rows)
        if noted is None and check.count and read_note(note_path(self._database)) is not None:
            return self.verify()  # the first entry came meanwhile
        return check.verdict()

    @contextlib.contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        if is_to_be_made(self._database):
            refuse_traces(self._database)
            state = "is empty" if self._database.exists() else "does not exist yet"
            raise StoreError(f"there is no audit: {self._database} {state}")
        try:
            with contextlib.closing(open_reader(self._database)) as connection:
                if not connection.execute(
                    "SELECT 1 FROM sqlite_schema WHERE name = 'audit'"
                ).fetchone():
                    raise StoreError(
                        f"{self._database} was made by an older Loopwright and holds no audit; "
                        "it is brought up to date when a loop next starts"
                    )
                yield connection
        except sqlite3.Error as problem:
            raise sqlite_file.explain(problem, self._database) from problem


def read_note(path: Path) -> AuditHead | None:
    """Return the note of the newest entry; None when there is none that can be read."""
    try:
        text, again = path.read_bytes(), path.read_bytes()
        while text != again:  # it is being written this moment
            text, again = again, path.read_bytes()
        noted = json.loads(text)
        return AuditHead(int(noted["seq"]), str(noted["hash"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _insert(connection: sqlite3.Connection, entry: AuditEntry) -> None:
    connection.execute(_INSERT, _values(entry))


def _page(
    connection: sqlite3.Connection, after: int, limit: int, *, newest: bool
) -> tuple[AuditEntry, ...]:
    order = "DESC" if newest else "ASC"
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM audit WHERE seq > ? ORDER BY seq {order} LIMIT ?",  # noqa: S608  # our own names
        (after, limit),
    ).fetchall()
    return tuple(AuditEntry(**_named(row)) for row in (reversed(rows) if newest else rows))


def _named(row: Sequence[Any]) -> dict[str, Any]:
    return dict(zip(_NAMES, row, strict=True))
