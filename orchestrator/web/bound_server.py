"""The server beside the loops of a runner: bound first, built while the loops begin.

Owns which addresses may be used, and which address is shown. Nothing of FastAPI or
uvicorn is imported before it runs.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from dataclasses import dataclass, field, replace
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from lifecycle.shortage_retry import patiently
from orchestrator.background.own_output import is_kept
from orchestrator.errors import OrchestratorError
from orchestrator.web.links import sign_in_link
from orchestrator.web.token import VARIABLE, WORKER_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from orchestrator.runner.server_interface import RunnerPort
    from orchestrator.runner.workload import Workload
    from orchestrator.web.services import ServerServices
    from orchestrator.web.token import Token


BACKLOG = 128
HEAD_START = 0.2
"""Seconds before the server is built: loops that end within them need none."""


class ServerAddressError(OrchestratorError):
    """The server cannot listen where it should."""


@dataclass(slots=True)
class BoundServer:
    """A server that is bound to its address and waits for its runner."""

    sock: socket.socket
    host: str
    token: Token
    stays: bool
    say: Callable[[str], None] | None = None
    """Called with the address once requests are answered there; without it the runner shows it."""
    worker_token: str = field(default="", repr=False)
    """By which workers hand in what their attempts left; without one none can."""
    services: ServerServices | None = None
    """What it serves with, once it does."""

    @property
    def used_at(self) -> float | None:
        """When somebody who is signed in last asked for something; None if nobody did."""
        return self.services.door.used_at if self.services is not None else None

    async def decisions(self) -> int:
        """Return how many lifecycles wait for a person's decision."""
        if self.services is None:
            return 0
        await self.services.board.look()
        return self.services.board.needs()

    async def run(self, runner: RunnerPort, over: Callable[[], Awaitable[None]]) -> None:
        """Serve until `over` returns."""
        learn = runner.engine.shared.masker.learn
        learn({VARIABLE: self.token.value, WORKER_VARIABLE: self.worker_token})
        with self.sock:
            if not self.stays and await _comes(over, HEAD_START):
                return
            # Half a second of imports, in which the loops must be able to move.
            app_module, server_module, services_module = await patiently(
                partial(asyncio.to_thread, _modules), runner.report
            )
            async with services_module.ServerServices(
                runner, token=self.token.value, worker_token=self.worker_token
            ) as services:
                self.services = services
                app = await asyncio.to_thread(
                    app_module.guarded,
                    services,
                    hosts=lambda: hosts_of(self.host, runner.settings().allowed_hosts),
                )
                async with server_module.Server(
                    app, self.sock, report=runner.report, closing=services.leave
                ) as server:
                    runner.serves_at(server.url)
                    if self.say is not None:
                        self.say(server.url)
                    else:
                        runner.tell(f"the API is at {server.url}, its token in {self.token.place}")
                        if is_kept():
                            runner.tell("sign in: `loopwright serve --link` prints a link")
                        else:
                            link = sign_in_link(server.url, self.token.value, now=runner.now())
                            runner.tell(f"sign in (once, within 15 min): {link}")
                    await over()


def hosts_of(host: str, named: Iterable[str]) -> frozenset[str]:
    """Return the names by which a server may be addressed that listens on `host`."""
    return frozenset((_as_host(host), *(each.lower() for each in named)))


async def with_server(server: BoundServer | None, planned: Awaitable[Workload]) -> Workload:
    """Return the work with the server beside it; without it where there is and will be no work."""
    try:
        work = await planned
    except BaseException:
        if server is not None:
            server.sock.close()
        raise
    if server is None:
        return work
    if not work.jobs and not server.stays:
        server.sock.close()
        return work
    return replace(work, beside=server)


async def _comes(over: Callable[[], Awaitable[None]], seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await over()
    except TimeoutError:
        return False
    return True


def _modules() -> tuple[Any, Any, Any]:
    from orchestrator.web import app, server, services  # noqa: PLC0415  # half a second: in a thread

    return app, server, services


def bind(host: str, port: int, token: Token, *, any_port: bool = False) -> socket.socket:
    """Take an address; with `any_port` another one, if it is in use."""
    if not token.on_purpose and not is_loopback(host):
        raise ServerAddressError(
            f"{host} can be reached from other machines, and anyone who has the token can run any "
            "program here; choose a token with --token-file FILE or LOOPWRIGHT_TOKEN, or "
            "stay on 127.0.0.1 and forward a port to it"
        )
    try:
        return bound(host, port)
    except OSError as problem:
        if any_port and problem.errno in (errno.EADDRINUSE, errno.EACCES):
            return bound(host, 0)
        hint = "name another with --port, or 0 for any that is free"
        raise ServerAddressError(
            f"the server cannot listen on {host}:{port} ({problem.strerror}); {hint}"
        ) from problem


def bound(host: str, port: int) -> socket.socket:
    """Return a socket that listens; OSError if that cannot be.

    Early clients are kept waiting. Merely bound, the address could be taken by
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
