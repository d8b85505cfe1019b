"""Deliveries in the database, with bodies packed where that saves room.

Deliveries that wait together are committed together and wait for the disk together. Must not know
what a delivery means.
"""

from __future__ import annotations

import os
import zlib
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ci.webhook_delivery import BATCH_BYTES, Delivery, DeliveryState, Hint
from lifecycle.errors import StoreDamagedError, StoreError
from lifecycle.store.rows.records import check_count, check_limit, from_json, storable, to_json

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from pathlib import Path

    from lifecycle.store.rows.records import Row
    from lifecycle.store.sqlite.driver import Driver

HEAD_COLUMNS = (
    "cursor", "key", "provider", "event", "received_at", "state", "outcome", "hint", "settled_at",
    "headers",
)  # fmt: skip
"""All but the body."""
COLUMNS = (*HEAD_COLUMNS, "packed", "body")
_WORTH_PACKING = 512
"""Bytes from which on packing a body is tried."""
_QUICK = 1
"""Of zlib's levels the one that costs least: a forge's JSON shrinks to a fourth by it as well."""
_LAST = "\U0010ffff"
_PRUNED_AT_ONCE = 500
"""Rows per transaction, so that the cleanup does not delay other writes."""
_ALL, _HEAD = ", ".join(COLUMNS), ", ".join(HEAD_COLUMNS)
_INSERT = (
    f"INSERT INTO deliveries ({', '.join(COLUMNS[1:])}) "  # noqa: S608  # our own column names
    f"VALUES ({', '.join('?' * len(COLUMNS[1:]))}) ON CONFLICT (key) DO NOTHING"
)
_ONE = f"SELECT {_ALL} FROM deliveries WHERE key = ?"  # noqa: S608  # as above
WAITING = "SELECT cursor, key FROM deliveries WHERE state = 'received' ORDER BY cursor LIMIT ?"
COUNTS = (
    "SELECT provider, state, count(*), max(received_at) FROM deliveries GROUP BY provider, state"
)
AT = f"SELECT {_ALL} FROM deliveries WHERE cursor = ?"  # noqa: S608  # as above
UNMATCHED = f"SELECT {_HEAD} FROM deliveries WHERE state = 'unmatched' ORDER BY cursor LIMIT ?"  # noqa: S608  # as above
KEYS = "SELECT key FROM deliveries WHERE key >= ? AND key < ? ORDER BY key LIMIT ?"
SETTLE = (
    "UPDATE deliveries SET state = ?, outcome = ?, settled_at = ?, hint = coalesce(?, hint) "
    "WHERE key = ?"
)
PRUNE = (
    "DELETE FROM deliveries WHERE cursor IN (SELECT cursor FROM deliveries "
    "WHERE received_at < ? AND state <> 'received' LIMIT ?)"
)
PRUNE_IGNORED = (
    "DELETE FROM deliveries WHERE received_at < ? AND cursor IN (SELECT cursor FROM deliveries "
    "WHERE state = 'ignored' ORDER BY cursor LIMIT ?)"
)
_sync = getattr(os, "fdatasync", os.fsync)


@dataclass(slots=True)
class _Added:
    fresh: bool
    problem: str = ""


class Flush:
    """Brings added deliveries to the disk after their commit, where the database is a file.

    A forge does not send again what was answered, so a delivery must outlast a power failure,
    which the store alone does not promise of its last commits.
    """

    def __init__(self, database: Path | None) -> None:
        self._log = None if database is None else f"{database}-wal"
        self._added: list[_Added] = []

    def add(self, connection: sqlite3.Connection, row: Row) -> _Added:
        """Insert a row, unless its key is known."""
        added = _Added(connection.execute(_INSERT, packed(row)).rowcount > 0)
        # Known ones too: who added them first may not have reached the disk.
        self._added.append(added)
        return added

    def committed(self) -> None:
        """Wait for the disk, if anything was added; call it after each commit."""
        added, self._added = self._added, []
        if not added or self._log is None:
            return
        try:
            # SQLite holds its locks on other files, so closing this one takes none away.
            handle = os.open(self._log, os.O_RDONLY | os.O_CLOEXEC)
            try:
                _sync(handle)
            finally:
                os.close(handle)
        except OSError as problem:
            for each in added:
                each.problem = (
                    f"the delivery may not have reached the disk: {self._log}: "
                    f"{problem.strerror}; check the disk"
                )


