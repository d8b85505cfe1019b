"""A model server on loopback that takes every request and never answers one.

Owns its listener and its connections. Keeps nothing of what it is sent.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_CHUNK = 1 << 16


class SilentServer:
    """Counts who asks."""

    def __init__(self) -> None:
        self.url = ""
        self.asked = 0
        """How many connections brought a request."""
        self._open: set[asyncio.Task[None]] = set()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Listen for ever."""
        task = asyncio.current_task()
        if task is None:
            return
        self._open.add(task)
        try:
            # Cancelled at the end: the streams of Python 3.11 would report that as an error.
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                if await reader.read(_CHUNK):
                    self.asked += 1
                while await reader.read(_CHUNK):
                    pass
        finally:
            self._open.discard(task)
            writer.close()

    async def end(self) -> None:
        """Hang up on all."""
        tasks = tuple(self._open)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.asynccontextmanager
async def silent_server() -> AsyncIterator[SilentServer]:
    """Serve on a free port of loopback until the block ends."""
    server = SilentServer()
    listener = await asyncio.start_server(server.connected, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listener.close()
        await server.end()
        await listener.wait_closed()
