"""The search index: a file beside the records, made from them and brought up to date from them.

It may be removed at any time. Reads the records beside their writer and never writes them. Safe to
call from several threads, one at a time.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, TypeVar

from lifecycle.errors import StoreError
from lifecycle.state_words import word_of
from lifecycle.store.reading import fetch, open_reader
from lifecycle.store.search.places import hits_on
from lifecycle.store.search.question import match_of
from lifecycle.store.search.texts import (
    KINDS,
    LONGEST,
    Texts,
    attempt_texts,
    journal_texts,
    task_texts,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from lifecycle.store.search.places import SearchHit

T = TypeVar("T")

FORM = 1
"""Of what the index holds; one of another form is made anew."""
CHUNK = 20
"""Lifecycles that are taken in by one transaction."""
_LATELY = 120.0
"""Seconds before the newest change in which the instant of a change may not tell two apart."""
_FACTS = 500
"""Facts of one lifecycle that are read, the newest."""
_SUMMARIES = 2
"""Summaries of one lifecycle that are read, the newest."""
_PATIENCE = 0.5
_NOT_YET = (0.0, 0, "")
"""Of a lifecycle that another process took in meanwhile."""
_COLUMNS = (
    "cursor", "agent_id", "task_id", "version", "created_at", "updated_at", "coarse", "work_kind",
    "work", "task", "error", "submission_summary", "tags", "changed_files", "facts",
)  # fmt: skip
_NAMES = ", ".join(KINDS)
_NEW, _OLD = (", ".join(f"{which}.{kind}" for kind in KINDS) for which in ("new", "old"))
_MAKE = f"""
CREATE TABLE known (
    cursor INTEGER PRIMARY KEY, version INTEGER, created_at REAL, updated_at REAL, state TEXT
);
CREATE TABLE texts (cursor INTEGER PRIMARY KEY, {_NAMES});
CREATE VIRTUAL TABLE fts USING fts5(
    {_NAMES}, content='texts', content_rowid='cursor',
    prefix='2 3 4 6', tokenize='unicode61 remove_diacritics 2'
);
CREATE TRIGGER texts_added AFTER INSERT ON texts BEGIN
    INSERT INTO fts (rowid, {_NAMES}) VALUES (new.cursor, {_NEW});
END;
CREATE TRIGGER texts_removed AFTER DELETE ON texts BEGIN
    INSERT INTO fts (fts, rowid, {_NAMES})
    VALUES ('delete', old.cursor, {_OLD});
