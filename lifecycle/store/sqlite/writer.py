"""The one thread that writes: commits all queued jobs in one transaction, then reports them.

Owns its connection. Each job is executed wholly or not at all, whatever happens to the others in
its transaction; nothing is acknowledged before it is committed.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

from lifecycle.errors import LifecycleError, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")

_AT_ONCE = 500
"""Jobs per transaction at most, so that the first of many is not kept waiting."""
_REFUSED = (
    LifecycleError,
    sqlite3.ProgrammingError,
    ArithmeticError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)
"""What one job may fail by alone; any other error of SQLite fails the whole transaction."""


@dataclass(slots=True, eq=False)
class _Job:
    run: Callable[[sqlite3.Connection], Any]
    future: asyncio.Future[Any]
    reads: bool
    then: Callable[[Any], None] | None
    result: Any = None
    problem: BaseException | None = None


class Writer:
    """Executes functions on the database, in order, for the tasks of one event loop."""

    def __init__(
        self,
        connect: Callable[[], sqlite3.Connection],
        explain: Callable[[sqlite3.Error], StoreError],
        committed: Callable[[sqlite3.Connection], None] | None = None,
    ) -> None:
        self._connect = connect
        self._explain = explain
        self._committed = committed
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[_Job | None] = SimpleQueue()
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._closing = False
        # A daemon, so that a program which forgets to close still ends; what is committed stays.
        self._thread = threading.Thread(target=self._main, name="loopwright-store", daemon=True)

    async def open(self) -> None:
        """Start the thread and wait until it has the database."""
        self._thread.start()
        try:
            await asyncio.shield(self._opened)
        except BaseException:
            await self.close()
            raise

    def write(
        self,
        run: Callable[[sqlite3.Connection], T],
        then: Callable[[T], None] | None = None,
    ) -> asyncio.Future[T]:
        """Commit what `run` does; `then` is told the result even if the caller was cancelled."""
        return self._queued(run, reads=False, then=then)

    async def read(self, run: Callable[[sqlite3.Connection], T]) -> T:
        """Do a long read outside the event loop."""
        return await self._queued(run, reads=True)

    async def close(self) -> None:
        """Finish what is queued, then end the thread; harmless when called again."""
        if not self._closing:
            self._closing = True
            self._queue.put(None)
        await asyncio.shield(self._ended)
        self._thread.join()

    def _queued(
        self,
        run: Callable[[sqlite3.Connection], T],
        *,
        reads: bool,
        then: Callable[[T], None] | None = None,
    ) -> asyncio.Future[T]:
        if self._closing:
            raise StoreError("the store is closed; open it again")
        future: asyncio.Future[T] = self._loop.create_future()
        self._queue.put(_Job(run, future, reads, then))
        return future

    def _main(self) -> None:
        try:
            with contextlib.closing(self._connect()) as connection:
                self._tell(_succeed, self._opened)
                while self._run_batch(connection):
                    pass
        except Exception as problem:  # noqa: BLE001  # whatever it is, nobody may wait for a thread that is gone
            self._tell(self._give_up, problem)
        finally:
            self._tell(_succeed, self._ended)

    def _give_up(self, problem: Exception) -> None:
        """Fail all waiting jobs: the thread ended by an error and takes no more."""
        self._closing = True
        if not self._opened.done():
            self._opened.set_exception(problem)
        while not self._queue.empty():
            job = self._queue.get()
            if job is not None and not job.future.done():
                job.future.set_exception(problem)

    def _run_batch(self, connection: sqlite3.Connection) -> bool:
        """Execute what is queued; return whether there may be more."""
        jobs = [self._queue.get()]
        while len(jobs) < _AT_ONCE and not self._queue.empty():
            jobs.append(self._queue.get())
        batch = [job for job in jobs if job is not None]
        writes = [job for job in batch if not job.reads]
        try:
            if writes:
                self._commit(connection, writes)
            for job in batch:
                if job.reads:
                    self._look(connection, job)
        finally:
            if batch:
                self._tell(_settle, batch)
        return jobs[-1] is not None

    def _commit(self, connection: sqlite3.Connection, jobs: Sequence[_Job]) -> None:
        try:
            connection.execute("BEGIN IMMEDIATE")
            try:
                for job in jobs:
                    job.result = job.run(connection)
            except _REFUSED:
                connection.execute("ROLLBACK")
                connection.execute("BEGIN IMMEDIATE")
                for job in jobs:
                    _among_others(connection, job)
            connection.execute("COMMIT")
            if self._committed is not None:
                self._committed(connection)
        except Exception as problem:  # noqa: BLE001  # each waiting caller gets it
            told = self._told(problem)
            # First of all: should taking it back fail too, nothing may count as committed.
            for job in jobs:
                job.problem = told
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    def _look(self, connection: sqlite3.Connection, job: _Job) -> None:
        try:
            job.result = job.run(connection)
        except Exception as problem:  # noqa: BLE001  # each waiting caller gets it
            job.problem = self._told(problem)

    def _told(self, problem: Exception) -> Exception:
        if isinstance(problem, sqlite3.Error) and not isinstance(problem, _REFUSED):
            return self._explain(problem)
        return problem

    def _tell(self, call: Callable[..., None], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: no caller waits any more
            self._loop.call_soon_threadsafe(call, *arguments)


def _among_others(connection: sqlite3.Connection, job: _Job) -> None:
    """Execute a job so that its refusal does not affect the others; costs two more statements."""
    connection.execute("SAVEPOINT one")
    try:
        job.result = job.run(connection)
    except _REFUSED as problem:
        job.problem = problem
        connection.execute("ROLLBACK TO one")
    connection.execute("RELEASE one")


def _settle(jobs: Sequence[_Job]) -> None:
    for job in jobs:
        if job.problem is None:
            if job.then is not None:
                job.then(job.result)
            if not job.future.done():
                job.future.set_result(job.result)
        elif not job.future.done():
            job.future.set_exception(job.problem)


def _succeed(future: asyncio.Future[None]) -> None:
    future.set_result(None)
