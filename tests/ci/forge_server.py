"""A small real HTTP server on loopback that plays a forge, well or badly.

    async with forge_server() as server:
        server.route("GET", "/repos/{owner}/{name}", answers({"id": 1}, etag='"a"'))
        server.route("POST", "/repos/o/r/pulls", lambda asked: answers(asked.json(), status=201))
        server.route("GET", "/bad", in_turn(fails(502), fails(502), answers({"ok": True})))
        ... server.url, server.requests, server.count("GET", "/bad", status=502)

A route is a `Reply` or a function of the request that returns one, plain or awaitable. The newest
route that fits wins; `{name}` stands for one piece of a path as it was sent (`a%2Fb` is one
piece). Whatever has no route is 404. With `server.allowance` set, all that is not 304 counts.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import inspect
import json
import re
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    Play = Callable[[asyncio.StreamWriter, bytes], Awaitable[None]]


@dataclass
class Asked:
    """A request as it arrived, and what it was answered."""

    method: str
    path: str
    """As it was sent, still quoted, without the query."""
    query: dict[str, str]
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes
    names: dict[str, str] = field(default_factory=dict)
    """What the `{name}` pieces of the route stood for."""
    status: int = 0
    """Of the answer; 0 while there is none."""
    told: bytes = b""
    """The body of the answer."""

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Reply:
    """What to answer; `play` writes it in its own way instead."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    play: Play | None = None


Handler = "Callable[[Asked], Reply | Awaitable[Reply]]"


def answers(
    body: Any, *, status: int = 200, etag: str = "", headers: Mapping[str, str] | None = None
) -> Reply:
    """JSON; with an ETag, a request that names it is told 304."""
    extra = {"etag": etag} if etag else {}
    return Reply(
        status,
        json.dumps(body).encode(),
        {"content-type": "application/json; charset=utf-8", **extra, **(headers or {})},
    )


def text(
    body: str | bytes, *, kind: str = "text/plain", headers: Mapping[str, str] | None = None
) -> Reply:
    raw = body.encode() if isinstance(body, str) else body
    return Reply(200, raw, {"content-type": kind, **(headers or {})})


