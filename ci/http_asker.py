"""What can be asked of a host: one thing, a list, a change, the end of a log, lines that go on.

Owns conditional requests, redirects and pages. Must not know any forge, nor the library that opens
connections.
"""

from __future__ import annotations

import contextlib
import json as json_text
from typing import TYPE_CHECKING, Any

from ci.errors import ForgeError
from ci.http_answer import Answer, Place, Raw, fault_of, garbled, next_link, parse
from ci.http_body import End, Lines
from ci.http_host import LOG_LIMIT, LOG_PATIENCE, UNCHANGED, USUAL, Host, lower
from ci.http_kept import Kept, KeptAnswer
from ci.http_line import Request, ask, receive, within

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping

    from ci.budget import Budget
    from ci.http_line import Address, Line

MOST_MOVES = 3
MOVED = frozenset({301, 302, 303, 307, 308})
OK = 200
ANY_FORM = {"accept": "*/*"}


class Asker:
    """Asks one host, and others only for logs, as nobody."""

    def __init__(
        self, host: Host, *, new_line: Callable[[], Line], now: Callable[[], float]
    ) -> None:
        self._host = host
        self._new_line = new_line
        self._now = now
        self._kept = Kept()

    def __repr__(self) -> str:
        return f"Web({self._host.base.text!r})"

    @property
    def budget(self) -> Budget:
        """What the forge still lets us ask, as of its last answer."""
        return self._host.budget

    async def get(
        self,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Ask; what is kept is used again if the server says that it still holds.

        `path` may be an address of the same host. A move within the host is followed.
        """
        address = self._host.address(path, params)
        place, answer = await self._get_once(address, lower(headers))
        for _ in range(MOST_MOVES):
            if answer.status not in MOVED:
                break
            moved = self._moved(place, address, answer)
            if moved.origin != self._host.base.origin:
                text = f"it sends us on to {moved.host}, which is not asked: set the new address"
                raise ForgeError(place.text(text), status=answer.status)
            address = moved
            place, answer = await self._get_once(address, lower(headers))
        if answer.status in MOVED:
            text = f"it sends us on more than {MOST_MOVES} times"
            raise ForgeError(place.text(text), status=answer.status)
        return answer

    async def get_all(
        self,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        headers: Mapping[str, str] | None = None,
        key: str | None = None,
        most: int = 1000,
    ) -> list[Any]:
        """Ask for a list page by page, at most `most` of it; `key` picks it out of an object."""
        found: list[Any] = []
        address: Address | None = self._host.address(path, params)
        seen: set[str] = set()
        sizes = {(params or {}).get(name) for name in ("per_page", "limit")}
        while address is not None and address.text not in seen and len(found) < most:
            seen.add(address.text)
            answer = await self.get(address.text, headers=headers)
            page, link = self._page(address, answer, key)
            if link is None and answer.unchanged and len(page) in sizes:
                # A full page may stay as it was although another one begins after it now.
                self._kept.forget(_key(address, lower(headers)))
                answer = await self.get(address.text, headers=headers)
                page, link = self._page(address, answer, key)
            found += page
            address = None if link is None else self._next_page(link, address)
        return found[:most]

    async def send(
        self, method: str, path: str, *, json: Any = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Change something. Never kept, never tried twice: after an error ask what became of it."""
        content = None if json is None else json_text.dumps(json).encode()
        kind = {} if content is None else {"content-type": "application/json"}
        address = self._host.address(path)
        place, raw = await self._host.ask(method, address, kind | lower(headers), content=content)
        if (fault := fault_of(place, raw, self._now())) is not None:
            raise fault
        return Answer(raw.status, parse(place, raw, required=False), raw.headers)

    async def tail(
        self, path: str, *, most: int = 65536, headers: Mapping[str, str] | None = None
    ) -> str:
        """Return the end of a text, such as a log, wherever it is; other hosts get no credentials.

        Of a text longer than `LOG_LIMIT` it is the end of what was read, and says so.
        """
        end = End(most)
        address = self._host.address(path)
        wanted = ANY_FORM | lower(headers)
        place, raw = await self._host.ask("GET", address, wanted, end=end)
        home = True
        for _ in range(MOST_MOVES):
            if raw.status not in MOVED:
                break
            moved = self._moved(place, address, raw)
            if moved.scheme != "https" and address.scheme == "https":
                text = "it sends us on to an address without TLS, which is not asked"
                raise ForgeError(place.text(text), status=raw.status)
            # Whoever sends us back here from elsewhere must not speak with our voice.
            home = home and moved.origin == self._host.base.origin
            if home:
                place, raw = await self._host.ask("GET", moved, wanted, end=end)
            else:
                place, raw = await self._ask_stranger(moved, end)
            address = moved
        if (fault := fault_of(place, raw, self._now())) is not None:
            raise fault
        return end.text()

    async def lines(
        self, path: str, *, headers: Mapping[str, str] | None = None, idle: float = 60.0
    ) -> AsyncGenerator[str, None]:
        """Yield the lines of an answer that goes on, until it ends or the caller closes this.

        UnreachableError if nothing comes for `idle` seconds.
        """
        wanted = {**ANY_FORM, "accept-encoding": "identity", **lower(headers)}
        request = await self._host.request("GET", self._host.address(path), wanted)
        place = request.place
        async with self._host.admitted(), within(place, self._host.timeout):
            incoming = await self._host.line.open(request, idle=idle)
            if incoming.status != OK:
                raw = await receive(request, incoming)
                raise self._host.judged(place, raw) or garbled(place, raw.status, "no lines")
        splitter = Lines(self._host.max_body)
        async with contextlib.aclosing(incoming.pieces()) as pieces:
            async for piece in pieces:
                for line in splitter.feed(piece):
                    yield line
                if splitter.full:
                    raise garbled(place, OK, f"a line is longer than {self._host.max_body} bytes")

    async def aclose(self) -> None:
        """Close all connections."""
        await self._host.line.aclose()

    def _page(
        self, address: Address, answer: Answer, key: str | None
    ) -> tuple[list[Any], str | None]:
        """Return what one page lists, and the link to the next one."""
        page = answer.body.get(key) if key and isinstance(answer.body, dict) else answer.body
        if not isinstance(page, list):
            text = f"there is no list{f' {key!r}' if key else ''} in it"
            raise garbled(self._host.place("GET", address, {}), answer.status, text)
        return page, next_link(answer.headers)

    def _next_page(self, link: str, address: Address) -> Address:
        """Return the address of the next page, which must be of the same host."""
        return self._host.address(self._host.line.address(link, address).text)

    async def _get_once(self, address: Address, headers: Mapping[str, str]) -> tuple[Place, Answer]:
        """Ask without following, using what is kept."""
        key = _key(address, headers)
        kept = self._kept.find(key)
        question = {} if kept is None else dict([kept.question()])
        place, raw = await self._host.ask("GET", address, {**headers, **question})
        if raw.status in MOVED:
            return place, Answer(raw.status, None, raw.headers)
        if raw.status == UNCHANGED:
            if kept is None:
                raise garbled(place, raw.status, "nothing changed, it says, but nothing is known")
            before = kept.answer
            told = {**before.headers, **raw.headers}
            return place, Answer(before.status, before.body, told, unchanged=True)
        if (fault := fault_of(place, raw, self._now())) is not None:
            raise fault
        answer = Answer(raw.status, parse(place, raw, required=raw.status == OK), raw.headers)
        if raw.status == OK:
            etag, modified = raw.headers.get("etag", ""), raw.headers.get("last-modified", "")
            self._kept.keep(key, KeptAnswer(answer, etag, modified, len(raw.body)))
        return place, answer

    async def _ask_stranger(self, address: Address, end: End) -> tuple[Place, Raw]:
        """Ask another host, as nobody; even its path may be what opens the door there."""
        place = Place("GET", address.host, "", "ask the forge for a new one", {})
        headers = USUAL | ANY_FORM
        timeout = self._host.timeout * LOG_PATIENCE
        line = self._new_line()
        try:
            request = Request(place, address, headers, timeout, LOG_LIMIT, end=end)
            return place, await ask(line, request)
        finally:
            await line.aclose()

    def _moved(self, place: Place, address: Address, answer: Answer | Raw) -> Address:
        """Return where an answer sends us on to."""
        location = answer.headers.get("location")
        if not location:
            raise garbled(place, answer.status, "it sends us on, and does not say where to")
        return self._host.line.address(location, address)


def _key(address: Address, headers: Mapping[str, str]) -> tuple[str, str]:
    return address.text, headers.get("accept", "")
