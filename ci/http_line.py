"""One request and its answer, over whatever carries them: what is asked of a line, and reading it.

Owns the forms that pass between `ci.http_asker` and `ci.http`, total timeouts and caps. Must not
know the library that opens connections.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from ci.errors import UnreachableError
from ci.http_answer import HIDDEN_IN, REDIRECTS, Place, Raw, garbled
from ci.http_body import Collector, End, PackingError, Unpacker

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Mapping


@dataclass(frozen=True, slots=True)
class Address:
    """An address that was understood; only `origin` says whether two are of the same host."""

    text: str
    scheme: str
    host: str
    """With the port, if it is not the usual one."""
    origin: tuple[str, str, int]
    parsed: Any = field(repr=False, compare=False)
    """As the line itself understands it: what was judged is what is asked."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is sent, and how much may come back in what time."""

    place: Place
    address: Address
    headers: Mapping[str, str]
    timeout: float
    most: int
    content: bytes | None = None
    end: End | None = None
    """Takes the body of a good answer, of which only the end matters."""


class Incoming(Protocol):
    """An answer of which the head is there."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, names in lower case."""
        ...

    def pieces(self) -> AsyncGenerator[bytes, None]:
        """Yield the body as it was sent; must be closed, which frees the connection."""
        ...


class Line(Protocol):
    """Connections to anywhere. Raises the errors of `ci.errors` only."""

    def address(self, text: str, base: Address | None = None) -> Address:
        """Understand an address; ForgeError if it is none."""
        ...

    async def open(self, request: Request, *, idle: float) -> Incoming:
        """Send; `idle` bounds the time between two signs of life."""
        ...

    async def aclose(self) -> None:
        """Close all connections."""
        ...


@contextlib.asynccontextmanager
async def within(place: Place, seconds: float) -> AsyncIterator[None]:
    """Give up after so long, however busy the other side seems."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise UnreachableError(place.text(f"no whole answer in {seconds:g} s")) from None


async def ask(line: Line, request: Request) -> Raw:
    """Send, and return the whole answer."""
    async with within(request.place, request.timeout):
        incoming = await line.open(request, idle=request.timeout)
        return await receive(request, incoming)


async def receive(request: Request, incoming: Incoming) -> Raw:
    """Read the body; of an error only as much as is worth reading."""
    good = incoming.status < REDIRECTS
    sink: Collector | End = request.end if good and request.end is not None else Collector()
    most = request.most if good else HIDDEN_IN
    try:
        async with contextlib.aclosing(incoming.pieces()) as pieces:
            unpacker = Unpacker(incoming.headers.get("content-encoding", ""), most)
            async for piece in pieces:
                for step in unpacker.feed(piece):
                    sink.add(step)
                if unpacker.full:
                    break
    except PackingError as error:
        raise garbled(request.place, incoming.status, str(error)) from None
    if isinstance(sink, End):
        if unpacker.full:
            sink.note(f"\n[the text goes on: only its first {most} bytes were read]\n")
        return Raw(incoming.status, incoming.headers, b"")
    if good and unpacker.full:
        raise garbled(request.place, incoming.status, f"the answer is longer than {most} bytes")
    if good and not unpacker.whole():
        raise garbled(request.place, incoming.status, "the packed answer is cut off")
    return Raw(incoming.status, incoming.headers, sink.take())