END;
PRAGMA user_version = {FORM};
"""  # noqa: S608  # our own names
_NO_MODULE = (
    "this Python's SQLite has no full-text search (FTS5), so nothing can be searched here; all "
    "else works. Use a Python whose SQLite has it"
)


class SearchError(StoreError):
    """Nothing can be searched at present; no loop is the worse for it."""


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """How far the index is."""

    done: int
    of: int

    @property
    def whole(self) -> bool:
        """Whether everything is in it."""
        return self.done >= self.of


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchQuestion:
    """What is asked of the index."""

    text: str
    kinds: Collection[str] = ()
    """Only in these kinds of text."""
    states: Collection[str] = ()
    """Only lifecycles whose state has one of these words."""
    since: float | None = None
    """Only lifecycles that moved since then."""
    before: int | None = None
    """Only those older than this cursor."""
    limit: int = 20


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """A page of lifecycles, the newest first."""

    hits: tuple[SearchHit, ...]
    next: int | None
    by_state: dict[str, int]
    """All that fit, by the words for their states, whatever states were asked for."""


@dataclass(slots=True)
class _Known:
    """What the index holds, in memory."""

    taken: dict[int, tuple[float, int, str]] = field(default_factory=dict)
    """When each lifecycle moved, its version, and the word for its state."""
    marker: object = None
    """Of the records when all of them were compared last."""
    due: list[int] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)


class SearchIndex:
    """The index of one repository's records."""

    def __init__(self, database: Path, file: Path, summaries: Path) -> None:
        self._database, self._file, self._summaries = database, file, summaries
        self._lock = threading.Lock()
        self._index: sqlite3.Connection | None = None
        self._records: sqlite3.Connection | None = None
        self._known = _Known()

    def __enter__(self) -> Self:
        """Open it when it is first used."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Close both files; harmless when called again."""
        with self._lock:
            self._close()

    def catch_up(self, seconds: float = 0.0) -> IndexProgress:
        """Take in what changed, the newest first, for so long; always some of it."""
        return self._mended(lambda: self._catch_up(seconds))

    def ask(self, question: SearchQuestion) -> SearchAnswer:
        """Return what is found in what was taken in so far."""
        return self._mended(lambda: self._ask(question))

    def take_in_again(self, cursor: int) -> None:
        """Have a lifecycle taken in once more: its record is the same, and a summary came."""

        def forget() -> None:
            index, _ = self._open()
            index.execute("DELETE FROM known WHERE cursor = ?", (cursor,))
            self._known.taken.pop(cursor, None)
            self._known.marker = None

        self._mended(forget)

    # --- keeping it whole ---------------------------------------------------------------------

    def _mended(self, use: Callable[[], T]) -> T:
        """Use the index; one that is damaged is made anew, once."""
        with self._lock:
            try:
                return use()
            except sqlite3.DatabaseError as problem:
                self._close()
                if _is_busy(problem):
                    raise SearchError(
                        "another process is writing the search index; try again"
                    ) from problem
                self._check_records(problem)
                _remove(self._file)
            try:
                return use()
            except sqlite3.Error as problem:
                self._close()
                raise SearchError(_told(problem, self._file)) from problem

    def _check_records(self, found: Exception) -> None:
        """Raise SearchError if it is the records that cannot be read: the index is not to blame."""
        if not self._database.exists():
            return
        try:
            with contextlib.closing(open_reader(self._database)) as records:
                for table in ("lifecycles", "journal", "attempts"):
                    records.execute(f"SELECT count(*) FROM {table} NOT INDEXED").fetchone()  # noqa: S608  # our own names
        except sqlite3.Error:
            raise SearchError(
                f"the records cannot be read ({found}); `loopwright doctor` says more"
            ) from found

    def _close(self) -> None:
        for each in (self._index, self._records):
            if each is not None:
                each.close()
        self._index = self._records = None
        self._known = _Known()

    def _open(self) -> tuple[sqlite3.Connection, sqlite3.Connection]:
        if self._records is None:
            if not self._database.exists():
                raise SearchError("there are no records yet, so there is nothing to search")
            self._records = open_reader(self._database, any_thread=True)
        if self._index is None:
            self._index = _opened(self._file)
            rows = self._index.execute("SELECT cursor, updated_at, version, state FROM known")
            self._known = _Known({row[0]: row[1:] for row in rows})
        return self._index, self._records

    # --- taking in ----------------------------------------------------------------------------

    def _catch_up(self, seconds: float) -> IndexProgress:
        index, records = self._open()
        self._compare(records)
        known, until = self._known, time.monotonic() + seconds
        try:
            while known.due or known.gone:
                self._take_in(index, records)
                if time.monotonic() >= until:
                    break
        except sqlite3.OperationalError as problem:
            if not _is_busy(problem):
                raise  # another process takes the same in at this moment
        return IndexProgress(len(known.taken), len(known.taken) + len(known.due))

    def _compare(self, records: sqlite3.Connection) -> None:
        """Find out what changed since the last time; only by what the rows say of themselves."""
        known = self._known
        marker = records.execute("PRAGMA data_version").fetchone()[0]
        if marker == known.marker:
            return
        # Both are read off an index of the records: no row is looked at but those of late.
        now = dict(
            fetch(
                records, "SELECT cursor, updated_at FROM lifecycles INDEXED BY lifecycles_by_update"
            )
        )
        late = max(now.values(), default=0.0) - _LATELY
        versions = dict(
            fetch(records, "SELECT cursor, version FROM lifecycles WHERE updated_at >= ?", (late,))
        )
        taken = known.taken
        known.due = sorted(
            cursor
            for cursor, at in now.items()
            if (seen := taken.get(cursor)) is None
            or seen[0] != at
            or seen[1] != versions.get(cursor, seen[1])
        )
        known.gone = [cursor for cursor in taken if cursor not in now]
        # What is to be taken in again counts as missing until then.
        for cursor in known.due:
            taken.pop(cursor, None)
        known.marker = marker

    def _take_in(self, index: sqlite3.Connection, records: sqlite3.Connection) -> None:
        """Take a few in, the newest first, by one transaction."""
        known = self._known
        some, gone = known.due[-CHUNK:], known.gone[:1000]
        rows = self._read(records, some)
        index.execute("BEGIN IMMEDIATE")
        try:
            for cursor in (*some, *gone):
                index.execute("DELETE FROM texts WHERE cursor = ?", (cursor,))
                index.execute("DELETE FROM known WHERE cursor = ?", (cursor,))
            marks = ", ".join("?" * len(KINDS))
            index.executemany(
                f"INSERT INTO texts VALUES (?, {marks})",  # noqa: S608  # question marks
                [(row["cursor"], *columns) for row, columns in rows],
            )
            index.executemany(
                "INSERT INTO known VALUES (?, ?, ?, ?, ?)",
                [
                    (
                        row["cursor"],
                        row["version"],
                        row["created_at"],
                        row["updated_at"],
                        _word(row),
                    )
                    for row, _ in rows
                ],
            )
            index.execute("COMMIT")
        except BaseException:
            if index.in_transaction:
                index.execute("ROLLBACK")
            raise
        del known.due[-CHUNK:], known.gone[:1000]
        for cursor in gone:
            known.taken.pop(cursor, None)
        for row, _ in rows:
            known.taken[row["cursor"]] = row["updated_at"], row["version"], _word(row)

    def _read(
        self, records: sqlite3.Connection, cursors: Sequence[int]
    ) -> list[tuple[dict[str, Any], list[str]]]:
        marks = ", ".join("?" * len(cursors))
        found = fetch(
            records,
            f"SELECT {', '.join(_COLUMNS)} FROM lifecycles WHERE cursor IN ({marks})",  # noqa: S608  # our own text
            list(cursors),
        )
        rows = [dict(zip(_COLUMNS, each, strict=True)) for each in found]
        return [(row, self._texts(records, row).columns()) for row in rows]

    def _texts(self, records: sqlite3.Connection, row: dict[str, Any]) -> Texts:
        texts, agent_id = Texts(), row["agent_id"]
        query = "SELECT body FROM journal WHERE agent_id = ? ORDER BY seq DESC LIMIT ?"
        for (body,) in reversed(fetch(records, query, (agent_id, _FACTS))):
            journal_texts(texts, body)
        query = (
            "SELECT attempt, summary, error, report FROM attempts WHERE agent_id = ? "
            "ORDER BY attempt DESC LIMIT ?"
        )
        for each in reversed(fetch(records, query, (agent_id, _FACTS))):
            names = ("attempt", "summary", "error", "report")
            attempt_texts(texts, dict(zip(names, each, strict=True)))
        texts.add("words", row["submission_summary"])
        for number, text in _newest_summaries(self._summaries / agent_id):
            texts.add("summary", text, number)
        task_texts(texts, row)
        return texts

    # --- asking -------------------------------------------------------------------------------

    def _ask(self, question: SearchQuestion) -> SearchAnswer:
        index, _ = self._open()
        match = match_of(question.text, question.kinds)
        if not match:
            return SearchAnswer((), None, {})
        # Each evaluation of the question costs the same, however little of it is wanted: so there
        # are two, one for all that fit, and one for the texts of a page.
        fitting = index.execute("SELECT rowid FROM fts WHERE fts MATCH ?", (match,)).fetchall()
        by_state: dict[str, int] = {}
        found = list[int]()
        for (cursor,) in fitting:
            at, _, word = self._known.taken.get(cursor, _NOT_YET)
            if at < (question.since or 0.0):
                continue
            by_state[word] = by_state.get(word, 0) + 1
            older = question.before is None or cursor < question.before
            if older and (not question.states or word in question.states):
                found.append(cursor)
        found.sort(reverse=True)
        page = found[: question.limit]
        more = page[-1] if len(found) > question.limit else None
        return SearchAnswer(hits_on(index, match, page), more, by_state)


