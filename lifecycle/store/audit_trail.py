"""The audit's trail in the database, its newest entry noted in a file beside it; and in memory.

Entries are sealed in the writing thread, in the transaction of the decision that they tell of. The
note is written after each commit, so it is never ahead of the trail.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from lifecycle.audit import BEGINNING, PAGE, Act, AuditEntry, Check, Head, break_noted, seal
from lifecycle.errors import StoreError
from lifecycle.store import sqlite_file
from lifecycle.store.audit_rows import refused_row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from lifecycle.audit import Verdict
    from lifecycle.store.sqlite_writer import Writer

T = TypeVar("T")

_COLUMNS = "seq, at, actor, action, subject, outcome, reason, details, prev_hash, hash"
_INSERT = f"INSERT INTO audit ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608  # our own names
_TAIL = "SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1"
_NOTE_LENGTH = 128
"""Bytes, always all of them: a note is written over the last one in one piece."""


def note_path(database: Path) -> Path:
    """Return where the newest entry is noted."""
    return database.with_name(f"{database.name}-audit")


class Ledger:
    """Adds to the trail of one database. Lives in the writing thread; holds one open file.

    A note that cannot be written fails the first entry; later ones only fall behind.
    """

    def __init__(self, database: Path) -> None:
        self._path = note_path(database)
        self._note: int | None = None
        self._compared = False
        """Whether the trail was found to end as it was left."""
        self._break: AuditEntry | None = None
        """The entry that tells how it was not."""
        self._added: Head | None = None
        """What was added last; its transaction may have been rolled back."""
        self._kept: Head | None = None
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
            end = Head(entry.seq, entry.hash)
        self._added = end
        return tuple(entries)

    def along(
        self, run: Callable[[sqlite3.Connection], T], acts: Sequence[Act]
    ) -> Callable[[sqlite3.Connection], T]:
        """Return what does `run` and holds the acts with it, both or neither."""
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
        """Return what does `run`, which refuses an open request, and holds the refusal with it."""

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

    def anchor(self, connection: sqlite3.Connection) -> None:
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
                self._write(end)

    def close(self) -> None:
        """Close the file; harmless when called again."""
        note, self._note = self._note, None
        if note is not None:
            os.close(note)

    def _end(self, connection: sqlite3.Connection, at: float) -> Head:
        """Return the newest entry, after noting a trail that was cut off."""
        end = _tail(connection) or Head(0, BEGINNING)
        if (self._is_whole and end in (self._kept, self._added)) or self._is_sound(connection):
            return end
        noted = read_note(self._path)
        if noted is None and not end.seq:
            # Before the first entry, so that a trail without a note has lost it.
            self._write(end)
        found = self._cut(connection) or _difference(connection, noted, end.seq)
        if not found:
            self._compared, self._break = True, None
            self._kept = end if end.seq else None
            return end
        known = max(filter(None, (noted, self._kept)), key=lambda head: head.seq, default=None)
        # Begun anew behind what was there, so that the gap stays to be seen.
        if known is not None and known.seq > end.seq:
            end = known
        self._break = seal(break_noted(known, at, found), end.seq + 1, end.hash)
        _insert(connection, self._break)
        return Head(self._break.seq, self._break.hash)

    def _write(self, head: Head) -> None:
        if self._note is None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self._note = os.open(self._path, flags, 0o600)
        text = json.dumps({"seq": head.seq, "hash": head.hash})
        os.pwrite(self._note, f"{text:<{_NOTE_LENGTH - 1}}\n".encode(), 0)

    @property
    def _is_whole(self) -> bool:
        """Tell whether the trail was found to end as it was left."""
        return self._compared and self._break is None

    def _is_sound(self, connection: sqlite3.Connection) -> bool:
        if self._break is None:
            return self._compared and not self._cut(connection)
        # Its transaction may have been rolled back.
        if not _holds(connection, Head(self._break.seq, self._break.hash)):
            return False
        told = self._kept is None or self._kept.seq < self._break.seq
        return told or not self._cut(connection)

    def _cut(self, connection: sqlite3.Connection) -> str:
        """Tell that what was there while we wrote is there no more; empty when it is."""
        if self._kept is None or _holds(connection, self._kept):
            return ""
        return f"entry {self._kept.seq} was taken out or changed while the runner wrote"


def _tail(connection: sqlite3.Connection) -> Head | None:
    row = connection.execute(_TAIL).fetchone()
    return None if row is None else Head(int(row[0]), str(row[1]))


def _holds(connection: sqlite3.Connection, head: Head) -> bool:
    row = connection.execute("SELECT hash FROM audit WHERE seq = ?", (head.seq,)).fetchone()
    return row is not None and row[0] == head.hash


def _difference(connection: sqlite3.Connection, noted: Head | None, seq: int) -> str:
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

    def __init__(self, database: Path, writer: Writer, ledger: Ledger) -> None:
        self._path = note_path(database)
        self._writer = writer
        self._ledger = ledger

    async def append(self, acts: Sequence[Act]) -> tuple[AuditEntry, ...]:
        """Add to the end; returned means kept."""
        return await self._writer.write(partial(self._ledger.append, acts=acts))

    async def entries(
        self, *, after: int = 0, limit: int = PAGE, newest: bool = False
    ) -> tuple[AuditEntry, ...]:
        """Return entries in order; with `newest`, the last `limit` of them."""
        return await self._writer.read(
            lambda connection: _page(connection, after, limit, newest=newest)
        )

    def head(self) -> Head | None:
        """Return the note beside the trail."""
        return read_note(self._path)


class MemoryTrail:
    """A trail that is gone with its process."""

    def __init__(self) -> None:
        self._entries: list[AuditEntry] = []

    def add(self, acts: Sequence[Act]) -> tuple[AuditEntry, ...]:
        """Add to the end."""
        for act in acts:
            last = self._entries[-1].hash if self._entries else BEGINNING
            self._entries.append(seal(act, len(self._entries) + 1, last))
        return tuple(self._entries[len(self._entries) - len(acts) :])

    async def append(self, acts: Sequence[Act]) -> tuple[AuditEntry, ...]:
        """Add to the end."""
        return self.add(acts)

    async def entries(
        self, *, after: int = 0, limit: int = PAGE, newest: bool = False
    ) -> tuple[AuditEntry, ...]:
        """Return entries in order; with `newest`, the last `limit` of them."""
        found = self._entries[after:]
        return tuple(found[-limit:] if newest else found[:limit])

    def head(self) -> Head | None:
        """Return the newest entry; nobody can cut it off here."""
        return Head(len(self._entries), self._entries[-1].hash) if self._entries else None


class TrailReader:
    """Looks at the trail of a database, whoever writes it; changes nothing."""

    def __init__(self, database: Path) -> None:
        self._database = database

    def newest(self, limit: int) -> tuple[AuditEntry, ...]:
        """Return the last entries, in order."""
        with self._opened() as connection:
            return _page(connection, 0, limit, newest=True)

    def verify(self) -> Verdict:
        """Check the whole trail against itself and the note beside it."""
        # Read first: entries that come meanwhile are then no surprise.
        noted = read_note(note_path(self._database))
        check = Check(noted)
        with self._opened() as connection:
            rows = connection.execute(f"SELECT {_COLUMNS} FROM audit ORDER BY seq")  # noqa: S608  # our own names
            check.take(AuditEntry(**_named(row)) for row in rows)
        if noted is None and check.count and read_note(note_path(self._database)) is not None:
            return self.verify()  # the first entry came meanwhile
        return check.verdict()

    @contextlib.contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        if sqlite_file.is_to_be_made(self._database):
            sqlite_file.refuse_traces(self._database)
            state = "is empty" if self._database.exists() else "does not exist yet"
            raise StoreError(f"there is no audit: {self._database} {state}")
        try:
            with contextlib.closing(sqlite_file.open_reader(self._database)) as connection:
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


def read_note(path: Path) -> Head | None:
    """Return the note of the newest entry; None when there is none that can be read."""
    try:
        text, again = path.read_bytes(), path.read_bytes()
        while text != again:  # it is being written this moment
            text, again = again, path.read_bytes()
        noted = json.loads(text)
        return Head(int(noted["seq"]), str(noted["hash"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _insert(connection: sqlite3.Connection, entry: AuditEntry) -> None:
    connection.execute(
        _INSERT,
        (
            entry.seq, entry.at, entry.actor, entry.action, entry.subject, entry.outcome,
            entry.reason, entry.details, entry.prev_hash, entry.hash,
        ),
    )  # fmt: skip


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
    return dict(zip(_COLUMNS.split(", "), row, strict=True))
