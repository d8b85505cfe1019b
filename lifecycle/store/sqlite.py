"""The lifecycle store on SQLite: one file, one writing thread, reads beside it.

Owns the database of one repository. Short reads run in the event loop on a connection of their own;
writes and long reads run in the thread. Must not decide anything about lifecycles.
"""

from __future__ import annotations

import os
import sqlite3
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from lifecycle.clock import SystemClock
from lifecycle.errors import StoreError
from lifecycle.machine.states import Coarse
from lifecycle.record import Filter, Outline
from lifecycle.store import sqlite_file, sqlite_listing
from lifecycle.store import sqlite_statements as sql
from lifecycle.store.audit_rows import audit_rows
from lifecycle.store.audit_trail import Ledger, SqliteTrail
from lifecycle.store.codec import encode
from lifecycle.store.damage import as_page, record_of, sift
from lifecycle.store.deliveries_sqlite import Flush, SqliteDeliveries
from lifecycle.store.lenient import fetch
from lifecycle.store.rows import (
    ATTEMPT_COLUMNS,
    NO_REQUEST,
    VERSION,
    attempt_row,
    check_count,
    check_limit,
    check_read,
    check_state,
    effect_rows,
    from_json,
    journal_row,
    record_row,
    row_attempt,
    row_effect,
    row_journal,
    row_request,
    stamp,
    storable,
    to_json,
)
from lifecycle.store.spending_rows import spending_row
from lifecycle.store.sqlite_spending import SqliteSpendings
from lifecycle.store.sqlite_writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from lifecycle.machine.events import Event
    from lifecycle.record import (
        AgentLifecycle,
        AgentState,
        AttemptRow,
        Commit,
        JournalEntry,
        PendingEffect,
        Request,
    )
    from lifecycle.store.damage import Damaged, Listed, Sifted

T = TypeVar("T")

_AT_REST = (Coarse.ACCEPTED, Coarse.REJECTED, Coarse.COMPLETED)
_SHORT = 100
_LONG = _SHORT + 1
"""Rows that may be read in the event loop, and a number that means more than those."""


