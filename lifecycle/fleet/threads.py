"""Where coroutines of an in-process agent run: here, or in a thread with an event loop of its own.

A thread is no wall. It must not know what an agent is.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING, Any

from lifecycle.fleet.errors import InvalidOperationError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from concurrent.futures import ThreadPoolExecutor

TO_HEED = 1.0
"""Seconds an agent may take to heed its cancellation, and its thread to end."""


class Here:
    """The caller's event loop."""

    turns = 0

    def open(self) -> None:
        """It is there."""

    def run(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a coroutine."""
        return asyncio.get_running_loop().create_task(work, name="in-process agent")

    def ping(self) -> None:
        """Whoever calls this is the event loop itself."""
        self.turns += 1

    def details(self) -> dict[str, Any]:
        """Return what the record shall say of it."""
        return {}

    async def close(self, patience: float) -> bool:
        """It belongs to others."""
        del patience
        return True


class OwnThread:
    """A thread with an event loop of its own."""

    def __init__(self, name: str, workers: ThreadPoolExecutor) -> None:
        self.turns = 0
        self._name = name
        self._workers = workers
        self._loop = asyncio.new_event_loop()
        self._home = asyncio.get_running_loop()
        self._gone: asyncio.Future[None] = self._home.create_future()
        # A daemon, so that an agent that hangs does not keep the program from ending.
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)

    def open(self) -> None:
        """Start the thread."""
        self._loop.set_default_executor(self._workers)
        self._thread.start()

    def _main(self) -> None:
        loop = self._loop
        try:
            loop.run_forever()
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            if left:
                loop.run_until_complete(asyncio.wait(left, timeout=TO_HEED))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()
            self._tell_home(self._has_gone)

    def _has_gone(self) -> None:
        if not self._gone.done():
            self._gone.set_result(None)

    def _tell_home(self, call: Callable[[], object]) -> None:
        with contextlib.suppress(RuntimeError):  # the caller's loop is closed: nobody waits
            self._home.call_soon_threadsafe(call)

    def run(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a coroutine in the thread; the task here ends when the one there has ended."""
        begun = asyncio.Event()
        task = self._home.create_task(self._through(work, begun), name=f"waits for {self._name}")

        def settle(_: object) -> None:
            # One that is cancelled before its first step never hands the coroutine over.
            if not begun.is_set():
                work.close()

        task.add_done_callback(settle)
        return task

    async def _through(self, work: Coroutine[Any, Any, Any], begun: asyncio.Event) -> Any:
        ended: asyncio.Future[Any] = self._home.create_future()
        there: list[asyncio.Task[Any]] = []

        def begin() -> None:
            there.append(self._loop.create_task(work))
            there[0].add_done_callback(lambda task: self._tell_home(lambda: _pass_on(task, ended)))

        if self._loop.is_closed():
            raise InvalidOperationError("the agent's thread has ended; spawn it anew")
        begun.set()
        self._loop.call_soon_threadsafe(begin)
        try:
            return await asyncio.shield(ended)
        except asyncio.CancelledError:
            if not ended.done() and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(_cancel_all, there)
                # Cancelled once more, this one gives up waiting.
                await asyncio.wait({ended})
            raise

    def ping(self) -> None:
        """Ask the thread's event loop to turn."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._turned)

    def _turned(self) -> None:
        self.turns += 1

    def details(self) -> dict[str, Any]:
        """Return what the record shall say of it."""
        return {"thread": self._thread.native_id}

    async def close(self, patience: float) -> bool:
        """End the event loop and with it the thread; says whether it ended in time."""
        if self._thread.ident is None:
            self._loop.close()
            return True
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._loop.stop)
        await asyncio.wait({self._gone}, timeout=patience)
        return self._gone.done()


def _cancel_all(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()


def _pass_on(task: asyncio.Task[Any], ended: asyncio.Future[Any]) -> None:
    if ended.done():
        return
    if task.cancelled():
        ended.cancel()
    elif (problem := task.exception()) is not None:
        ended.set_exception(problem)
        # Looked at here, so that nobody is told of it who gave up waiting.
        ended.exception()
    else:
        ended.set_result(task.result())
