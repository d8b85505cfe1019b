"""The workers of a repository in the database: who they are, and when each was heard of last.

Must not decide what becomes of the work of one that is silent.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lifecycle.errors import ConflictingUpdateError
from lifecycle.plan import checked_name
from lifecycle.store.reading import fetch
from lifecycle.store.rows.workers import COLUMNS, WorkerRow, row_of_worker, worker_of_row

if TYPE_CHECKING:
    import sqlite3

    from lifecycle.store.sqlite.driver import Driver

_NAMES = ", ".join(COLUMNS)
_TAKEN_OVER = ", ".join(f"{each} = excluded.{each}" for each in COLUMNS)
_SEEN = (
    f"INSERT INTO workers ({_NAMES}) VALUES ({', '.join('?' * len(COLUMNS))}) "  # noqa: S608  # our own column names
    f"ON CONFLICT (name) DO UPDATE SET {_TAKEN_OVER} "
    "WHERE workers.machine = excluded.machine OR excluded.seen_at > workers.seen_at + workers.lease"
)
_ALL = f"SELECT {_NAMES} FROM workers ORDER BY name"  # noqa: S608  # as above


MOST = 500
"""Workers that are known at once: whoever has their token may give himself any name."""
_SILENT = "DELETE FROM workers WHERE ? - seen_at > lease AND name != ?"


class SqliteWorkers:
    """The workers in an open store."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    async def seen(self, worker: WorkerRow) -> None:
        """Record that a worker was heard of, and how it is.

        ConflictingUpdateError if another machine, heard of within its lease, has this name, or if
        there are too many.
        """
        checked_name(worker.name)
        answer = await self._driver.write(partial(_seen, worker=worker))
        if answer is None:
            raise ConflictingUpdateError(
                f"{MOST} workers are known, so {worker.name} is not taken: end one of them first"
            )
        if not answer:
            raise ConflictingUpdateError(
                f"another machine works on this repository as worker {worker.name}; give this one "
                "another name (--name), or end the other first"
            )

    async def left(self, name: str, machine: str) -> None:
        """Forget a worker of this machine that said goodbye; harmless when it is not known."""
        query = "DELETE FROM workers WHERE name = ? AND machine = ?"
        await self._driver.write(lambda each: each.execute(query, (name, machine)).rowcount)

    async def all(self) -> tuple[WorkerRow, ...]:
        """Return every worker that is known, by name."""
        rows = await self._driver.read(lambda each: fetch(each, _ALL), rows=1)
        return tuple(map(worker_of_row, rows))

    async def silent(self, present: float) -> dict[str, float]:
        """Return those that were not heard of for a lease, with when they were last."""
        return {each.name: each.seen_at for each in await self.all() if each.is_silent(present)}

    async def prune(self, before: float) -> int:
        """Forget those that were not heard of since this time; return how many."""
        query = "DELETE FROM workers WHERE seen_at < ?"
        return await self._driver.write(lambda each: each.execute(query, (before,)).rowcount)


def _seen(connection: sqlite3.Connection, worker: WorkerRow) -> bool | None:
    """Write it; False where the name is another machine's, None where there is no room.

    Who is silent makes room for one that is new.
    """
    if _is_full(connection, worker.name):
        connection.execute(_SILENT, (worker.seen_at, worker.name))
        if _is_full(connection, worker.name):
            return None
    return connection.execute(_SEEN, row_of_worker(worker)).rowcount > 0


def _is_full(connection: sqlite3.Connection, name: str) -> bool:
    (others,) = connection.execute("SELECT count(*) FROM workers WHERE name != ?", (name,))
    return int(others[0]) >= MOST
