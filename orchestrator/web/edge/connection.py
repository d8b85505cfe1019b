"""One connection, with a deadline for each thing that its client has to do.

Owns the deadlines and which one is closed when there are too many. Must not know what is asked for.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

if TYPE_CHECKING:
    from uvicorn.config import Config
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

HEAD_WITHIN = 10.0
"""Seconds from the beginning of a connection, or of a request, to the end of its headers."""
TAKEN_WITHIN = 30.0
"""Seconds in which a client must read what waits for it."""
MOST_HEAD = 64 * 1024
"""Bytes of a request's headers."""
MOST_WASTE = 2 * 1024 * 1024
"""Bytes of a body that are passed over after the answer, so that the client gets to read that."""
MOST_CONNECTIONS = 512


class OpenConnections(ServerState):
    """All connections of a server, the oldest first."""

    def __init__(
        self,
        *,
        most: int = MOST_CONNECTIONS,
        head_within: float = HEAD_WITHIN,
        taken_within: float = TAKEN_WITHIN,
    ) -> None:
        super().__init__()
        self.most = most
        self.head_within = head_within
        self.taken_within = taken_within
        self.open: dict[ClientConnection, None] = {}
        self.emptied = asyncio.Event()
        """Set while no connection is open."""
        self.emptied.set()

    def opened(self, connection: ClientConnection) -> None:
        """Make room: close the one that has kept us waiting the longest."""
        self.open[connection] = None
        self.emptied.clear()
        if len(self.open) > self.most:
            next((each for each in self.open if each.waits), connection).transport.abort()

    def closed(self, connection: ClientConnection) -> None:
        """Take note that one is gone."""
        self.open.pop(connection, None)
        if not self.open:
            self.emptied.set()

    def abort(self) -> None:
        """Close all that are left."""
        for connection in tuple(self.open):
            connection.transport.abort()


class ClientConnection(HttpToolsProtocol):
    """A connection that is closed when its client is too slow."""

    def __init__(
        self,
        config: Config,
        server_state: OpenConnections,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._connections = server_state
        self._head_timer: asyncio.TimerHandle | None = None
        self._taken_timer: asyncio.TimerHandle | None = None
        self._unasked = 0
        self._in_body = False

    @property
    def waits(self) -> bool:
        """Whether it is the client's turn: nothing is asked for, or not all of it."""
        return self._idle or self.cycle.more_body

    @property
    def _idle(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete

    def connection_made(  # type: ignore[override]  # as the base does
        self, transport: asyncio.Transport
    ) -> None:
        """Begin."""
        super().connection_made(transport)
        self._await_head()
        self._connections.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._head_timer = _stopped(self._head_timer)
        self._taken_timer = _stopped(self._taken_timer)
        self._connections.closed(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take received bytes; until a request is complete they are limited in time and size."""
        super().data_received(data)
        if not self._idle or self.transport.is_closing():
            return
        self._unasked += len(data)
        if self._unasked > (MOST_WASTE if self._in_body else MOST_HEAD):
            self.transport.abort()
        elif self._head_timer is None:
            self._await_head()

    def on_headers_complete(self) -> None:
        """Begin to serve."""
        self._head_timer = _stopped(self._head_timer)
        self._unasked = 0
        self._in_body = True
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Have all of a request."""
        self._in_body = False
        super().on_message_complete()

    def pause_writing(self) -> None:
        """Stop sending; the client has to catch up in time."""
        super().pause_writing()
        if self._taken_timer is None:
            within = self._connections.taken_within
            self._taken_timer = self.loop.call_later(within, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on sending."""
        self._taken_timer = _stopped(self._taken_timer)
        super().resume_writing()

    def _await_head(self) -> None:
        within = self._connections.head_within
        self._head_timer = self.loop.call_later(within, self.transport.abort)


def _stopped(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    if timer is not None:
        timer.cancel()
    return None
