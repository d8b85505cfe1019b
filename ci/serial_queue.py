"""One operation at a time, each completed once it has started.

Owns the order of a provider's changes. Must not know what the operations do.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")


class SerialQueue:
    """Runs operations one after the other.

    An operation runs in its own task: a caller that is cancelled stops waiting for it, but the
    operation completes, so that memory and store never disagree.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self, operation: Callable[[], Awaitable[T]]) -> T:
        """Run the operation after all earlier ones, and return its result."""
        task = asyncio.create_task(self._alone(operation))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    async def drain(self) -> None:
        """Wait until no operation is left; their errors go to their callers."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _alone(self, operation: Callable[[], Awaitable[T]]) -> T:
        async with self._lock:
            return await operation()
