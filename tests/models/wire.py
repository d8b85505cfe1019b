"""HTTP/1.1 as far as model clients need it, with full control over how an answer goes wrong."""

from __future__ import annotations

import asyncio
import gzip
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

HEAD_AT_MOST = 1 << 18


@dataclass(frozen=True)
class Arrived:
    """A request as it came."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes


async def read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Arrived:
    """Read a request; at the end of the connection that is an `IncompleteReadError`."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *rest = head.split("\r\n")
    method, target, _ = first.split(" ", 2)
    pairs = (line.partition(":") for line in rest if line)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    if headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    if "chunked" in headers.get("transfer-encoding", ""):
        body = await _chunked(reader)
    else:
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    if headers.get("content-encoding") == "gzip":
        body = gzip.decompress(body)
    parts = urlsplit(target)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    return Arrived(method, parts.path, query, headers, body)


async def _chunked(reader: asyncio.StreamReader) -> bytes:
    pieces = []
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        pieces.append(await reader.readexactly(size))
        await reader.readexactly(2)
    while await reader.readuntil(b"\r\n") != b"\r\n":
        pass
    return b"".join(pieces)


def start(status: int, headers: Mapping[str, str]) -> bytes:
    """Write the head of an answer; some statuses have no name."""
    try:
        name = HTTPStatus(status).phrase
    except ValueError:
        name = ""
    lines = [f"HTTP/1.1 {status} {name}", *(f"{key}: {value}" for key, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def document(status: int, body: bytes, headers: Mapping[str, str]) -> bytes:
    """Write a whole answer."""
    own = {"content-type": "application/json", "content-length": str(len(body))}
    return start(status, {**own, **headers}) + body


def chunk(data: bytes) -> bytes:
    """Write a piece of a stream; an empty one ends it."""
    return b"%x\r\n%s\r\n" % (len(data), data)


async def until_hung_up(telling: Awaitable[None], reader: asyncio.StreamReader) -> bool:
    """Tell to the end, or until the other side goes; say whether it heard the end."""
    tasks: list[asyncio.Future[Any]] = [
        asyncio.ensure_future(telling),
        # Nobody sends the next request before the answer is there: a byte now is the end.
        asyncio.ensure_future(reader.read(1)),
    ]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        heard = tasks[0].done()
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    return heard and not isinstance(results[0], Exception)
