"""The two drivers of a database: a file with a writing thread, and memory without one.

Owns the connections of a store and where its statements run. Must not know what they mean.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

from lifecycle.errors import StoreError
from lifecycle.store.reading import open_reader
from lifecycle.store.sqlite import file
from lifecycle.store.sqlite.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

T = TypeVar("T")

FEW = 100
"""Rows that may be read in the event loop."""
MANY = FEW + 1
"""A number that means more than those."""


class Driver(Protocol):
    """Runs statements on one database."""

    async def write(
        self, run: Callable[[sqlite3.Connection], T], then: Callable[[T], None] | None = None
    ) -> T:
        """Commit what `run` does; `then` is told the result even if the caller was cancelled."""
        ...

    def begin(self, run: Callable[[sqlite3.Connection], T]) -> asyncio.Future[T]:
        """Write without waiting: what is written later is written after this."""
        ...

    async def read(self, run: Callable[[sqlite3.Connection], T], *, rows: int = MANY) -> T:
        """Return what `run` finds; how many rows it reads at most says where it may run."""
        ...

    def change_marker(self) -> object:
        """Return a value that changes with every write by any process."""
        ...

    async def close(self) -> None:
        """Write what is queued, then close; harmless when called again."""
        ...


class FileDriver:
    """A database file: one thread writes and reads what is long, the event loop what is short."""

    def __init__(self, path: Path, writer: Writer) -> None:
        self._path = path
        self._log = f"{path}-wal"
        self._writer = writer
        self._reader: sqlite3.Connection | None = open_reader(path)

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        durable: bool = False,
        patience: float = 60.0,
        anew: bool = False,
        committed: Callable[[sqlite3.Connection], None] | None = None,
    ) -> Self:
        """Open or make the database; `committed` is called in the thread after each commit."""
        connect = partial(file.open_writer, path, durable=durable, patience=patience, anew=anew)
        writer = Writer(connect, partial(file.explain, path=path), committed)
        await writer.open()
        try:
            return cls(path, writer)
        except sqlite3.Error as problem:
            await writer.close()
            raise file.explain(problem, path) from problem

    async def write(
        self, run: Callable[[sqlite3.Connection], T], then: Callable[[T], None] | None = None
    ) -> T:
        """Commit what `run` does, with what else waits."""
        return await self._writer.write(run, then)

    def begin(self, run: Callable[[sqlite3.Connection], T]) -> asyncio.Future[T]:
        """Write without waiting."""
        return self._writer.write(run)

    async def read(self, run: Callable[[sqlite3.Connection], T], *, rows: int = MANY) -> T:
        """Read here if that is quick, else in the thread."""
        if self._reader is None:
            raise StoreError(f"the store on {self._path} is closed; open it again")
        if rows > FEW:
            return await self._writer.read(run)
        try:
            return run(self._reader)
        except sqlite3.Error as problem:
            raise file.explain(problem, self._path) from problem

    def change_marker(self) -> object:
        """Return the state of the write-ahead log, which every commit changes."""
        try:
            found = os.stat(self._log)  # noqa: PTH116  # asked again and again while all is quiet
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    async def close(self) -> None:
        """Close the reader, then the thread and its connection."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()
        await self._writer.close()


class MemoryDriver:
    """A database in memory: each statement runs immediately in the caller's thread.

    Not bound to an event loop. Closed when it is garbage-collected.
    """

    def __init__(self, committed: Callable[[sqlite3.Connection], None]) -> None:
        self._connection = file.open_in_memory()
        self._committed = committed
        self._closed = False

    def __del__(self) -> None:
        self._connection.close()

    async def write(
        self, run: Callable[[sqlite3.Connection], T], then: Callable[[T], None] | None = None
    ) -> T:
        """Commit what `run` does."""
        result = self._commit(run)
        if then is not None:
            then(result)
        return result

    def begin(self, run: Callable[[sqlite3.Connection], T]) -> asyncio.Future[T]:
        """Write at once; a refusal is raised from the future."""
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        try:
            done.set_result(self._commit(run))
        except Exception as problem:  # noqa: BLE001  # raised from the future, as a thread would
            done.set_exception(problem)
        return done

    async def read(self, run: Callable[[sqlite3.Connection], T], *, rows: int = MANY) -> T:
        """Read at once, however much it is."""
        del rows
        connection = self._open()
        with _explained():
            return run(connection)

    def change_marker(self) -> object:
        """Return the number of rows written so far."""
        return self._open().total_changes

    async def close(self) -> None:
        """Forget everything."""
        self._closed = True
        self._connection.close()

    def _open(self) -> sqlite3.Connection:
        if self._closed:
            raise StoreError("the store in memory is closed; create a new one")
        return self._connection

    def _commit(self, run: Callable[[sqlite3.Connection], T]) -> T:
        connection = self._open()
        with _explained():
            connection.execute("BEGIN")
            try:
                result = run(connection)
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")
            self._committed(connection)
        return result


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except sqlite3.ProgrammingError:
        raise  # the statement is at fault, not the database
    except sqlite3.Error as problem:
        raise StoreError(f"the records in memory could not be used: {problem}") from problem
