"""For development: a tiny receiver that shows what a forge sends, and the way to a smee channel.

The receiver judges as the server does, but keeps nothing and wakes nobody.
"""

from __future__ import annotations

import asyncio
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ci.http import Web
from ci.inbox import DeliveryState
from ci.receiver import MAX_BODY, WORDINGS, Receiver, document, secrets_of
from ci.relay import Relay, poster
from lifecycle.clock import SystemClock
from lifecycle.store.memory import MemoryStore
from orchestrator.errors import OrchestratorError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ci.receiver import Reception

LOOPBACK = "127.0.0.1"
_PATIENCE = 10.0
"""Seconds that a sender may be silent; one is served after the other."""
_ACCEPTED = 202
_REMEMBERED = 3600.0
_LONGEST_LINE = 3 * MAX_BODY
"""Bytes; a message brings the body as JSON, maybe twice."""
_CHANNEL_IDLE = 90.0
"""Seconds of silence after which a channel is taken for gone; smee says something every 30."""


class Listener(HTTPServer):
    """Listens on this machine alone; `provider` is for what comes to another path than /hooks/."""

    def __init__(
        self,
        port: int,
        provider: str,
        *,
        environ: Mapping[str, str],
        now: Callable[[], float],
        tell: Callable[[str], None],
    ) -> None:
        self.provider = provider
        self.tell = tell
        self._now = now
        self._kept = MemoryStore(clock=now).deliveries
        self._receiver = Receiver(
            self._kept,
            secrets={name: partial(_secrets, environ, name) for name in WORDINGS},
            now=now,
            wake=lambda: None,
        )
        super().__init__((LOOPBACK, port), _Handler)

    def take(self, provider: str, headers: Mapping[str, str], raw: bytes) -> Reception:
        """Judge a request; what came lately is remembered, to know it when it is sent again."""

        async def judged() -> Reception:
            reception, present = await self._receiver.take(provider, headers, raw), self._now()
            await self._kept.settle([reception.key], DeliveryState.IGNORED, "", at=present)
            await self._kept.prune(present - _REMEMBERED)
            return reception

        return asyncio.run(judged())


class _Handler(BaseHTTPRequestHandler):
    server: Listener
    timeout = _PATIENCE

    def do_POST(self) -> None:
        length = self.headers.get("content-length", "")
        if not (length.isascii() and length.isdigit()):
            self._answer(411, "send a Content-Length")
            return
        if int(length) > MAX_BODY:
            self._answer(413, f"a delivery may have {MAX_BODY} bytes")
            return
        raw = self.rfile.read(int(length))
        place, _, last = self.path.partition("?")[0].rpartition("/")
        provider = last if place == "/hooks" else self.server.provider
        headers = {name.lower(): value for name, value in self.headers.items()}
        reception = self.server.take(provider, headers, raw)
        self.server.tell(f"{provider}  {_told(provider, headers, raw)}  {_judged(reception)}")
        self._answer(reception.status, reception.text)

    def _answer(self, status: int, text: str) -> None:
        body = f"{text}\n".encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # named so there
        """Say nothing of what was no delivery."""


async def pass_on(channel: str, port: int, path: str, *, tell: Callable[[str], None]) -> None:
    """Post what comes on a smee channel to a server on this machine, until cancelled."""
    parts = urlsplit(channel)
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        raise OrchestratorError(f"{channel!r} is no address of a channel, as https://smee.io/abc")

    async def sign() -> Mapping[str, str]:
        return {}

    web = Web(
        f"{parts.scheme}://{parts.netloc}",
        sign=sign,
        now=SystemClock().now,
        max_body=_LONGEST_LINE,
    )
    try:
        await Relay(
            lambda: web.lines(channel, headers={"accept": "text/event-stream"}, idle=_CHANNEL_IDLE),
            poster(LOOPBACK, port, path),
            tell=tell,
        ).run()
    finally:
        await web.aclose()


def _secrets(environ: Mapping[str, str], provider: str) -> tuple[str, ...]:
    return secrets_of(environ, provider)


def _told(provider: str, headers: Mapping[str, str], raw: bytes) -> str:
    """Name event, id and size; the sender may be anybody."""
    wording = WORDINGS.get(provider)
    if wording is None:
        return f"{len(raw)} bytes"
    event = wording.event(headers, document(headers, raw) or {}) or "(no event)"
    return "  ".join(filter(None, (event, wording.identity(headers, raw), f"{len(raw)} bytes")))


def _judged(reception: Reception) -> str:
    if reception.status == _ACCEPTED:
        return f"rightly signed, {reception.text}"
    return reception.reason or reception.text
