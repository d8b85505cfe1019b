"""The lifecycle store on SQLite: the records of one repository in a file, or in memory.

Owns what is written and read; where that runs is the driver's business. Must not decide anything
about lifecycles.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from lifecycle.clock import SystemClock
from lifecycle.errors import StoreFromNewerVersionError
from lifecycle.json_form import encode
from lifecycle.machine.states import AgentState
from lifecycle.plan import checked_name
from lifecycle.record import AgentLifecycle, Filter, Outline, Reply
from lifecycle.store.damaged_records import as_page, record_of, sift
from lifecycle.store.reading import fetch
from lifecycle.store.rows.audit import audit_rows
from lifecycle.store.rows.records import (
    ATTEMPT_COLUMNS,
    MAX_PAGE,
    NO_REQUEST,
    VERSION,
    attempt_row,
    check_count,
    check_limit,
    check_read,
    check_state,
    effect_rows,
    fill_times,
    from_json,
    journal_row,
    record_row,
    row_attempt,
    row_effect,
    row_journal,
    row_request,
    storable,
    to_json,
)
from lifecycle.store.sqlite import listing
from lifecycle.store.sqlite import statements as sql
from lifecycle.store.sqlite.audit_trail import FileNote, MemoryNote, SqliteTrail, TrailWriter
from lifecycle.store.sqlite.deliveries import Flush, SqliteDeliveries
from lifecycle.store.sqlite.driver import MANY, FileDriver, MemoryDriver
from lifecycle.store.sqlite.notifications import SqliteNotifications
from lifecycle.store.sqlite.spending import spending_row
from lifecycle.store.sqlite.transfers import SqliteTransfers
from lifecycle.store.sqlite.workers import SqliteWorkers

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import AsyncIterator, Callable, Sequence

    from lifecycle.machine.events import Event
    from lifecycle.record import (
        AttemptRow,
        JournalEntry,
        OperatorRequest,
        PendingEffect,
        Transaction,
    )
    from lifecycle.store.damaged_records import Damaged, Listed, Sifted
    from lifecycle.store.sqlite.driver import Driver
    from lifecycle.store.sqlite.instances import SqliteInstances

_AT_REST = (AgentState.ACCEPTED, AgentState.REJECTED, AgentState.COMPLETED)


class SqliteStore(SqliteTransfers):
    """All lifecycles of one repository; open it with `await SqliteStore.open(path)`.

    All methods are safe to call from many tasks of one event loop.

    What was acknowledged survives a crash of the process. A power failure may take the last
    commits with it, never part of one; `durable=True` waits for the disk each time instead.
    """

    def __init__(
        self, driver: Driver, clock: Callable[[], float] | None, audit: TrailWriter, flush: Flush
    ) -> None:
        self._driver = driver
        self._clock = clock or SystemClock().now
        self._audit = audit
        self.trail = SqliteTrail(driver, audit)
        """The audit; what a decision adds to it is written with the decision."""
        self.deliveries = SqliteDeliveries(driver, flush)
        """Webhook requests; one that was added survives a power failure, too."""
        self.notifications = SqliteNotifications(driver)
        """What people are told, stored before it is sent."""
        self.workers = SqliteWorkers(driver)
        """The machines that take work, where there are others than this one."""
        self._facts: dict[str, tuple[dict[str, Any], str]] = {}
        """The facts of what runs, as last written by a commit, and their text."""

    @cached_property
    def instances(self) -> SqliteInstances:
        """Instances of agents; attempts of loops are read off the ledger."""
        from lifecycle.store.sqlite.instances import SqliteInstances  # noqa: PLC0415  # few commands want any

        return SqliteInstances(self._driver)

    @classmethod
    async def open(
        cls,
        path: Path | str,
        *,
        clock: Callable[[], float] | None = None,
        durable: bool = False,
        patience: float = 60.0,
        anew: bool = False,
    ) -> Self:
        """Open or make the database; waits up to `patience` seconds for another process's write.

        Where records are lost it is created only with `anew`; else RecordsLostError is raised.
        Raises StoreFromNewerVersionError, StoreDamagedError (the file was set aside; the next
        open starts afresh) or another StoreError.
        """
        path = Path(path)
        audit, flush = TrailWriter(FileNote(path)), Flush(path)
        driver = await FileDriver.open(
            path,
            durable=durable,
            patience=patience,
            anew=anew,
            committed=partial(_committed, audit, flush),
        )
        return cls(driver, clock, audit, flush)

    @classmethod
    def in_memory(cls, *, clock: Callable[[], float] | None = None) -> Self:
        """Create a store in memory, for callers that need no records later.

        It has no thread: its statements run where they are asked for, in any event loop.
        """
        audit, flush = TrailWriter(MemoryNote()), Flush(None)
        return cls(MemoryDriver(partial(_committed, audit, flush)), clock, audit, flush)

    async def aclose(self) -> None:
        """Write what is queued, then close; harmless when called again."""
        await self._driver.close()
        self._audit.note.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def create(self, lifecycle: AgentLifecycle) -> AgentLifecycle:
        """Add a new record; ConflictingUpdateError if the agent has one.

        Version, cursor and missing instants are filled in in place.
        """
        check_state(lifecycle)
        lifecycle.version = 0
        fill_times(lifecycle, self._clock())
        await self._write_record(lifecycle)
        return lifecycle

    async def create_next(self, lifecycle: AgentLifecycle, after: AgentLifecycle) -> AgentLifecycle:
        """Add a new record of an agent whose present one is over and becomes an earlier one.

        That has `after.earlier_id` from then on, as have its journal, ledger and requests; what it
        ordered and was not carried out is dropped. ConflictingUpdateError if it was changed.
        """
        check_state(lifecycle)
        lifecycle.version = 0
        fill_times(lifecycle, self._clock())
        old, row = record_row(after, version=after.version), record_row(lifecycle, version=1)
        write = partial(sql.write_next, old=old, earlier_id=after.earlier_id, row=row)
        await self._driver.write(write, partial(_written, lifecycle, row[VERSION]))
        return lifecycle

    async def update(self, lifecycle: AgentLifecycle) -> AgentLifecycle:
        """Write a record read before; ConflictingUpdateError if somebody wrote it meanwhile.

        `version` and `updated_at` are brought up in place. IllegalStateChangeError where no loop
        drives the record and its state cannot follow the stored one.
        """
        check_state(lifecycle)
        check_read(lifecycle)
        lifecycle.updated_at = self._clock()
        await self._write_record(lifecycle)
        return lifecycle

    async def _write_record(self, record: AgentLifecycle) -> None:
        row = record_row(record, version=record.version + 1)
        await self._driver.write(
            partial(sql.write_record, row=row), partial(_written, record, row[VERSION])
        )

    async def get(self, agent_id: str) -> AgentLifecycle | None:
        """Return the agent's record, or None; RecordDamagedError when it cannot be read."""
        rows = await self._rows(1, listing.ONE, (agent_id,))
        return record_of(rows[0]) if rows else None

    async def delete(self, agent_id: str) -> bool:
        """Remove the record and all rows around it; return whether there was one."""

        def run(connection: sqlite3.Connection) -> bool:
            gone = connection.execute("DELETE FROM lifecycles WHERE agent_id = ?", (agent_id,))
            return gone.rowcount > 0

        return await self._driver.write(run)

    async def create_lifecycle(self, agent_id: str, task: str) -> AgentLifecycle:
        """Add the record of a queued agent that no loop drives."""
        return await self.create(AgentLifecycle(agent_id=checked_name(agent_id), task=task))

    get_lifecycle = get
    update_lifecycle = update
    delete_lifecycle = delete

    async def list(
        self, which: Filter | None = None, *, cursor: int | None = None, limit: int = 50
    ) -> Listed:
        """Return a page of records, newest created first, by keyset (limit 1 to 1000).

        Records that cannot be read are named in its `damaged`, and keep no other from being read.
        """
        check_limit(limit)
        which = which or Filter()

        def read(connection: sqlite3.Connection) -> Listed:
            return as_page(listing.page(connection, which, cursor, limit), limit)

        rows = MANY if listing.is_timed(which) else limit
        return await self._driver.read(read, rows=rows)

    async def every(self, which: Filter | None = None) -> AsyncIterator[AgentLifecycle]:
        """Yield all readable records that match, newest first."""
        async for page in self.pages(which):
            for record in page.records:
                yield record

    async def pages(self, which: Filter | None = None) -> AsyncIterator[Listed]:
        """Yield all pages, with their damaged records."""
        cursor: int | None = None
        while True:
            page = await self.list(which, cursor=cursor, limit=MAX_PAGE)
            yield page
            cursor = page.next_cursor
            if cursor is None:
                return

    async def plans(self) -> Sequence[Any]:
        """Return rows of plan, coarse and work state with its fields, count, first and last."""
        return await self._driver.read(lambda connection: fetch(connection, listing.PLANS))

    async def earlier(self, agent_id: str) -> tuple[str, ...]:
        """Return the ids of an agent's earlier lifecycles, the newest first."""
        page = await self.list(Filter(earlier_of=agent_id), limit=MAX_PAGE)
        return tuple(each.agent_id for each in sorted(page.named, key=_cursor, reverse=True))

    async def outlines(self, states: Sequence[AgentState] = ()) -> tuple[Outline, ...]:
        """Return all records in outline, of these states or of any, the newest created first."""
        query, values = listing.outlines(states)
        return tuple(map(Outline._make, await self._rows(MANY, query, values)))

    async def commit(self, commit: Transaction) -> None:
        """Write one decision in one transaction.

        Creates the record if its version is 0 and none exists; raises ConflictingUpdateError if
        the stored version differs from the one in `commit.record`. On success the record's
        `version` and `updated_at` are counted up in place (`updated_at` is the caller's).
        """
        record = commit.record
        record.derive()
        fill_times(record, self._clock())
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
        await self._driver.write(
            self._audit.together(
                partial(sql.write_decision, decision=decision), audit_rows(commit)
            ),
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
        """Return the effects not known to be performed, oldest first."""
        rows = await self._rows(
            1,
            sql.PENDING,
            (agent_id,),
        )
        return tuple(row_effect(row) for row in rows)

    async def effects_done(self, effect_ids: Sequence[str]) -> None:
        """Mark effects as performed that produce no event of their own."""
        await self._driver.write(partial(sql.drop_effects, effect_ids=tuple(effect_ids)))

    async def journal(
        self, agent_id: str, *, after: int = 0, limit: int = 1000, newest: bool = False
    ) -> tuple[JournalEntry, ...]:
        """Return journal entries in order; with `newest`, the last `limit` of them."""
        check_count(limit)
        order = "DESC" if newest else "ASC"
        query = f"{sql.JOURNAL} AND seq > ? ORDER BY seq {order} LIMIT ?"

        def read(connection: sqlite3.Connection) -> tuple[JournalEntry, ...]:
            rows = fetch(connection, query, (agent_id, after, limit))
            return tuple(row_journal(row) for row in (reversed(rows) if newest else rows))

        return await self._driver.read(read, rows=limit)

    async def attempts(self, agent_id: str, *, limit: int | None = None) -> tuple[AttemptRow, ...]:
        """Return the ledger in order; with a limit, the last ones."""
        check_count(limit)
        rows = await self._rows(
            limit or MANY,
            f"SELECT {', '.join(ATTEMPT_COLUMNS)} FROM attempts "  # noqa: S608  # our own column names
            "WHERE agent_id = ? ORDER BY attempt DESC LIMIT ?",
            (agent_id, -1 if limit is None else limit),
        )
        return tuple(row_attempt(row) for row in reversed(rows))

    async def ask(self, agent_id: str | None, event: Event) -> int:
        """Leave a request for the owner of a lifecycle, or for the runner; returns its id."""
        row = (agent_id, event.at, encode(event))
        return await self._driver.write(partial(sql.add_request, row=row))

    def change_marker(self) -> object:
        """Return a value that changes with every write by any process; cheap to call.

        Two writes at the same instant may leave the same marker.
        """
        return self._driver.change_marker()

    async def requests(self, *, after: int = 0) -> tuple[OperatorRequest, ...]:
        """Return the unanswered requests, oldest first.

        One of a kind that only a later version knows is left for that: it hides no other.
        """
        rows = await self._rows(1, sql.OPEN_REQUESTS, (after,))
        found: list[OperatorRequest] = []
        for row in rows:
            with suppress(StoreFromNewerVersionError):
                found.append(row_request(row))
        return tuple(found)

    async def begin_request(self, request_id: int) -> None:
        """Record that a request is being carried out, which may take long."""
        begin = partial(sql.begin_request, request_id=request_id, at=self._clock())
        await self._driver.write(begin)

    async def answer_request(self, request_id: int, problem: str = "", text: str = "") -> None:
        """Close a request that led to no decision, with the reason or the result."""
        at, problem = self._clock(), storable(problem)
        answer = partial(
            sql.answer, request_ids=(request_id,), at=at, problem=problem, text=storable(text)
        )
        if problem:
            await self._driver.write(self._audit.refusing(answer, request_id, at, problem))
        else:
            await self._driver.write(answer)

    async def request_outcome(self, request_id: int) -> str | None:
        """Return None while it waits, '' once it was answered, else why it was refused."""
        found = await self.reply(request_id)
        return found.problem if found.answered else None

    async def reply(self, request_id: int) -> Reply:
        """Return the state of a request."""
        rows = await self._rows(1, sql.REPLY, (request_id,))
        if not rows:
            return Reply(begun=False, answered=True, problem=NO_REQUEST)
        begun, answered, problem, text = rows[0]
        return Reply(
            begun=bool(begun), answered=bool(answered), problem=str(problem), text=str(text)
        )

    async def put(self, collection: str, key: str, body: dict[str, Any]) -> None:
        """Store a document of another part of the program, such as local CI.

        One that is replaced keeps its place.
        """
        await self._driver.write(partial(sql.put_document, row=(collection, key, to_json(body))))

    async def all(self, collection: str) -> dict[str, dict[str, Any]]:
        """Return all documents of a collection, in the order they were first put."""
        rows = await self._rows(
            MANY,
            "SELECT key, body FROM documents WHERE collection = ? ORDER BY ord",
            (collection,),
        )
        return {key: from_json(body) for key, body in rows}

    async def remove(self, collection: str, key: str) -> None:
        """Delete a document; harmless when there is none."""
        await self._driver.write(partial(sql.remove_document, collection=collection, key=key))

    async def unfinished(self) -> tuple[AgentLifecycle, ...]:
        """Return all readable records that a loop drives and that have not ended, oldest first."""
        return tuple((await self._unfinished())[0])

    async def damaged(self) -> tuple[Damaged, ...]:
        """Return the unfinished records that cannot be read; nothing ever changes them."""
        return tuple((await self._unfinished())[1])

    async def _unfinished(self) -> Sifted:
        return await self._driver.read(lambda each: sift(fetch(each, listing.UNFINISHED)))

    async def _rows(self, rows: int, query: str, values: tuple[Any, ...]) -> Sequence[Any]:
        return await self._driver.read(lambda each: fetch(each, query, values), rows=rows)


def _committed(audit: TrailWriter, flush: Flush, connection: sqlite3.Connection) -> None:
    flush.committed()
    audit.note_newest(connection)


def _cursor(found: AgentLifecycle | Damaged) -> int:
    return found.cursor


def _written(record: AgentLifecycle, version: int, cursor: int) -> None:
    record.version = version
    record.cursor = cursor
