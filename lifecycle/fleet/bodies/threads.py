"""Where an in-process agent runs: in the caller's event loop, or in one in a thread of its own.

A thread isolates nothing. This module must not know what an agent is.
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

CANCEL_TIMEOUT = 1.0
"""Seconds that an agent has to honour its cancellation, and its thread to end."""


class CallerLoop:
    """The caller's event loop."""

    turns = 0

    def open(self) -> None:
        """Do nothing: it runs already."""

    def run(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a coroutine."""
        return asyncio.get_running_loop().create_task(work, name="in-process agent")

    def ping(self) -> None:
        """Count a turn: this call itself runs in the event loop."""
        self.turns += 1

    def details(self) -> dict[str, Any]:
        """Return the details for the record of the agent."""
        return {}

    async def close(self, patience: float) -> bool:
        """Do nothing: it belongs to the caller."""
        del patience
        return True


class OwnThread:
    """A thread with an event loop of its own."""

    def __init__(self, name: str, workers: ThreadPoolExecutor) -> None:
        self.turns = 0
        self._name = name
        self._workers = workers
        self._loop = asyncio.new_event_loop()
        self._caller = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._caller.create_future()
        # A daemon, so that a hanging agent does not keep the program from exiting.
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
                loop.run_until_complete(asyncio.wait(left, timeout=CANCEL_TIMEOUT))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()
            self._call_caller(self._mark_ended)

    def _mark_ended(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)

    def _call_caller(self, call: Callable[[], object]) -> None:
        with contextlib.suppress(RuntimeError):  # the caller's loop is closed: nobody waits
            self._caller.call_soon_threadsafe(call)

    def run(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a coroutine in the thread; the task here ends when the one there has ended."""
        started = asyncio.Event()
        task = self._caller.create_task(
            self._run_there(work, started), name=f"waits for {self._name}"
        )

        def settle(_: object) -> None:
            # A task that is cancelled before its first step never hands the coroutine over.
            if not started.is_set():
                work.close()

        task.add_done_callback(settle)
        return task

    async def _run_there(self, work: Coroutine[Any, Any, Any], started: asyncio.Event) -> Any:
        ended: asyncio.Future[Any] = self._caller.create_future()
        there: list[asyncio.Task[Any]] = []

        def start_there() -> None:
            there.append(self._loop.create_task(work))
            there[0].add_done_callback(
                lambda task: self._call_caller(lambda: _pass_on(task, ended))
            )

        if self._loop.is_closed():
            raise InvalidOperationError("the agent's thread has ended; spawn it again")
        started.set()
        self._loop.call_soon_threadsafe(start_there)
        try:
            return await asyncio.shield(ended)
        except asyncio.CancelledError:
            if not ended.done() and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(_cancel_all, there)
                # A second cancellation ends this wait.
                await asyncio.wait({ended})
            raise

    def ping(self) -> None:
        """Let the thread's event loop count a turn."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._turned)

    def _turned(self) -> None:
        self.turns += 1

    def details(self) -> dict[str, Any]:
        """Return the details for the record of the agent."""
        return {"thread": self._thread.native_id}

    async def close(self, patience: float) -> bool:
        """End the event loop and its thread; return whether they ended in time."""
        if self._thread.ident is None:
            self._loop.close()
            return True
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._loop.stop)
        await asyncio.wait({self._ended}, timeout=patience)
        return self._ended.done()


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
        # Retrieved, so that asyncio does not log it when the waiter has given up.
        ended.exception()
    else:
        ended.set_result(task.result())