class SqliteStore(SqliteSpendings):
    """All lifecycles of one repository; open it with `await SqliteStore.open(path)`.

    What was acknowledged survives a crash of the process. A power failure may take the last
    commits with it, never part of one; `durable=True` waits for the disk each time instead.
    """

    def __init__(
        self, path: Path, writer: Writer, clock: Callable[[], float], ledger: Ledger, flush: Flush
    ) -> None:
        self._path = path
        self._log = f"{path}-wal"
        self._writer = writer
        self._clock = clock
        self._ledger = ledger
        self.trail = SqliteTrail(path, writer, ledger)
        self.deliveries = SqliteDeliveries(writer, flush)
        self._reader: sqlite3.Connection | None = sqlite_file.open_reader(path)
        self._facts: dict[str, tuple[dict[str, Any], str]] = {}
        """The facts of what runs, as last written by a commit, and their text."""

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        clock: Callable[[], float] | None = None,
        durable: bool = False,
        patience: float = 60.0,
        anew: bool = False,
    ) -> Self:
        """Open or make the database; waits up to `patience` seconds for another process's write.

        Where records were and are lost it is made only with `anew`; else RecordsLostError says so.
        Raises StoreFromNewerVersionError, StoreDamagedError (the file was set aside; the next
        open starts afresh) or another StoreError.
        """
        connect = partial(
            sqlite_file.open_writer, path, durable=durable, patience=patience, anew=anew
        )
        ledger, flush = Ledger(path), Flush(path)

        def committed(connection: sqlite3.Connection) -> None:
            flush.committed()
            ledger.anchor(connection)

        writer = Writer(connect, partial(sqlite_file.explain, path=path), committed)
        await writer.open()
        try:
            return cls(path, writer, clock or SystemClock().now, ledger, flush)
        except sqlite3.Error as problem:
            await writer.close()
            raise sqlite_file.explain(problem, path) from problem

    async def aclose(self) -> None:
        """Write what is queued, then close; harmless when called again."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()
        await self._writer.close()
        self._ledger.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def create(self, lifecycle: AgentLifecycle) -> AgentLifecycle:
        """Add a new record; version, cursor and missing instants are filled in in place."""
        check_state(lifecycle)
        lifecycle.version = 0
        stamp(lifecycle, self._clock())
        await self._write_record(lifecycle)
        return lifecycle

    async def update(self, lifecycle: AgentLifecycle) -> AgentLifecycle:
        """Write a record read before; `version` and `updated_at` are brought up in place."""
        check_state(lifecycle)
        check_read(lifecycle)
        lifecycle.updated_at = self._clock()
        await self._write_record(lifecycle)
        return lifecycle

    async def _write_record(self, record: AgentLifecycle) -> None:
        row = record_row(record, version=record.version + 1)
        await self._writer.write(
            partial(sql.write_record, row=row), partial(_written, record, row[VERSION])
        )

    async def get(self, agent_id: str) -> AgentLifecycle | None:
        """Return the agent's record, or None; RecordDamagedError when it cannot be read."""
        rows = await self._read(1, partial(fetch, query=sqlite_listing.ONE, values=(agent_id,)))
        return record_of(rows[0]) if rows else None

    async def delete(self, agent_id: str) -> bool:
        """Remove the record and all rows around it; says whether there was one."""

        def run(connection: sqlite3.Connection) -> bool:
            gone = connection.execute("DELETE FROM lifecycles WHERE agent_id = ?", (agent_id,))
            return gone.rowcount > 0

        return await self._writer.write(run)

    async def list(
        self, which: Filter | None = None, *, cursor: int | None = None, limit: int = 50
    ) -> Listed:
        """Return a page of records, newest created first."""
        check_limit(limit)
        query = partial(sqlite_listing.page, which=which or Filter(), cursor=cursor, limit=limit)
        return await self._read(limit, lambda connection: as_page(query(connection), limit))

    async def outlines(self, states: Sequence[AgentState] = ()) -> tuple[Outline, ...]:
        """Return all records in outline, of these states or of any, the newest created first."""
        query, values = sqlite_listing.outlines(states)
        return tuple(map(Outline._make, await self._rows(_LONG, query, values)))

    async def commit(self, commit: Commit) -> None:
        """Write one decision in one transaction."""
        record = commit.record
        record.derive()
        stamp(record, self._clock())
        row = record_row(record, version=record.version + 1, facts=self._facts_of(record))
        decision = sql.Decision(
            record=row,
            journal=[journal_row(entry) for entry in commit.journal],
            effects=effect_rows(commit.effects, row[VERSION]),
            done=commit.done,
            attempt=None if commit.attempt is None else attempt_row(commit.attempt),
            spending=None if commit.spending is None else spending_row(commit.spending),
            taken=commit.taken,
            at=record.updated_at,
        )
        await self._writer.write(
            self._ledger.along(partial(sql.write_decision, decision=decision), audit_rows(commit)),
            partial(_written, record, row[VERSION]),
        )

    def _facts_of(self, record: AgentLifecycle) -> str:
        """Return the facts as text; a loop never changes them, it puts others in their place."""
        known = self._facts.get(record.agent_id)
        if known is None or known[0] is not record.facts:
            known = self._facts[record.agent_id] = (record.facts, to_json(record.facts))
        if record.state in _AT_REST:
            del self._facts[record.agent_id]
        return known[1]

    async def pending(self, agent_id: str) -> tuple[PendingEffect, ...]:
        """Return the orders not known to be carried out, oldest first."""
        rows = await self._rows(
            1,
            "SELECT agent_id, effect_id, ord, kind, body FROM outbox "
            "WHERE agent_id = ? ORDER BY ord",
            (agent_id,),
        )
        return tuple(row_effect(row) for row in rows)

    async def effects_done(self, effect_ids: Sequence[str]) -> None:
        """Mark orders as carried out that bring no event of their own."""
        await self._writer.write(partial(sql.drop_effects, effect_ids=tuple(effect_ids)))

    async def journal(
        self, agent_id: str, *, after: int = 0, limit: int = 1000, newest: bool = False
    ) -> tuple[JournalEntry, ...]:
        """Return journal entries in order; with `newest`, the last `limit` of them."""
        check_count(limit)
        query = (
            "SELECT agent_id, seq, at, kind, body, rule, before, after, late FROM journal "  # noqa: S608  # a fixed word
            f"WHERE agent_id = ? AND seq > ? ORDER BY seq {'DESC' if newest else 'ASC'} LIMIT ?"
        )

        def read(connection: sqlite3.Connection) -> tuple[JournalEntry, ...]:
            rows = fetch(connection, query, (agent_id, after, limit))
            return tuple(row_journal(row) for row in (reversed(rows) if newest else rows))

        return await self._read(limit, read)

    async def attempts(self, agent_id: str, *, limit: int | None = None) -> tuple[AttemptRow, ...]:
        """Return the ledger in order; with a limit, the last ones."""
        check_count(limit)
        rows = await self._rows(
            limit or _LONG,
            f"SELECT {', '.join(ATTEMPT_COLUMNS)} FROM attempts "  # noqa: S608  # our own column names
            "WHERE agent_id = ? ORDER BY attempt DESC LIMIT ?",
            (agent_id, -1 if limit is None else limit),
        )
        return tuple(row_attempt(row) for row in reversed(rows))

    async def ask(self, agent_id: str, event: Event) -> int:
        """Leave a request for the owner of a lifecycle; returns its id."""
        row = (agent_id, event.at, encode(event))
        return await self._writer.write(partial(sql.add_request, row=row))

    def stamp(self) -> object:
        """Return what changes with every write: commits go to the log beside the database."""
        try:
            found = os.stat(self._log)  # noqa: PTH116  # asked again and again while all is quiet
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    async def requests(self, *, after: int = 0) -> tuple[Request, ...]:
        """Return the requests nobody answered yet, oldest first."""
        rows = await self._rows(
            1,
            "SELECT request_id, agent_id, at, body FROM requests "
            "WHERE answered_at IS NULL AND request_id > ? ORDER BY request_id",
            (after,),
        )
        return tuple(row_request(row) for row in rows)

    async def answer_request(self, request_id: int, problem: str = "") -> None:
        """Close a request that led to no decision, with the reason."""
        at, problem = self._clock(), storable(problem)
        answer = partial(sql.answer, request_ids=(request_id,), at=at, problem=problem)
        if problem:
            await self._writer.write(self._ledger.refusing(answer, request_id, at, problem))
        else:
            await self._writer.write(answer)

    async def request_outcome(self, request_id: int) -> str | None:
        """Return None while it waits, '' once it was answered, else why it was refused."""
        rows = await self._rows(
            1,
            "SELECT answered_at IS NULL, problem FROM requests WHERE request_id = ?",
            (request_id,),
        )
        if not rows:
            return NO_REQUEST
        waits, problem = rows[0]
        return None if waits else str(problem)

    async def put(self, collection: str, key: str, body: dict[str, Any]) -> None:
        """Keep a document; one that is replaced keeps its place."""
        await self._writer.write(partial(sql.put_document, row=(collection, key, to_json(body))))

    async def all(self, collection: str) -> dict[str, dict[str, Any]]:
        """Return all documents of a collection, in the order they were first put."""
        rows = await self._rows(
            _LONG,
            "SELECT key, body FROM documents WHERE collection = ? ORDER BY ord",
            (collection,),
        )
        return {key: from_json(body) for key, body in rows}

    async def remove(self, collection: str, key: str) -> None:
        """Forget a document; harmless when there is none."""
        await self._writer.write(partial(sql.remove_document, collection=collection, key=key))

    async def unfinished(self) -> tuple[AgentLifecycle, ...]:
        """Return all readable records that a loop drives and that have not ended, oldest first."""
        return tuple((await self._unfinished())[0])

    async def damaged(self) -> tuple[Damaged, ...]:
        """Return what of the unfinished cannot be read."""
        return tuple((await self._unfinished())[1])

    async def _unfinished(self) -> Sifted:
        return await self._read(
            _LONG, lambda connection: sift(fetch(connection, sqlite_listing.UNFINISHED))
        )

    async def _rows(self, expected: int, query: str, values: tuple[Any, ...]) -> Sequence[Any]:
        return await self._read(expected, lambda connection: fetch(connection, query, values))

    async def _read(self, expected: int, read: Callable[[sqlite3.Connection], T]) -> T:
        """Read here if that is quick, else in the thread."""
        if self._reader is None:
            raise StoreError(f"the store on {self._path} is closed; open it again to go on")
        if expected > _SHORT:
            return await self._writer.read(read)
        try:
            return read(self._reader)
        except sqlite3.Error as problem:
            raise sqlite_file.explain(problem, self._path) from problem


def _written(record: AgentLifecycle, version: int, cursor: int) -> None:
    record.version = version
    record.cursor = cursor
