"""Headers and bodies of requests as they arrive, within limits of length and time.

Pure ASGI. Must not know what a body means.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from orchestrator.web.edge.problems import Problem, too_large, too_slow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from starlette.types import Message, Receive, Send

LINGER = 2.0
"""Seconds in which the rest of a refused body is discarded, so that its sender reads why."""


class GoneError(Exception):
    """The client left before it had said everything."""


class Headers:
    """The headers of a request; names are in lower case already."""

    def __init__(self, raw: Iterable[tuple[bytes, bytes]]) -> None:
        self._raw = tuple(raw)

    def all(self, name: bytes) -> list[bytes]:
        """Return every value of a name."""
        return [value for key, value in self._raw if key == name]

    def first(self, name: bytes) -> bytes:
        """Return the first value of a name, or nothing."""
        return next((value for key, value in self._raw if key == name), b"")

    def length(self) -> int:
        """Return how long the body says it is; 0 if it does not."""
        said = self.first(b"content-length")
        return int(said) if said.isdigit() else 0

    def as_text(self) -> dict[str, str]:
        """Return one value for each name; of several the first counts."""
        return {
            key.decode("latin-1"): value.decode("latin-1") for key, value in reversed(self._raw)
        }


async def read_body(
    headers: Headers,
    receive: Receive,
    *,
    most: int,
    within: float,
    grown: Callable[[int], None] | None = None,
) -> bytes:
    """Return the whole body, if it is neither too long nor too slow.

    `grown` is told the length so far and may refuse more.
    """
    if headers.length() > most:
        raise too_large(most)
    pieces: list[bytes] = []
    length = 0
    try:
        async with asyncio.timeout(within):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise GoneError
                pieces.append(message.get("body", b""))
                length += len(pieces[-1])
                if length > most:
                    raise too_large(most)
                if grown is not None:
                    grown(length)
                if not message.get("more_body", False):
                    return b"".join(pieces)
    except TimeoutError:
        raise too_slow(within) from None


def replayed(body: bytes, receive: Receive) -> Receive:
    """Return a channel that gives a body which was read already, and then the rest."""
    told = False

    async def again() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


async def refuse(problem: Problem, receive: Receive, send: Send) -> None:
    """Answer with a problem; if it ends the connection, give the sender time to read why."""
    if "connection" not in problem.headers:
        await problem.send(send)
        return

    async def slowly(message: Message) -> None:
        if message["type"] != "http.response.body":
            await send(message)
            return
        await send({**message, "more_body": True})
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER):
                while (await receive()).get("more_body", False):
                    pass
        await send({"type": "http.response.body", "body": b""})

    await problem.send(slowly)