class SqliteDeliveries:
    """The deliveries of an open store."""

    def __init__(self, driver: Driver, flush: Flush) -> None:
        self._driver = driver
        self._flush = flush

    async def add(self, delivery: Delivery) -> bool:
        """Store it; return False, without a change, if its key is already known."""
        added = await self._driver.write(partial(self._flush.add, row=delivery_row(delivery)))
        if added.problem:
            raise StoreError(added.problem)
        return added.fresh

    async def waiting(
        self, *, limit: int = 100, without: Collection[str] = (), most_bytes: int = BATCH_BYTES
    ) -> tuple[Delivery, ...]:
        """Return the received deliveries that are not processed yet, oldest first."""
        check_count(limit)
        known = frozenset(without)

        def read(connection: sqlite3.Connection) -> tuple[Delivery, ...]:
            rows = connection.execute(WAITING, (limit + len(known),)).fetchall()
            new = [cursor for cursor, key in rows if key not in known][:limit]
            return tuple(up_to(most_bytes, (_at(connection, cursor) for cursor in new)))

        return await self._driver.read(read)

    async def unmatched(self, *, limit: int = 1000) -> tuple[Delivery, ...]:
        """Return what nothing waited for yet, the oldest first, without bodies."""
        check_count(limit)
        return tuple(row_delivery(row) for row in await self._rows(UNMATCHED, (limit,)))

    async def settle(
        self,
        keys: Sequence[str],
        state: DeliveryState,
        outcome: str,
        *,
        at: float,
        hint: Hint | None = None,
    ) -> None:
        """Record their outcome; the hint is kept for a later match."""
        values = (state.value, storable(outcome), settled(state, at), hint_text(hint))
        rows = [(*values, storable(key)) for key in keys]
        if rows:
            await self._driver.write(lambda connection: _many(connection, SETTLE, rows))

    async def get(self, key: str) -> Delivery | None:
        """Return one, whole."""
        rows = await self._rows(_ONE, (storable(key),))
        return row_delivery(rows[0]) if rows else None

    async def list(
        self, *, state: DeliveryState | None = None, provider: str | None = None,
        before: int | None = None, limit: int = 50,
    ) -> tuple[tuple[int, Delivery], ...]:  # fmt: skip
        """Return a page, the newest first, each with its cursor and without its body."""
        check_limit(limit)
        query, values = listing(state, provider, before, limit)
        return tuple((row[0], row_delivery(row)) for row in await self._rows(query, values))

    async def at(self, cursor: int) -> Delivery | None:
        """Return the one with this cursor, whole."""
        rows = await self._rows(AT, (cursor,))
        return row_delivery(rows[0]) if rows else None

    async def counts(self) -> tuple[tuple[str, DeliveryState, int, float], ...]:
        """Return for each sender and state how many there are, and when the last one came."""
        rows = await self._rows(COUNTS, ())
        return tuple((who, DeliveryState(state), many, last) for who, state, many, last in rows)

    async def keys(self, start: str, *, limit: int = 10) -> tuple[str, ...]:
        """Return keys that begin with a text, in their order."""
        check_count(limit)
        return tuple(row[0] for row in await self._rows(KEYS, (*key_span(start), limit)))

    async def prune(self, before: float, *, ignored_before: float | None = None) -> int:
        """Delete processed deliveries that were received before this time; return how many.

        Those that are ignored go by the other one, where it is given.
        """
        total = await self._prune(PRUNE, before)
        if ignored_before is not None:
            total += await self._prune(PRUNE_IGNORED, ignored_before)
        return total

    async def _prune(self, statement: str, before: float) -> int:
        total, gone = 0, _PRUNED_AT_ONCE
        values = before, _PRUNED_AT_ONCE
        while gone == _PRUNED_AT_ONCE:
            gone = await self._driver.write(
                lambda connection: connection.execute(statement, values).rowcount
            )
            total += gone
        return total

    async def _rows(self, query: str, values: Sequence[Any]) -> Sequence[Any]:
        return await self._driver.read(
            lambda connection: connection.execute(query, values).fetchall()
        )


