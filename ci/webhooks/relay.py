"""The relay for development: takes webhooks from a smee channel and posts them to our own server.

Such a channel serves machines that the internet cannot reach. It is public to everybody who knows
its address, guarantees nothing, and forwards bodies as parsed JSON: they are serialised here as
JavaScript does it, so a signature over the original bytes may no longer match. A message with a
`rawBody` is forwarded byte by byte. Our server checks the signature before anything is trusted.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import random
import re
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from ci.errors import ForgeError
from ci.events import clean_line
from ci.forge_registry import SENDERS, webhooks_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping

FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0
"""Seconds before the channel is opened again; doubled each time, with jitter."""
_NOT_PASSED_ON = frozenset(
    {
        "body", "rawbody", "query", "timestamp",
        "host", "connection", "content-length", "transfer-encoding", "content-encoding",
        "accept-encoding", "expect", "upgrade",
    }
)  # fmt: skip
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_VALUE = re.compile(r"[ -~]*")
_TIMEOUT = 30.0
_UNAUTHORIZED = 401
_REWRITTEN = (
    "our server refused the signature: compare the secrets; if they are the same, the channel "
    "changed the body on the way, and only a real connection (or polling) helps"
)

Request = tuple[dict[str, str], bytes]


class Relay:
    """Posts what arrives on a channel; `run` ends only when it is cancelled."""

    def __init__(
        self,
        lines: Callable[[], AsyncGenerator[str, None]],
        post: Callable[[Mapping[str, str], bytes], Awaitable[int]],
        *,
        tell: Callable[[str], None],
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        rng: Callable[[], float] = random.random,
    ) -> None:
        self._lines = lines
        self._post = post
        self._tell = tell
        self._sleep = sleep
        self._rng = rng
        self._wait = FIRST_WAIT
        self._away = False
        self._warned = False

    async def run(self) -> None:
        """Open the channel again whenever it ends."""
        while True:
            problem = "it was closed"
            try:
                await self._listen()
            except ForgeError as refused:
                problem = str(refused)
            if not self._away:
                self._tell(f"the channel was closed and is opened again: {problem}")
            self._away = True
            await self._sleep(self._wait * (0.5 + self._rng() / 2))
            self._wait = min(self._wait * 2, LONGEST_WAIT)

    async def _listen(self) -> None:
        kind, data = "", list[str]()
        async with aclosing(self._lines()) as lines:
            async for line in lines:
                self._opened()
                if line.startswith("data:"):
                    data.append(line[5:].removeprefix(" "))
                elif line.startswith("event:"):
                    kind = line[6:].strip()
                elif not line:
                    if data and kind in {"", "message"}:
                        await self._pass_on("\n".join(data))
                    kind, data = "", []

    def _opened(self) -> None:
        if self._away:
            self._tell("the channel is open again; what arrived in between is lost")
        self._away, self._wait = False, FIRST_WAIT

    async def _pass_on(self, message: str) -> None:
        request = request_of(message)
        if request is None:
            self._tell("a message on the channel was not a webhook and is not passed on")
            return
        headers, body = request
        names = (webhooks_of(sender).EVENT_HEADER for sender in SENDERS)
        name = clean_line(next((headers[name] for name in names if name in headers), "a webhook"))
        try:
            status = await self._post(headers, body)
        except (OSError, http.client.HTTPException) as problem:
            self._tell(f"{name} was not passed on ({problem}): is `loopwright serve` running?")
            return
        self._tell(f"{name} was passed on and answered with {status}")
        if status == _UNAUTHORIZED and not self._warned:
            self._warned = True
            self._tell(_REWRITTEN)


def request_of(message: str) -> Request | None:
    """Return headers and body of the webhook in a message; None if it is not a webhook."""
    try:
        found = json.loads(message)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or "body" not in found:
        return None
    # An invalid header would let anybody on the channel inject lines into our request.
    headers = {
        name.lower(): value
        for name, value in found.items()
        if isinstance(value, str)
        and name.lower() not in _NOT_PASSED_ON
        and _NAME.fullmatch(name)
        and _VALUE.fullmatch(value)
    }
    raw = found.get("rawBody")
    if isinstance(raw, str):
        return headers, _encoded(raw)
    return {**headers, "content-type": "application/json"}, _as_javascript(found["body"])


def poster(host: str, port: int, path: str) -> Callable[[Mapping[str, str], bytes], Awaitable[int]]:
    """Return a function that posts to a server on this machine and returns the status."""

    def post(headers: Mapping[str, str], body: bytes) -> int:
        connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT)
        try:
            connection.request("POST", path, body, dict(headers))
            return connection.getresponse().status
        finally:
            connection.close()

    async def posted(headers: Mapping[str, str], body: bytes) -> int:
        return await asyncio.to_thread(post, headers, body)

    return posted


def _as_javascript(value: Any) -> bytes:
    return _encoded(json.dumps(value, separators=(",", ":"), ensure_ascii=False))


def _encoded(text: str) -> bytes:
    # A lone surrogate is written as the escape that JSON has for it, as JavaScript does.
    return text.encode(errors="backslashreplace")