def fails(status: int, message: str = "", **headers: str) -> Reply:
    """An error as forges tell it; `retry_after="3"` becomes the header `retry-after: 3`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return answers({"message": message or HTTPStatus(status).phrase}, status=status, headers=named)


def moved(to: str, *, status: int = 302) -> Reply:
    return Reply(status, b"", {"location": to})


def zipped(reply: Reply, *, level: int = 6) -> Reply:
    headers = {**reply.headers, "content-encoding": "gzip"}
    return Reply(reply.status, gzip.compress(reply.body, level, mtime=0), headers)


def in_turn(*replies: Reply) -> Callable[[Asked], Reply]:
    """One after the other; the last one for ever."""
    left = list(replies)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


def hangs() -> Reply:
    """Takes the request and never answers."""

    async def play(_: asyncio.StreamWriter, __: bytes) -> None:
        await asyncio.Event().wait()

    return Reply(play=play)


def drips(reply: Reply, *, every: float = 0.02, at_once: int = 0) -> Reply:
    """Sends byte after byte, in time for every timeout between two of them."""

    async def play(writer: asyncio.StreamWriter, raw: bytes) -> None:
        writer.write(raw[:at_once])
        for place in range(at_once, len(raw)):
            writer.write(raw[place : place + 1])
            await writer.drain()
            await asyncio.sleep(every)

    return Reply(reply.status, reply.body, reply.headers, play)


def cut_off(reply: Reply, *, missing: int = 1) -> Reply:
    """Promises more bytes than it sends."""

    async def play(writer: asyncio.StreamWriter, raw: bytes) -> None:
        writer.write(raw[:-missing])
        await writer.drain()
        writer.close()

    return Reply(reply.status, reply.body, reply.headers, play)


def raw(sent: bytes, *, then_hang: bool = False) -> Reply:
    """Sends exactly these bytes (none: hangs up without a word) and closes."""

    async def play(writer: asyncio.StreamWriter, _: bytes) -> None:
        writer.write(sent)
        await writer.drain()
        if then_hang:
            await asyncio.Event().wait()
        writer.close()

    return Reply(play=play)


@dataclass
class Allowance:
    """A rate limit that is really kept: so many requests in so many seconds."""

    limit: int
    seconds: float
    now: Callable[[], float]
    gitlab: bool = False
    used: int = 0
    resets_at: float = 0.0

    def headers(self) -> dict[str, str]:
        start = "ratelimit" if self.gitlab else "x-ratelimit"
        return {
            f"{start}-limit": str(self.limit),
            f"{start}-remaining": str(max(0, self.limit - self.used)),
            f"{start}-reset": str(int(self.resets_at)),
        }

    def take(self, reply: Reply) -> Reply:
        if self.now() >= self.resets_at:
            self.used, self.resets_at = 0, self.now() + self.seconds
        if reply.status != HTTPStatus.NOT_MODIFIED:
            if self.used >= self.limit:
                reply = fails(429 if self.gitlab else 403, "API rate limit exceeded")
            self.used += 1
        return Reply(reply.status, reply.body, {**reply.headers, **self.headers()}, reply.play)


class ForgeServer:
    """Routes and what was asked; made by `forge_server`."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[Asked] = []
        self.connections = 0
        """How many were opened so far."""
        self.allowance: Allowance | None = None
        self._routes: list[tuple[str, re.Pattern[str], Any]] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    def route(self, method: str, path: str, handler: Reply | Any) -> None:
        """Answer so from now on; see the module's text."""
        names = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(path))
        self._routes.insert(0, (method, re.compile(names), handler))

    def overlay(self) -> Callable[[], None]:
        """Let later routes count until the returned function is called."""
        before = list(self._routes)

        def heal() -> None:
            self._routes[:] = before

        return heal

    def count(self, method: str, path: str, *, status: int | None = None) -> int:
        """Say how many such requests came."""
        return sum(
            (each.method, each.path) == (method, path) and status in (None, each.status)
            for each in self.requests
        )

    @property
    def open_connections(self) -> int:
        """How many there are now."""
        return len(self._writers)

    def hang_up(self) -> None:
        """Close every connection, as servers do with idle ones."""
        for writer in tuple(self._writers):
            writer.close()

    async def stop(self) -> None:
        """Leave no task behind."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        self._writers.add(writer)
        self.connections += 1
        # Cancelled by `stop`: the streams of Python 3.11 would report that as an error.
        ends = (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError)
        try:
            with contextlib.suppress(*ends):
                while not writer.is_closing():
                    await self._exchange(await _read(reader), reader, writer)
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _exchange(
        self, asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.requests.append(asked)
        reply = await self._reply(asked)
        if self.allowance is not None:
            reply = self.allowance.take(reply)
        asked.status, asked.told = reply.status, reply.body
        sent = _written(reply)
        if reply.play is not None:
            await _until_hung_up(reply.play(writer, sent), reader)
            return
        writer.write(sent)
        await writer.drain()

    async def _reply(self, asked: Asked) -> Reply:
        for method, pattern, handler in self._routes:
            fits = pattern.fullmatch(asked.path)
            if method != asked.method or fits is None:
                continue
            asked.names = fits.groupdict()
            reply = handler if isinstance(handler, Reply) else handler(asked)
            reply = await reply if inspect.isawaitable(reply) else reply
            return reply if not _still_holds(asked, reply) else _unchanged(reply)
        return fails(404, "Not Found")


async def _until_hung_up(playing: Awaitable[None], reader: asyncio.StreamReader) -> None:
    """Play to the end, or until the other side goes."""
    tasks = [asyncio.ensure_future(playing), asyncio.ensure_future(reader.read(1))]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _still_holds(asked: Asked, reply: Reply) -> bool:
    """Judge as servers do: the ETag, and only without one the date."""
    if asked.method != "GET" or reply.status != HTTPStatus.OK:
        return False
    named = asked.headers.get("if-none-match")
    if named is not None:
        return named == reply.headers.get("etag")
    since = asked.headers.get("if-modified-since")
    return since is not None and since == reply.headers.get("last-modified")


def _unchanged(reply: Reply) -> Reply:
    kept = {"etag", "last-modified"}
    headers = {name: value for name, value in reply.headers.items() if name in kept}
    return Reply(304, b"", headers, reply.play)


def _written(reply: Reply) -> bytes:
    headers = dict(reply.headers)
    if reply.status not in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED):
        headers.setdefault("content-length", str(len(reply.body)))
    lines = [f"HTTP/1.1 {reply.status} {HTTPStatus(reply.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + reply.body


async def _read(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *rest = head.split("\r\n")
    method, target, _ = first.split(" ", 2)
    pairs = (line.partition(":") for line in rest if line)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    parts = urlsplit(target)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    return Asked(method, parts.path, query, headers, body)


@contextlib.asynccontextmanager
async def forge_server(*, tls: ssl.SSLContext | None = None) -> AsyncIterator[ForgeServer]:
    """Run one on a free port of 127.0.0.1; it is gone afterwards."""
    server = ForgeServer()
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls)
    port = listener.sockets[0].getsockname()[1]
    server.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    try:
        yield server
    finally:
        listener.close()
        await server.stop()
        await listener.wait_closed()
        while any(_shakes_hands(task) for task in asyncio.all_tasks()):  # noqa: ASYNC110  # not ours
            await asyncio.sleep(0.001)


def _shakes_hands(task: asyncio.Task[Any]) -> bool:
    """Say whether the event loop is still greeting somebody for us, over TLS."""
    return "_accept_connection2" in repr(task.get_coro())


async def closed_port() -> str:
    """Return the url of a port that nobody listens on."""
    async with forge_server() as server:
        return server.url