def _word(row: dict[str, Any]) -> str:
    """Return the word for a state, as if a runner were alive."""
    fields: dict[str, Any] = {}
    if row["work_kind"] == "Rejected" and '"reason":"person"' in (row["work"] or ""):
        fields["reason"] = "person"
    try:
        return word_of(row["work_kind"], fields, row["coarse"])
    except KeyError:
        return "needs you"


def _newest_summaries(folder: Path) -> list[tuple[int, str]]:
    """Return what the newest attempts were told, the oldest of them first."""
    try:
        names = [each for each in os.listdir(folder) if each.endswith(".md")]  # noqa: PTH208  # one call
    except OSError:
        return []
    numbers = sorted({int(each[:-3]) for each in names if each[:-3].isdecimal()})[-_SUMMARIES:]
    found = []
    for number in numbers:
        with contextlib.suppress(OSError):
            edited = folder / f"{number}.edited.md"
            path = edited if edited.exists() else folder / f"{number}.md"
            with path.open(errors="replace") as stream:
                found.append((number, stream.read(LONGEST["summary"])))
    return found


def _opened(file: Path) -> sqlite3.Connection:
    """Open the index, or begin an empty one for its owner alone."""
    try:
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    except OSError as problem:
        raise SearchError(f"{file} cannot be written ({problem.strerror})") from problem
    index = sqlite3.connect(file, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
    try:
        index.execute("PRAGMA journal_mode = WAL")
        # Nothing is lost with it: what it does not hold is taken in again.
        index.execute("PRAGMA synchronous = OFF")
        found = index.execute("PRAGMA user_version").fetchone()[0]
        if found == FORM:
            return index
        if found or index.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
            index.close()
            _remove(file)
            return _opened(file)
        index.executescript(f"BEGIN IMMEDIATE; {_MAKE} COMMIT;")
    except BaseException:
        index.close()
        raise
    return index


def _remove(file: Path) -> None:
    for end in ("", "-wal", "-shm"):
        with contextlib.suppress(OSError):
            file.with_name(file.name + end).unlink()


def _is_busy(problem: sqlite3.Error) -> bool:
    code = getattr(problem, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _told(problem: sqlite3.Error, file: Path) -> str:
    if "no such module" in str(problem):
        return _NO_MODULE
    return (
        f"the search index {file} cannot be used ({problem}); remove it and search again. "
        "The records themselves are not affected"
    )
