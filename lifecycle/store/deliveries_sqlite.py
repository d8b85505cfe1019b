"""Deliveries in the database, written by the store's one writing thread.

Deliveries that wait together are committed together and wait for the disk together. Must not know
what a delivery means.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ci.inbox import BATCH_BYTES
from lifecycle.errors import StoreError
from lifecycle.store.deliveries_rows import (
    COLUMNS,
    HEAD_COLUMNS,
    delivery_row,
    hint_text,
    key_span,
    packed,
    row_delivery,
    settled,
    up_to,
)
from lifecycle.store.rows import check_count, check_limit, storable

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from ci.inbox import Delivery, DeliveryState, Hint
    from lifecycle.store.rows import Row
    from lifecycle.store.sqlite_writer import Writer

_PRUNED_AT_ONCE = 500
"""Rows per transaction, so that nobody who writes is kept waiting by the cleaning."""
_ALL, _HEAD = ", ".join(COLUMNS), ", ".join(HEAD_COLUMNS)
_INSERT = (
    f"INSERT INTO deliveries ({', '.join(COLUMNS[1:])}) "  # noqa: S608  # our own column names
    f"VALUES ({', '.join('?' * len(COLUMNS[1:]))}) ON CONFLICT (key) DO NOTHING"
)
_ONE = f"SELECT {_ALL} FROM deliveries WHERE key = ?"  # noqa: S608  # as above
WAITING = "SELECT cursor, key FROM deliveries WHERE state = 'received' ORDER BY cursor LIMIT ?"
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
_sync = getattr(os, "fdatasync", os.fsync)


@dataclass(slots=True)
class _Added:
    fresh: bool
    problem: str = ""


class Flush:
    """Brings added deliveries to the disk after their commit. Lives in the writing thread.

    A forge does not send again what was answered, so a delivery must outlast a power failure,
    which the store alone does not promise of its last commits.
    """

    def __init__(self, database: Path) -> None:
        self._log = f"{database}-wal"
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
        if not added:
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

    def __init__(self, writer: Writer, flush: Flush) -> None:
        self._writer = writer
        self._flush = flush

    async def add(self, delivery: Delivery) -> bool:
        """Keep it; False, and nothing changed, if one of this key is known already."""
        added = await self._writer.write(partial(self._flush.add, row=delivery_row(delivery)))
        if added.problem:
            raise StoreError(added.problem)
        return added.fresh

    async def waiting(
        self, *, limit: int = 100, without: Collection[str] = (), most_bytes: int = BATCH_BYTES
    ) -> tuple[Delivery, ...]:
        """Return what was received and not worked on yet, the oldest first."""
        check_count(limit)
        known = frozenset(without)

        def read(connection: sqlite3.Connection) -> tuple[Delivery, ...]:
            rows = connection.execute(WAITING, (limit + len(known),)).fetchall()
            new = [cursor for cursor, key in rows if key not in known][:limit]
            return tuple(up_to(most_bytes, (_at(connection, cursor) for cursor in new)))

        return await self._writer.read(read)

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
        """Note what became of them; the hint is kept for a later match."""
        values = (state.value, storable(outcome), settled(state, at), hint_text(hint))
        rows = [(*values, storable(key)) for key in keys]
        if rows:
            await self._writer.write(lambda connection: _many(connection, SETTLE, rows))

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

    async def keys(self, start: str, *, limit: int = 10) -> tuple[str, ...]:
        """Return keys that begin with a text."""
        check_count(limit)
        return tuple(row[0] for row in await self._rows(KEYS, (*key_span(start), limit)))

    async def prune(self, before: float) -> int:
        """Forget what was received before this instant and is worked on; returns how many."""
        total, gone = 0, _PRUNED_AT_ONCE
        while gone == _PRUNED_AT_ONCE:
            gone = await self._writer.write(
                lambda connection: connection.execute(PRUNE, (before, _PRUNED_AT_ONCE)).rowcount
            )
            total += gone
        return total

    async def _rows(self, query: str, values: Sequence[Any]) -> Sequence[Any]:
        return await self._writer.read(
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
