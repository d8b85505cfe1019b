"""The HTTP server inside a runner's event loop: its start, its address and its end.

Owns the socket and the end. Signals are the runner's business; what is answered is the app's.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

import uvicorn

from orchestrator.web.edge.connection import MOST_CONNECTIONS, ClientConnection, OpenConnections

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Generator

    from starlette.types import ASGIApp

    from lifecycle.reporting import Report

GRACE = 1
"""Seconds in which answers under way may be finished."""
NOISE = ("without completing response", "Invalid HTTP request", "upgrade request", "WebSocket")
"""Messages that any client can cause; they are not logged."""


class Server:
    """Serves an application on a socket that is bound already; `async with` opens and closes it.

    `closing` is called first of all at the end, so that streams, which know no end, have one.
    """

    def __init__(
        self,
        app: ASGIApp,
        sock: socket.socket,
        *,
        report: Report,
        closing: Callable[[], None] | None = None,
        connections: OpenConnections | None = None,
    ) -> None:
        self._sock = sock
        self._closing = closing
        self._passing = _Passing(report)
        self.connections = connections or OpenConnections(most=_most_connections())
        self._server = _Uvicorn(
            uvicorn.Config(
                app,
                http=ClientConnection,
                loop="none",
                ws="none",
                lifespan="off",
                interface="asgi3",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                date_header=False,
                timeout_graceful_shutdown=GRACE,
            )
        )
        self._server.server_state = self.connections
        self._serving: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return url_of(self._sock)

    async def __aenter__(self) -> Self:
        """Listen."""
        self._passing.begin()
        self._serving = asyncio.get_running_loop().create_task(
            self._server.serve(sockets=[self._sock]), name="http server"
        )
        await asyncio.wait(
            {self._serving, started := asyncio.ensure_future(self._server.listening.wait())},
            return_when=asyncio.FIRST_COMPLETED,
        )
        started.cancel()
        if self._serving.done():
            await self.aclose()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Take nothing more, finish what is quick, drop the rest; harmless when called again."""
        serving, self._serving = self._serving, None
        if self._closing is not None:
            self._closing()
        self._server.leave.set()
        try:
            if serving is not None:
                await serving
        finally:
            self.connections.abort()
            self._sock.close()
            self._passing.end()
            await self.connections.emptied.wait()


class _Uvicorn(uvicorn.Server):
    """Uvicorn without its signal handlers and without a clock that ticks for nothing."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()
        self.leave = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave signals to the runner."""
        yield

    async def main_loop(self) -> None:
        """Serve until it is asked to end."""
        self.listening.set()
        await self.leave.wait()


class _Passing(logging.Handler):
    """Passes what uvicorn has to say on to the runner's log."""

    def __init__(self, report: Report) -> None:
        super().__init__(logging.WARNING)
        self._report = report
        self._logger = logging.getLogger("uvicorn.error")

    def begin(self) -> None:
        """Listen."""
        self._logger.addHandler(self)
        self._logger.propagate = False

    def end(self) -> None:
        """Listen no more."""
        self._logger.removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Pass on a line."""
        text = record.getMessage()
        if not any(noise in text for noise in NOISE):
            self._report("api_server_failed", reason=text.strip())


def url_of(sock: socket.socket) -> str:
    """Return the address of a bound socket as people type it."""
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _most_connections() -> int:
    """Leave the larger part of the files that may be open to the loops."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = soft // 4 if soft != resource.RLIM_INFINITY else MOST_CONNECTIONS
    return max(min(most, MOST_CONNECTIONS), 8)
