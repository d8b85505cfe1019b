"""The endpoint for webhooks: reads the raw body within its limits and passes it on.

Only a signature authenticates here, and it is checked elsewhere. Not part of FastAPI, because it
must be fast and must stay available whatever happens to the API.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Protocol

from ci.forge_registry import SENDERS
from ci.webhooks.receiver import MAX_BODY
from orchestrator.web.edge.bodies import Headers, read_body
from orchestrator.web.edge.problems import JSON_TYPE, Problem, busy, unknown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Receive, Scope, Send

    from ci.webhooks.receiver import Receipt
    from lifecycle.reporting import Report

PATH = "/hooks/"
WITHIN = 10.0
"""Seconds for a whole body of ordinary size."""
WITHIN_AT_MOST = 30.0
PER_SECOND = 1 << 20
"""Bytes of the announced length that allow another second."""
SMALL = 256 * 1024
"""Bytes of a body that is always accepted."""
MOST_HELD = 8 * MAX_BODY
"""Bytes of larger bodies in progress, all together."""
_CODES = {400: "unreadable", 401: "signature", 404: "unknown", 413: "too_large", 503: "store"}
_HELP = {
    400: "send the body as it is",
    401: "compare the secret that the sender has with the one that loopwright has",
    413: "send less",
    503: "send it again",
}


class Receives(Protocol):
    """Checks and keeps deliveries: of one repository, or of several."""

    async def take(self, provider: str, headers: Mapping[str, str], raw: bytes) -> Receipt:
        """Check a request and keep it."""
        ...


class Hooks:
    """Answers `POST /hooks/PROVIDER`; failures are raised as a Problem."""

    def __init__(
        self, receiver: Receives | None, *, report: Report, within: float = WITHIN
    ) -> None:
        self._receiver = receiver
        self._report = report
        self._within = within
        self._held = 0
        self.received: Counter[tuple[str, str]] = Counter()
        """By provider and outcome."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        provider = scope["path"].removeprefix(PATH)
        known = provider if provider in SENDERS else "other"
        try:
            receipt = await self._taken(provider, scope, receive)
        except Problem as problem:
            self.received[known, problem.code] += 1
            raise
        told = _CODES.get(receipt.status, "kept" if receipt.fresh else "known")
        self.received[known, told] += 1
        if receipt.reason:
            self._report("hook_refused", provider=known, reason=receipt.reason)
        if receipt.status in _CODES:
            help_ = _HELP.get(receipt.status, "")
            raise Problem(receipt.status, told, receipt.text, help_)
        await _accept(receipt, send)

    async def _taken(self, provider: str, scope: Scope, receive: Receive) -> Receipt:
        if provider not in SENDERS:
            raise unknown(f"there are hooks only for {', '.join(SENDERS)}", "look at its path")
        if scope["method"] != "POST":
            raise Problem(
                405, "method", "a hook is sent with POST", "send it with POST", {"allow": "POST"}
            )
        if self._receiver is None:
            raise Problem(503, "closed", "this runner takes no webhooks", "wait for one that does")
        headers = Headers(scope["headers"])
        within = min(self._within + headers.length() / PER_SECOND, WITHIN_AT_MOST)
        held = 0

        def grown(length: int) -> None:
            nonlocal held
            more = max(length, SMALL) - max(held, SMALL)
            if more and self._held + more > MOST_HELD:
                raise busy("too many large requests in progress")
            self._held, held = self._held + more, length

        try:
            raw = await read_body(headers, receive, most=MAX_BODY, within=within, grown=grown)
            return await self._receiver.take(provider, headers.as_text(), raw)
        finally:
            self._held -= max(held, SMALL) - SMALL


async def _accept(receipt: Receipt, send: Send) -> None:
    body = json.dumps({"key": receipt.key, "text": receipt.text}).encode()
    headers = [JSON_TYPE, (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": receipt.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