def listing(
    state: DeliveryState | None, provider: str | None, before: int | None, limit: int
) -> tuple[str, list[Any]]:
    """Return the query of a page."""
    wanted = (("state = ?", state), ("provider = ?", provider), ("cursor < ?", before))
    conditions = [text for text, value in wanted if value is not None]
    where = f"WHERE {' AND '.join(conditions)} " if conditions else ""
    query = f"SELECT {_HEAD} FROM deliveries {where}ORDER BY cursor DESC LIMIT ?"  # noqa: S608  # our own text
    return query, [*(value for _, value in wanted if value is not None), limit]


def _at(connection: sqlite3.Connection, cursor: int) -> Delivery:
    return row_delivery(connection.execute(AT, (cursor,)).fetchone())


def _many(connection: sqlite3.Connection, query: str, rows: Sequence[Row]) -> None:
    connection.executemany(query, rows)


# --- rows ----------------------------------------------------------------------------------------


def delivery_row(delivery: Delivery) -> Row:
    """Return the row of a delivery, in the order of `COLUMNS` after the cursor, not packed."""
    return (
        storable(delivery.key),
        storable(delivery.provider),
        storable(delivery.event),
        delivery.received_at,
        delivery.state.value,
        storable(delivery.outcome),
        hint_text(delivery.hint),
        delivery.settled_at,
        to_json(delivery.headers),
        0,
        delivery.body,
    )


def packed(row: Row) -> Row:
    """Return the row with its body packed, if that makes it smaller."""
    body: bytes = row[-1]
    if len(body) < _WORTH_PACKING:
        return row
    small = zlib.compress(body, _QUICK)
    return (*row[:-2], 1, small) if len(small) < len(body) else row


def row_delivery(row: Sequence[Any]) -> Delivery:
    """Return the delivery of a row of `COLUMNS`, or of `HEAD_COLUMNS` with an empty body."""
    _, key, provider, event, received_at, state, outcome, hint, settled_at, headers, *rest = row
    return Delivery(
        key=key,
        provider=provider,
        event=event,
        received_at=received_at,
        headers=from_json(headers),
        body=_body(key, *rest) if rest else b"",
        state=DeliveryState(state),
        outcome=outcome,
        hint=None if hint is None else Hint.model_validate(from_json(hint)),
        settled_at=settled_at,
    )


def hint_text(hint: Hint | None) -> str | None:
    """Return a hint as JSON."""
    return None if hint is None else to_json(hint.model_dump(mode="json"))


def settled(state: DeliveryState, at: float) -> float | None:
    """Return when it was settled; None if it is to be processed again."""
    return None if state is DeliveryState.RECEIVED else at


def key_span(text: str) -> tuple[str, str]:
    """Return the first key that begins with the text, and the first after all of those."""
    text = storable(text)
    return text, text + _LAST


def up_to(most_bytes: int, found: Iterable[Delivery]) -> Iterator[Delivery]:
    """Return the first of them, as many as make so many bytes of bodies; at least one."""
    size = 0
    for each in found:
        if size and size + len(each.body) > most_bytes:
            return
        size += len(each.body)
        yield each


def _body(key: str, is_packed: int, body: bytes) -> bytes:
    if not is_packed:
        return body
    try:
        return zlib.decompress(body)
    except zlib.error as problem:
        raise StoreDamagedError(f"the stored body of {key} is damaged ({problem})") from problem
