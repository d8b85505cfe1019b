"""The one thread that writes: takes all that is queued, commits it at once, then says so.

Owns its connection. Each order is carried out wholly or not at all, whatever becomes of the others
in its transaction; nothing is acknowledged before it is committed.
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
"""Orders per transaction at most, so that the first of many is not kept waiting."""
_REFUSED = (
    LifecycleError,
    sqlite3.ProgrammingError,
    ArithmeticError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)
"""What one order may fail by alone; any other error of SQLite fails the whole transaction."""


@dataclass(slots=True, eq=False)
class _Order:
    run: Callable[[sqlite3.Connection], Any]
    future: asyncio.Future[Any]
    reads: bool
    then: Callable[[Any], None] | None
    result: Any = None
    problem: BaseException | None = None


class Writer:
    """Carries out functions on the database, in order, for the tasks of one event loop."""

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
        self._queue: SimpleQueue[_Order | None] = SimpleQueue()
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

    async def write(
        self,
        run: Callable[[sqlite3.Connection], T],
        then: Callable[[T], None] | None = None,
    ) -> T:
        """Commit what `run` does; `then` is told the result even if the caller was cancelled."""
        return await self._submit(run, reads=False, then=then)

    async def read(self, run: Callable[[sqlite3.Connection], T]) -> T:
        """Do a long read outside the event loop."""
        return await self._submit(run, reads=True)

    async def close(self) -> None:
        """Finish what is queued, then end the thread; harmless when called again."""
        if not self._closing:
            self._closing = True
            self._queue.put(None)
        await asyncio.shield(self._ended)
        self._thread.join()

    def _submit(
        self,
        run: Callable[[sqlite3.Connection], T],
        *,
        reads: bool,
        then: Callable[[T], None] | None = None,
    ) -> asyncio.Future[T]:
        if self._closing:
            raise StoreError("the store is closed; open it again to go on")
        future: asyncio.Future[T] = self._loop.create_future()
        self._queue.put(_Order(run, future, reads, then))
        return future

    def _main(self) -> None:
        try:
            with contextlib.closing(self._connect()) as connection:
                self._tell(_succeed, self._opened)
                while self._round(connection):
                    pass
        except Exception as problem:  # noqa: BLE001  # whatever it is, nobody may wait for a thread that is gone
            self._tell(self._give_up, problem)
        finally:
            self._tell(_succeed, self._ended)

    def _give_up(self, problem: Exception) -> None:
        """Let nobody wait: the thread ended by an error, and takes no order any more."""
        self._closing = True
        if not self._opened.done():
            self._opened.set_exception(problem)
        while not self._queue.empty():
            order = self._queue.get()
            if order is not None and not order.future.done():
                order.future.set_exception(problem)

    def _round(self, connection: sqlite3.Connection) -> bool:
        """Carry out what is queued; says whether there may be more."""
        orders = [self._queue.get()]
        while len(orders) < _AT_ONCE and not self._queue.empty():
            orders.append(self._queue.get())
        batch = [order for order in orders if order is not None]
        writes = [order for order in batch if not order.reads]
        try:
            if writes:
                self._commit(connection, writes)
            for order in batch:
                if order.reads:
                    self._look(connection, order)
        finally:
            if batch:
                self._tell(_settle, batch)
        return orders[-1] is not None

    def _commit(self, connection: sqlite3.Connection, orders: Sequence[_Order]) -> None:
        try:
            connection.execute("BEGIN IMMEDIATE")
            try:
                for order in orders:
                    order.result = order.run(connection)
            except _REFUSED:
                connection.execute("ROLLBACK")
                connection.execute("BEGIN IMMEDIATE")
                for order in orders:
                    _among_others(connection, order)
            connection.execute("COMMIT")
            if self._committed is not None:
                self._committed(connection)
        except Exception as problem:  # noqa: BLE001  # each is told to who waits for it
            told = self._told(problem)
            # First of all: should taking it back fail too, nothing may count as committed.
            for order in orders:
                order.problem = told
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    def _look(self, connection: sqlite3.Connection, order: _Order) -> None:
        try:
            order.result = order.run(connection)
        except Exception as problem:  # noqa: BLE001  # each is told to who waits for it
            order.problem = self._told(problem)

    def _told(self, problem: Exception) -> Exception:
        if isinstance(problem, sqlite3.Error) and not isinstance(problem, _REFUSED):
            return self._explain(problem)
        return problem

    def _tell(self, call: Callable[..., None], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(call, *arguments)


def _among_others(connection: sqlite3.Connection, order: _Order) -> None:
    """Carry an order out so that its refusal harms no other; that takes two statements more."""
    connection.execute("SAVEPOINT one")
    try:
        order.result = order.run(connection)
    except _REFUSED as problem:
        order.problem = problem
        connection.execute("ROLLBACK TO one")
    connection.execute("RELEASE one")


def _settle(orders: Sequence[_Order]) -> None:
    for order in orders:
        if order.problem is None:
            if order.then is not None:
                order.then(order.result)
            if not order.future.done():
                order.future.set_result(order.result)
        elif not order.future.done():
            order.future.set_exception(order.problem)


def _succeed(future: asyncio.Future[None]) -> None:
    future.set_result(None)
