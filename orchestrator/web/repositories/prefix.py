"""Puts the place of a repository before the addresses in its pages, as a proxy in front of it does.

A repository's application knows nothing of its place: what comes in has lost it, and what goes out
gets it here. Must not change a text that people wrote: only what stands in a tag is looked at.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote

from orchestrator.web.links import PLACES

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

PAGES = PLACES
API = "/api/v1/repositories/"
OF_ALL = ("static/", "login", "logout", "repositories")
"""How addresses begin, behind their slash, that belong to no repository."""
_TAG = re.compile(rb"<[a-zA-Z][^<>]*>")
_ADDRESS = re.compile(
    rb"( (?:href|action|formaction|src|hx-get|hx-post|hx-put|hx-delete|data-live|data-follow)="
    rb'\\?"|content="0;url=)/(?!/|%b)' % b"|".join(each.encode() for each in OF_ALL)
)
_STREAMS = "/ui/"
"""Where streams are pieces of pages; all others tell what agents and people wrote."""
_TOLD = (b"location", b"hx-redirect", b"hx-push-url", b"hx-location")


def prefixed(html: bytes, place: str) -> bytes:
    """Return HTML, or pieces of it in JSON, with the addresses of a repository at this place."""
    put = rb"\g<1>" + place.encode() + b"/"
    return _TAG.sub(lambda tag: _ADDRESS.sub(put, tag[0]), html)


def moved(address: bytes, place: str) -> bytes:
    """Return an address that a browser is sent to, at this place."""
    path = address[1:].decode("latin-1")
    if not address.startswith(b"/") or address.startswith(b"//"):
        return address
    back = "login?next=%2F"
    if path.startswith(back):
        return f"/login?next={quote(place, safe='')}%2F{path.removeprefix(back)}".encode("latin-1")
    return address if path.startswith(OF_ALL) else place.encode() + address


class Prefixed:
    """An application at the place of its repository."""

    def __init__(self, app: ASGIApp, place: str) -> None:
        self._app, self._place = app, place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, of which the path has lost the place already."""
        await self._app(scope, receive, _Answer(send, self._place, scope["path"]))


class _Answer:
    """Passes an answer on; a page as a whole, a stream piece by piece."""

    def __init__(self, send: Send, place: str, path: str) -> None:
        self._send, self._place, self._path = send, place, path
        self._start: Message | None = None
        self._pieces: list[bytes] = []
        self._streams = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            await self._begin(message)
        elif self._start is not None:
            await self._collect(self._start, message)
        elif self._streams and message.get("body"):
            await self._send({**message, "body": prefixed(message["body"], self._place)})
        else:
            await self._send(message)

    async def _begin(self, message: Message) -> None:
        headers = [
            (name, moved(value, self._place) if name in _TOLD else value)
            for name, value in message.get("headers", ())
        ]
        kind = dict(headers).get(b"content-type", b"")
        told = {**message, "headers": headers}
        if kind.startswith(b"text/html") and not self._path.startswith("/api/"):
            self._start = told
            return
        self._streams = kind.startswith(b"text/event-stream") and self._path.startswith(_STREAMS)
        await self._send(told)

    async def _collect(self, start: Message, message: Message) -> None:
        self._pieces.append(message.get("body", b""))
        if message.get("more_body", False):
            return
        body, self._start = prefixed(b"".join(self._pieces), self._place), None
        others = [each for each in start["headers"] if each[0] != b"content-length"]
        length = (b"content-length", str(len(body)).encode())
        await self._send({**start, "headers": [*others, length]})
        await self._send({**message, "body": body})
