"""For development: a tiny receiver that shows what a forge sends, and the way to a smee channel.

The receiver judges as the server does, but stores nothing and starts nothing.
"""

from __future__ import annotations

import asyncio
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ci.forge_registry import SENDERS, webhooks_of
from ci.http.client import HttpClient
from ci.webhook_delivery import DeliveryState, document
from ci.webhooks.receiver import MAX_BODY, Receiver, secrets_of
from ci.webhooks.relay import Relay, poster
from lifecycle.clock import SystemClock
from lifecycle.store.sqlite.store import SqliteStore
from orchestrator.errors import OrchestratorError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ci.webhooks.receiver import Receipt

LOOPBACK = "127.0.0.1"
_PATIENCE = 10.0
"""Seconds that a sender may be silent; one is served after the other."""
_ACCEPTED = 202
_REMEMBERED = 3600.0
_LONGEST_LINE = 3 * MAX_BODY
"""Bytes; a message brings the body as JSON, maybe twice."""
_CHANNEL_IDLE = 90.0
"""Seconds of silence after which a channel is taken for gone; smee says something every 30."""


class WebhookListener(HTTPServer):
    """Listens on this machine alone; `provider` is for requests to another path than /hooks/."""

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
        self._kept = SqliteStore.in_memory(clock=now).deliveries
        self._receiver = Receiver(
            self._kept,
            secrets={name: partial(secrets_of, environ, name) for name in SENDERS},
            now=now,
            wake=lambda: None,
        )
        super().__init__((LOOPBACK, port), _Handler)

    def take(self, provider: str, headers: Mapping[str, str], raw: bytes) -> Receipt:
        """Judge a request; recent ones are remembered, to recognise those sent again."""

        async def judged() -> Receipt:
            receipt, present = await self._receiver.take(provider, headers, raw), self._now()
            await self._kept.settle([receipt.key], DeliveryState.IGNORED, "", at=present)
            await self._kept.prune(present - _REMEMBERED)
            return receipt

        return asyncio.run(judged())


class _Handler(BaseHTTPRequestHandler):
    server: WebhookListener
    timeout = _PATIENCE

    def do_POST(self) -> None:
        length = self.headers.get("content-length", "")
        if not (length.isascii() and length.isdigit()):
            self._answer(411, "send a Content-Length")
            return
        if int(length) > MAX_BODY:
            self._answer(413, f"a delivery may have at most {MAX_BODY} bytes")
            return
        raw = self.rfile.read(int(length))
        place, _, last = self.path.partition("?")[0].rpartition("/")
        provider = last if place == "/hooks" else self.server.provider
        headers = {name.lower(): value for name, value in self.headers.items()}
        receipt = self.server.take(provider, headers, raw)
        self.server.tell(f"{provider}  {_told(provider, headers, raw)}  {_judged(receipt)}")
        self._answer(receipt.status, receipt.text)

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
    """Post the messages of a smee channel to a server on this machine, until cancelled."""
    parts = urlsplit(channel)
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        raise OrchestratorError(
            f"{channel!r} is not the address of a channel such as https://smee.io/abc"
        )

    async def sign() -> Mapping[str, str]:
        return {}

    web = HttpClient(
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


def _told(provider: str, headers: Mapping[str, str], raw: bytes) -> str:
    """Name event, id and size; the sender may be anybody."""
    if provider not in SENDERS:
        return f"{len(raw)} bytes"
    webhooks = webhooks_of(provider)
    event = webhooks.event(headers, document(headers, raw) or {}) or "(no event)"
    return "  ".join(filter(None, (event, webhooks.identity(headers, raw), f"{len(raw)} bytes")))


def _judged(reception: Receipt) -> str:
    if reception.status == _ACCEPTED:
        return f"correctly signed, {reception.text}"
    return reception.reason or reception.text
