"""Reads all that is stored of a lifecycle at one instant, and takes such lifecycles in.

Several are taken in together or not at all, with what the audit says of it.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING

from lifecycle.errors import StoreFromNewerVersionError
from lifecycle.json_form import encode
from lifecycle.store.damaged_records import record_of
from lifecycle.store.reading import fetch
from lifecycle.store.rows.records import (
    AGENT,
    ATTEMPT_COLUMNS,
    attempt_row,
    check_state,
    effect_rows,
    journal_row,
    record_row,
    row_attempt,
    row_effect,
    row_journal,
    row_request,
    to_json,
)
from lifecycle.store.sqlite import listing
from lifecycle.store.sqlite import statements as sql
from lifecycle.store.sqlite.spending import COLUMNS as SPENDING
from lifecycle.store.sqlite.spending import (
    SqliteSpendings,
    picked,
    put_spending,
    row_spending,
    spending_row,
)
from lifecycle.store.transfers import StoredLifecycle, standing

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence

    from lifecycle.audit import Act
    from lifecycle.record import OperatorRequest
    from lifecycle.store.sqlite.audit_trail import TrailWriter
    from lifecycle.store.transfers import Standing

_AT_ONCE = 500
"""Journal entries per statement: SQLite takes a limited number of values."""
_ATTEMPTS = f"SELECT {', '.join(ATTEMPT_COLUMNS)} FROM attempts WHERE agent_id = ? ORDER BY attempt"  # noqa: S608  # our own column names
_REQUESTS = (
    "SELECT request_id, agent_id, at, body FROM requests "
    "WHERE agent_id = ? AND answered_at IS NULL ORDER BY request_id"
)
_ASK = (
    "INSERT INTO requests (agent_id, at, body) SELECT ?, ?, ? "
    "WHERE NOT EXISTS (SELECT 1 FROM requests WHERE agent_id = ? AND body = ?)"
)
_CARRIED_OUT = (
    "UPDATE requests SET answered_at = ? WHERE agent_id = ? AND answered_at IS NULL "
    "AND body IN (SELECT body FROM journal WHERE agent_id = ?)"
)


class SqliteTransfers(SqliteSpendings):
    """Lifecycles that go to another store, or come from one."""

    _audit: TrailWriter

    async def whole(self, agent_id: str) -> StoredLifecycle | None:
        """Return all that belongs to a lifecycle, documents apart; None where there is none."""
        return await self._driver.read(partial(_whole, agent_id=agent_id))

    async def take_in(self, given: Sequence[StoredLifecycle], act: Act) -> tuple[Standing, ...]:
        """Put lifecycles from elsewhere in, each with its version; returns what each was to us.

        One refused (`standing` says when) refuses all; one that is known as it is stays as it is.
        """
        for each in given:
            check_state(each.record)
        write = partial(_take_in, given=given, at=act.at)
        return await self._driver.write(self._audit.together(write, (act,)))


def _whole(connection: sqlite3.Connection, agent_id: str) -> StoredLifecycle | None:
    """Read all in one transaction, so that no write of another process falls between."""
    connection.execute("BEGIN")
    try:
        return _read(connection, agent_id)
    finally:
        connection.execute("COMMIT")


def _read(connection: sqlite3.Connection, agent_id: str) -> StoredLifecycle | None:
    rows = fetch(connection, listing.ONE, (agent_id,))
    if not rows:
        return None
    record = record_of(rows[0])
    query, values = picked(", ".join(SPENDING), 0.0, agent_id, None)
    spendings = map(row_spending, fetch(connection, f"{query} ORDER BY at, attempt", values))
    return StoredLifecycle(
        record=record,
        journal=tuple(
            map(row_journal, fetch(connection, f"{sql.JOURNAL} ORDER BY seq", (agent_id,)))
        ),
        attempts=tuple(map(row_attempt, fetch(connection, _ATTEMPTS, (agent_id,)))),
        pending=tuple(map(row_effect, fetch(connection, sql.PENDING, (agent_id,)))),
        requests=tuple(_requests(connection, agent_id)),
        spendings=tuple(each for each in spendings if each.birth == record.birth),
    )


def _requests(connection: sqlite3.Connection, agent_id: str) -> Iterator[OperatorRequest]:
    for row in fetch(connection, _REQUESTS, (agent_id,)):
        with contextlib.suppress(StoreFromNewerVersionError):  # left for that version
            yield row_request(row)


def _take_in(
    connection: sqlite3.Connection, given: Sequence[StoredLifecycle], at: float
) -> tuple[Standing, ...]:
    return tuple(_one(connection, each, at) for each in given)


def _one(connection: sqlite3.Connection, given: StoredLifecycle, at: float) -> Standing:
    here = _read(connection, given.record.agent_id)
    found = standing(given, here)
    if found == "same":
        return found
    row = record_row(given.record, version=given.record.version)
    if here is not None and found == "newer":
        sql.replace_record(connection, here.record.cursor, row)
    elif here is not None:
        old = record_row(here.record, version=here.record.version)
        sql.set_aside(connection, old, here.record.earlier_id)
        sql.insert_record(connection, row)
    else:
        sql.insert_record(connection, row)
    _add_rows(connection, given)
    if given.requests:
        connection.executemany(_ASK, [_request_row(each) for each in given.requests])
    # What was asked here and carried out elsewhere is not to be done again.
    connection.execute(_CARRIED_OUT, (at, row[AGENT], row[AGENT]))
    return found


def _add_rows(connection: sqlite3.Connection, given: StoredLifecycle) -> None:
    journal = [journal_row(entry) for entry in given.journal]
    for start in range(0, len(journal), _AT_ONCE):
        sql.add_journal(connection, journal[start : start + _AT_ONCE])
    for attempt in given.attempts:
        sql.put_attempt(connection, attempt_row(attempt))
    sql.add_effects(connection, effect_rows(given.pending, given.record.version))
    for spending in given.spendings:
        put_spending(connection, spending_row(spending))
    for document in given.documents:
        row = (document.collection, document.key, to_json(document.body))
        sql.put_document(connection, row)


def _request_row(request: OperatorRequest) -> tuple[str | None, float, str, str | None, str]:
    body = encode(request.event)
    return (request.agent_id, request.at, body, request.agent_id, body)
