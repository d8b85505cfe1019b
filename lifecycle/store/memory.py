"""The lifecycle store in memory: for tests, benchmarks and loops whose records nobody needs later.

Keeps the same rows as the database does, so that values go through the same forms and nobody can
change what is stored by changing what was handed in or out.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, Self

from lifecycle.clock import SystemClock
from lifecycle.errors import StoreError
from lifecycle.record import Filter, Outline
from lifecycle.store.audit_rows import audit_rows, refused_row
from lifecycle.store.audit_trail import MemoryTrail
from lifecycle.store.codec import encode
from lifecycle.store.damage import as_page, record_of, sift
from lifecycle.store.deliveries_memory import MemoryDeliveries
from lifecycle.store.rows import (
    BIRTH,
    COARSE,
    COLUMNS,
    NO_REQUEST,
    TAGS,
    TASK,
    UPDATED,
    VERSION,
    WORK_KIND,
    attempt_row,
    check_count,
    check_limit,
    check_read,
    check_state,
    conflict,
    effect_rows,
    from_json,
    journal_row,
    nobody_to_ask,
    ownerless,
    record_row,
    row_attempt,
    row_effect,
    row_journal,
    row_request,
    stamp,
    storable,
    taken,
    to_json,
)
from lifecycle.store.spending_memory import MemorySpendings
from lifecycle.store.spending_rows import spending_row

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
    from lifecycle.store.rows import Row

_ENDED = ("accepted", "rejected")
_NAMES = {"state": "coarse"}
_OUTLINE = tuple(COLUMNS.index(_NAMES.get(name, name)) for name in Outline._fields)


class _Around:
    """The rows around one record."""

    def __init__(self) -> None:
        self.journal: dict[int, Row] = {}
        self.outbox: dict[str, Row] = {}
        self.attempts: dict[int, Row] = {}


class MemoryStore(MemorySpendings):
    """A `LifecycleStore` that is gone with its process."""

    def __init__(self, *, clock: Callable[[], float] | None = None) -> None:
        self._clock = clock or SystemClock().now
        self._cursors, self._request_ids = count(1), count(1)
        self._records: dict[str, Row] = {}
        self._around: dict[str, _Around] = {}
        self._requests: dict[int, Row] = {}
        self._outcomes: dict[int, str] = {}
        self._documents: dict[str, dict[str, str]] = {}
        self._spendings: dict[tuple[str, str, int], Row] = {}
        self.trail = MemoryTrail()
        self.deliveries = MemoryDeliveries(self._open)
        self._closed = False

    async def aclose(self) -> None:
        """Refuse everything from now on."""
        self._closed = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _open(self) -> None:
        if self._closed:
            raise StoreError("the store is closed; make another one to go on")

    async def create(self, lifecycle: AgentLifecycle) -> AgentLifecycle:
        """Add a new record; version, cursor and missing instants are filled in in place."""
        self._open()
        check_state(lifecycle)
        lifecycle.version = 0
        stamp(lifecycle, self._clock())
        self._write(lifecycle, self._next_row(lifecycle))
        return lifecycle

    async def update(self, lifecycle: AgentLifecycle) -> AgentLifecycle:
        """Write a record read before; `version` and `updated_at` are brought up in place."""
        self._open()
        check_state(lifecycle)
        check_read(lifecycle)
        lifecycle.updated_at = self._clock()
        self._write(lifecycle, self._next_row(lifecycle))
        return lifecycle

    def _next_row(self, record: AgentLifecycle) -> Row:
        """Return the row that shall follow, or say why it must not."""
        row = record_row(record, version=record.version + 1)
        found = self._records.get(record.agent_id)
        if found is None and record.version == 0:
            return (next(self._cursors), *row[1:])
        if found is None or (found[VERSION], found[BIRTH]) != (record.version, record.birth):
            raise conflict(row, None if found is None else found[VERSION])
        return (found[0], *row[1:])

    def _write(self, record: AgentLifecycle, row: Row) -> None:
        self._records[record.agent_id] = row
        self._around.setdefault(record.agent_id, _Around())
        record.cursor, record.version = row[0], row[VERSION]

    async def get(self, agent_id: str) -> AgentLifecycle | None:
        """Return the agent's record, or None; RecordDamagedError when it cannot be read."""
        self._open()
        row = self._records.get(agent_id)
        return None if row is None else record_of(row)

    async def delete(self, agent_id: str) -> bool:
        """Remove the record and all rows around it; says whether there was one."""
        self._open()
        self._around.pop(agent_id, None)
        for request_id in [key for key, row in self._requests.items() if row[1] == agent_id]:
            del self._requests[request_id]
            self._outcomes.pop(request_id, None)
        return self._records.pop(agent_id, None) is not None

    async def list(
        self, which: Filter | None = None, *, cursor: int | None = None, limit: int = 50
    ) -> Listed:
        """Return a page of records, newest created first."""
        self._open()
        check_limit(limit)
        fits = which or Filter()
        rows = [
            row
            for row in reversed(self._records.values())
            if (cursor is None or row[0] < cursor) and _fits(row, fits)
        ]
        return as_page(rows[: limit + 1], limit)

    async def outlines(self, states: Sequence[AgentState] = ()) -> tuple[Outline, ...]:
        """Return all records in outline, of these states or of any, the newest created first."""
        self._open()
        rows = [row for row in reversed(self._records.values()) if _is_of(row, states)]
        return tuple(Outline(*(row[place] for place in _OUTLINE)) for row in rows)

    async def commit(self, commit: Commit) -> None:
        """Write one decision wholly or not at all."""
        self._open()
        record = commit.record
        record.derive()
        stamp(record, self._clock())
        row = self._next_row(record)
        journal = [journal_row(entry) for entry in commit.journal]
        effects = effect_rows(commit.effects, row[VERSION])
        attempt = None if commit.attempt is None else attempt_row(commit.attempt)
        spending = None if commit.spending is None else spending_row(commit.spending)
        self._check(record.agent_id, journal, effects, attempt, set(commit.done))
        self._write(record, row)
        outbox = self._around[record.agent_id].outbox
        for effect_id in commit.done:
            outbox.pop(effect_id, None)
        for each in journal:
            self._around[each[0]].journal[each[1]] = each
        for each in effects:
            self._around[each[0]].outbox[each[1]] = each
        if attempt is not None:
            self._around[attempt[0]].attempts[attempt[1]] = attempt
        if spending is not None:
            self._put_spending(spending)
        for request_id in commit.taken:
            self._answer(request_id, "")
        self.trail.add(audit_rows(commit))

    def _check(
        self,
        agent_id: str,
        journal: Sequence[Row],
        effects: Sequence[Row],
        attempt: Row | None,
        done: set[str],
    ) -> None:
        """Refuse a decision before any part of it is written."""
        entries, orders = set[Any](), set[Any]()
        for each in journal:
            what = f"journal entry {each[1]} of {each[0]}"
            around = self._owner(each[0], agent_id, what)
            if each[1] in around.journal or each[:2] in entries:
                raise taken(what)
            entries.add(each[:2])
        for each in effects:
            what = f"effect {each[1]} of {each[0]}"
            around = self._owner(each[0], agent_id, what)
            if (each[1] in around.outbox and each[1] not in done) or each[:2] in orders:
                raise taken(what)
            orders.add(each[:2])
        if attempt is not None:
            self._owner(attempt[0], agent_id, f"attempt {attempt[1]} of {attempt[0]}")

    def _owner(self, named: str, writing: str, what: str) -> _Around:
        if named != writing and named not in self._around:
            raise ownerless(what)
        return self._around.get(named) or _Around()

    async def pending(self, agent_id: str) -> tuple[PendingEffect, ...]:
        """Return the orders not known to be carried out, oldest first."""
        self._open()
        rows = self._of(agent_id).outbox.values()
        return tuple(row_effect(row) for row in sorted(rows, key=lambda row: row[2]))

    async def effects_done(self, effect_ids: Sequence[str]) -> None:
        """Mark orders as carried out that bring no event of their own."""
        self._open()
        for around in self._around.values():
            for effect_id in effect_ids:
                around.outbox.pop(effect_id, None)

    async def journal(
        self, agent_id: str, *, after: int = 0, limit: int = 1000, newest: bool = False
    ) -> tuple[JournalEntry, ...]:
        """Return journal entries in order; with `newest`, the last `limit` of them."""
        self._open()
        check_count(limit)
        rows = [row for seq, row in sorted(self._of(agent_id).journal.items()) if seq > after]
        return tuple(row_journal(row) for row in (rows[-limit:] if newest else rows[:limit]))

    async def attempts(self, agent_id: str, *, limit: int | None = None) -> tuple[AttemptRow, ...]:
        """Return the ledger in order; with a limit, the last ones."""
        self._open()
        check_count(limit)
        rows = [row for _, row in sorted(self._of(agent_id).attempts.items())]
        return tuple(row_attempt(row) for row in rows[-(limit or len(rows) or 1) :])

    def _of(self, agent_id: str) -> _Around:
        return self._around.get(agent_id) or _Around()

    async def ask(self, agent_id: str, event: Event) -> int:
        """Leave a request for the owner of a lifecycle; returns its id."""
        self._open()
        if agent_id not in self._records:
            raise nobody_to_ask(agent_id)
        request_id = next(self._request_ids)
        self._requests[request_id] = (request_id, agent_id, event.at, encode(event))
        return request_id

    def stamp(self) -> object:
        """Return what changes with every request; nothing else writes from outside."""
        return next(reversed(self._requests), 0), len(self._requests)

    async def requests(self, *, after: int = 0) -> tuple[Request, ...]:
        """Return the requests nobody answered yet, oldest first."""
        self._open()
        return tuple(
            row_request(row)
            for request_id, row in self._requests.items()
            if request_id > after and request_id not in self._outcomes
        )

    async def answer_request(self, request_id: int, problem: str = "") -> None:
        """Close a request that led to no decision, with the reason."""
        self._open()
        asked = self._requests.get(request_id)
        if problem and asked is not None and request_id not in self._outcomes:
            self.trail.add((refused_row(asked[1], asked[3], self._clock(), storable(problem)),))
        self._answer(request_id, storable(problem))

    def _answer(self, request_id: int, problem: str) -> None:
        if request_id in self._requests:
            self._outcomes.setdefault(request_id, problem)

    async def request_outcome(self, request_id: int) -> str | None:
        """Return None while it waits, '' once it was answered, else why it was refused."""
        self._open()
        if request_id not in self._requests:
            return NO_REQUEST
        return self._outcomes.get(request_id)

    async def put(self, collection: str, key: str, body: dict[str, Any]) -> None:
        """Keep a document; one that is replaced keeps its place."""
        self._open()
        self._documents.setdefault(collection, {})[key] = to_json(body)

    async def all(self, collection: str) -> dict[str, dict[str, Any]]:
        """Return all documents of a collection, in the order they were first put."""
        self._open()
        documents = self._documents.get(collection, {})
        return {key: from_json(body) for key, body in documents.items()}

    async def remove(self, collection: str, key: str) -> None:
        """Forget a document; harmless when there is none."""
        self._open()
        self._documents.get(collection, {}).pop(key, None)

    async def unfinished(self) -> tuple[AgentLifecycle, ...]:
        """Return all readable records that a loop drives and that have not ended, oldest first."""
        return tuple(self._unfinished()[0])

    async def damaged(self) -> tuple[Damaged, ...]:
        """Return what of the unfinished cannot be read."""
        return tuple(self._unfinished()[1])

    def _unfinished(self) -> Sifted:
        self._open()
        return sift(
            row for row in self._records.values() if row[WORK_KIND] and row[COARSE] not in _ENDED
        )


def _is_of(row: Row, states: Sequence[AgentState]) -> bool:
    return not states or row[COARSE] in states


def _fits(row: Row, which: Filter) -> bool:
    return (
        _is_of(row, which.states)
        and (which.task_id is None or row[TASK] == which.task_id)
        and (which.updated_after is None or row[UPDATED] > which.updated_after)
        and (which.updated_before is None or row[UPDATED] < which.updated_before)
        and (not which.tags or set(which.tags) <= set(from_json(row[TAGS])))
    )
