"""The server as a runner has it beside its loops: bound first, built while the loops begin.

Owns which addresses may be used, and what is told about where it listens. Nothing of FastAPI or
uvicorn is imported before it runs.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from dataclasses import dataclass, replace
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from lifecycle.shortfall import patiently
from orchestrator.errors import OrchestratorError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from orchestrator.service import Work
    from orchestrator.web.office import Office
    from orchestrator.web.token import Token


BACKLOG = 128
HEAD_START = 0.2
"""Seconds that loops have for themselves; those that end within them cost no server."""


class FrontError(OrchestratorError):
    """The server cannot listen where it should."""


@dataclass(slots=True)
class Front:
    """A server that is bound to its address and waits for its runner."""

    sock: socket.socket
    host: str
    token: Token
    stays: bool
    say: Callable[[str], None] | None = None
    """Is told the address once requests are answered there; else the person at the terminal is."""

    async def run(self, office: Office, over: Callable[[], Awaitable[None]]) -> None:
        """Serve until `over` returns."""
        office.engine.parts.masker.learn({"LOOPWRIGHT_TOKEN": self.token.value})
        with self.sock:
            if not self.stays and await _comes(over, HEAD_START):
                return
            # Half a second of imports, in which the loops must be able to move.
            parts = await patiently(partial(asyncio.to_thread, _parts), office.report)
            async with parts.desk.Desk(office) as desk:
                app = await asyncio.to_thread(
                    parts.app.guarded,
                    desk,
                    token=self.token.value,
                    hosts=lambda: self._hosts(office),
                )
                async with parts.server.Server(
                    app, self.sock, report=office.report, closing=desk.leave
                ) as server:
                    if self.say is not None:
                        self.say(server.url)
                    else:
                        office.tell(f"the API is at {server.url}, its token in {self.token.place}")
                    await over()

    def _hosts(self, office: Office) -> frozenset[str]:
        named = office.settings().allowed_hosts
        return frozenset((_as_host(self.host), *(each.lower() for each in named)))


async def fronted(front: Front | None, planned: Awaitable[Work]) -> Work:
    """Return the work with the server beside it; where there is no work, nor will be, without."""
    try:
        work = await planned
    except BaseException:
        if front is not None:
            front.sock.close()
        raise
    if front is None:
        return work
    if not work.jobs and not front.stays:
        front.sock.close()
        return work
    return replace(work, beside=front)


async def _comes(over: Callable[[], Awaitable[None]], seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await over()
    except TimeoutError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class _Parts:
    app: Any
    desk: Any
    server: Any


def _parts() -> _Parts:
    from orchestrator.web import app, desk, server  # noqa: PLC0415  # heavy: only where it is used

    return _Parts(app, desk, server)


def bind(host: str, port: int, token: Token, *, any_port: bool = False) -> socket.socket:
    """Take an address; with `any_port` another one, if it is in use."""
    if not token.on_purpose and not is_loopback(host):
        raise FrontError(
            f"{host} can be reached from other machines, and whoever has the token can run any "
            "program here; give a token on purpose with --token-file FILE or LOOPWRIGHT_TOKEN, or "
            "stay on 127.0.0.1 and forward a port to it"
        )
    try:
        return bound(host, port)
    except OSError as problem:
        if any_port and problem.errno in (errno.EADDRINUSE, errno.EACCES):
            return bound(host, 0)
        hint = "name another with --port, or 0 for any that is free"
        raise FrontError(
            f"the server cannot listen on {host}:{port} ({problem.strerror}); {hint}"
        ) from problem


def bound(host: str, port: int) -> socket.socket:
    """Return a socket that listens; OSError if that cannot be.

    Who comes before anybody serves is kept waiting. Merely bound, the address could be taken by
    another process, too, and only one of them would find out later.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, protocol, _, address = found[0]
    made = socket.socket(family, kind, protocol)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(BACKLOG)
        made.setblocking(False)  # noqa: FBT003  # that is its form
    except OSError:
        made.close()
        raise
    return made


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach an address."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _as_host(host: str) -> str:
    plain = host.strip("[]").lower()
    return f"[{plain}]" if ":" in plain else plain
