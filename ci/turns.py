"""One operation at a time, each finished once it has begun.

Owns the order of a provider's changes. Must not know what the operations do.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")


class Turns:
    """A queue at a single door.

    An operation runs in its own task: a caller that is cancelled stops waiting for it, but never
    leaves it half done between what is recorded and what is known.
    """

    def __init__(self) -> None:
        self._door = asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()

    async def take(self, operation: Callable[[], Awaitable[T]]) -> T:
        """Run the operation when all earlier ones are through, and return its result."""
        task = asyncio.create_task(self._alone(operation))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    async def drain(self) -> None:
        """Wait until no operation is left; their errors are their callers' business."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _alone(self, operation: Callable[[], Awaitable[T]]) -> T:
        async with self._door:
            return await operation()
