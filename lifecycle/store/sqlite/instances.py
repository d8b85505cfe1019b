"""Stores and finds instances, in the database of a `SqliteStore`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from lifecycle.store.instances import (
    InstanceCounts,
    InstanceFilter,
    InstanceRow,
    TooManyInstancesError,
    attempt_of,
    check_listing,
)
from lifecycle.store.rows.instances import (
    CHANGING,
    COLUMNS,
    EVENT_COLUMNS,
    event_of_row,
    instance_of_row,
    row_of_event,
    row_of_instance,
)
from lifecycle.store.rows.loop_attempts import BAD_ENDS, Attempt, as_instance, wanted
from lifecycle.store.rows.records import check_count
from lifecycle.store.sqlite import instance_listing as listing
from lifecycle.store.sqlite.driver import MANY

if TYPE_CHECKING:
    import asyncio
    import sqlite3
    from collections.abc import Callable, Sequence
    from typing import Any

    from lifecycle.store.instances import EventRow
    from lifecycle.store.sqlite.driver import Driver

_UPSERT = (
    f"INSERT INTO agent_instances ({', '.join(COLUMNS)}) "  # noqa: S608  # our own column names
    f"VALUES ({', '.join('?' * len(COLUMNS))}) ON CONFLICT (id) DO UPDATE SET "
    f"{', '.join(f'{name} = excluded.{name}' for name in CHANGING)}"
)
_ADD_EVENT = (
    f"INSERT INTO agent_instance_events ({', '.join(EVENT_COLUMNS)}) "  # noqa: S608  # our own column names
    f"VALUES ({', '.join('?' * len(EVENT_COLUMNS))})"
)


class SqliteInstances:
    """Instances beside the lifecycles of a repository."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    async def save(
        self, row: InstanceRow, events: Sequence[EventRow] = (), *, at_most: int | None = None
    ) -> None:
        """Write an instance, new or changed, with events, in one transaction.

        Of a row that exists, its owner, definition, options and tags stay. With `at_most`, one
        that is new or had ended is refused with TooManyInstancesError when that many are active.
        """
        await self._driver.write(_saving(row, events, at_most))

    def begin(self, row: InstanceRow, events: Sequence[EventRow] = ()) -> asyncio.Future[None]:
        """Do as `save` does, without waiting: what is written later, is written after this."""
        return self._driver.begin(_saving(row, events, None))

    async def get(self, instance_id: UUID) -> InstanceRow | None:
        """Return an instance of either kind."""
        return await self._driver.read(lambda connection: _get(connection, instance_id), rows=1)

    async def list(self, which: InstanceFilter) -> tuple[InstanceRow, ...]:
        """Return the matching instances, newest first."""
        check_listing(which)
        rows = MANY if listing.is_long(which) else which.offset + which.limit
        return await self._driver.read(
            lambda connection: listing.page(connection, which), rows=rows
        )

    async def active(self) -> int:
        """Count those of either kind that have not ended."""
        return await self._driver.read(_active, rows=1)

    async def live_rows(self) -> tuple[InstanceRow, ...]:
        """Return all with rows of their own that are not known to have ended, oldest first."""

        def read(connection: sqlite3.Connection) -> tuple[InstanceRow, ...]:
            found = connection.execute(f"{listing.ROWS}WHERE i.active = 1 ORDER BY i.id")
            return tuple(instance_of_row(row) for row in found)

        return await self._driver.read(read)

    async def events(self, instance_id: UUID, *, limit: int = 1000) -> tuple[EventRow, ...]:
        """Return the last events of an instance as they occurred; of one instant, as written."""
        check_count(limit)

        def read(connection: sqlite3.Connection) -> tuple[EventRow, ...]:
            found = connection.execute(
                f"SELECT {', '.join(EVENT_COLUMNS)} FROM agent_instance_events "  # noqa: S608  # our own column names
                "WHERE instance_id = ? "
                "ORDER BY occurred_at DESC, ord DESC LIMIT ?",
                (str(instance_id), limit),
            ).fetchall()
            return tuple(event_of_row(row) for row in reversed(found))

        return await self._driver.read(read, rows=limit)

    async def counts(self, owner_id: UUID | None = None) -> InstanceCounts:
        """Count all instances, or those of one owner."""
        return await self._driver.read(lambda connection: _counts(connection, owner_id))

    async def have_ended(self, before: float) -> bool:
        """Tell whether any with rows of their own ended before a time."""

        def read(connection: sqlite3.Connection) -> bool:
            found = connection.execute(
                "SELECT 1 FROM agent_instances INDEXED BY idx_agent_instances_ended "
                "WHERE terminated_at < ? LIMIT 1",
                (before,),
            )
            return found.fetchone() is not None

        return await self._driver.read(read, rows=1)

    async def prune(self, before: float, *, limit: int = 1000) -> tuple[UUID, ...]:
        """Delete instances with rows of their own that ended before a time; return their ids."""

        def run(connection: sqlite3.Connection) -> tuple[UUID, ...]:
            found = connection.execute(
                "DELETE FROM agent_instances WHERE id IN (SELECT id FROM agent_instances "
                "INDEXED BY idx_agent_instances_ended WHERE terminated_at < ? "
                "ORDER BY terminated_at LIMIT ?) RETURNING id",
                (before, limit),
            )
            return tuple(UUID(row[0]) for row in found.fetchall())

        return await self._driver.write(run)


def _saving(
    row: InstanceRow, events: Sequence[EventRow], at_most: int | None
) -> Callable[[sqlite3.Connection], None]:
    return partial(
        _save,
        row=row_of_instance(row),
        tags=row.tags,
        events=[row_of_event(event) for event in events],
        at_most=at_most,
    )


def _save(
    connection: sqlite3.Connection,
    row: tuple[Any, ...],
    tags: tuple[str, ...],
    events: list[tuple[Any, ...]],
    at_most: int | None,
) -> None:
    found = connection.execute(
        "SELECT active FROM agent_instances WHERE id = ?", row[:1]
    ).fetchone()
    if at_most is not None and not (found and found[0]):
        active = _active(connection)
        if active >= at_most:
            raise TooManyInstancesError(active, at_most)
    connection.execute(_UPSERT, row)
    if found is None and tags:
        ended = row[COLUMNS.index("terminated_at")] is not None
        connection.executemany(
            "INSERT OR IGNORE INTO agent_instance_tags VALUES (?, ?, ?)",
            [(row[0], tag, int(not ended)) for tag in tags],
        )
    connection.executemany(_ADD_EVENT, events)


def _active(connection: sqlite3.Connection) -> int:
    return int(connection.execute(listing.ACTIVE).fetchone()[0])


def _get(connection: sqlite3.Connection, instance_id: UUID) -> InstanceRow | None:
    place = attempt_of(instance_id)
    if place is None:
        row = connection.execute(f"{listing.ROWS}WHERE i.id = ?", (str(instance_id),)).fetchone()
        return None if row is None else instance_of_row(row)
    cursor, attempt = place
    row = connection.execute(listing.ATTEMPT, (attempt, cursor)).fetchone()
    if row is None:
        return None
    found = Attempt._make(row)
    if found.attempt is None and (not found.is_live or found.current != attempt):
        return None
    instance = as_instance(found)
    return instance if instance.id == instance_id else None


def _counts(connection: sqlite3.Connection, owner_id: UUID | None) -> InstanceCounts:
    where, values = ("WHERE owner_id = ? ", (str(owner_id),)) if owner_id else ("", ())
    by_state: dict[str, int] = {}
    by_health: dict[str, int] = {}
    ended, lived, restarts = 0, 0.0, 0
    for state, health, active, count, seconds, again in connection.execute(
        "SELECT state, health_state, active, count(*), "  # noqa: S608  # our own text
        "coalesce(sum(terminated_at - created_at), 0.0), sum(restarts_total) "
        f"FROM agent_instances {where}GROUP BY state, health_state, active",
        values,
    ):
        by_state[state] = by_state.get(state, 0) + count
        restarts += again
        if active:
            by_health[health] = by_health.get(health, 0) + count
        else:
            ended, lived = ended + count, lived + seconds
    if wanted(InstanceFilter(owner_id=owner_id)):
        for row in listing.live_attempts(connection, InstanceFilter()):
            by_state[row.state] = by_state.get(row.state, 0) + 1
            by_health[row.health_state] = by_health.get(row.health_state, 0) + 1
        for failed, count, seconds in connection.execute(listing.ENDED_ATTEMPTS, BAD_ENDS):
            state = "failed" if failed else "terminated"
            by_state[state] = by_state.get(state, 0) + count
            ended, lived = ended + count, lived + seconds
    return InstanceCounts(
        by_state=by_state, by_health=by_health, ended=ended, lived=lived, restarts=restarts
    )
