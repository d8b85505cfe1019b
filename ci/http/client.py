"""The HTTP client of a forge: one resource, a list, a change, the end of a log, a line stream.

Owns who gets our credentials, which is the forge's host alone; conditional requests, redirects and
pages; updating the circuit breaker and the rate budget. Must not know any forge, nor the library
that opens connections: that is `ci.http.connections`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json as json_text
import random
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from ci.errors import ForgeError, GarbledError, LimitedError, UnreachableError
from ci.http.cache import Cache, question
from ci.http.circuit_breaker import CircuitBreakers
from ci.http.connections import body, connect, origin, parse_address, receive, send, within
from ci.http.rate_limit import RateBudget, usual
from ci.http.response import (
    CLIENT_ERRORS,
    HIDDEN_IN,
    LineSplitter,
    RequestContext,
    Response,
    TailBuffer,
    fault_of,
    garbled,
    next_link,
    parse,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping

    from ci.http.connections import Address, Connections, Incoming
    from ci.http.response import RawResponse

__all__ = ["CircuitBreakers", "HttpClient", "RateBudget", "Response"]

MIB = 1024 * 1024
LOG_LIMIT = 32 * MIB
"""Bytes of a log that are read at most to find its end."""
LOG_PATIENCE = 3
"""Times the usual timeout, as a log may be long."""
AT_ONCE = 4
"""Concurrent requests; waiting for a slot does not count towards a timeout."""
MOST_MOVES = 3
OK, UNCHANGED = 200, 304
ANY_FORM = {"accept": "*/*"}
USUAL = {"user-agent": "loopwright", "accept": "application/json", "accept-encoding": "gzip"}
MOVED = frozenset({301, 302, 303, 307, 308})


class HttpClient:
    """Sends requests to one host, and unsigned ones to others for logs. Close it at the end."""

    def __init__(  # noqa: PLR0913  # each is something that a forge or a test decides
        self,
        base_url: str,
        *,
        sign: Callable[[], Awaitable[Mapping[str, str]]],
        now: Callable[[], float],
        advice: str = "give another one",
        breakers: CircuitBreakers | None = None,
        timeout: float = 20.0,
        max_body: int = 16 * MIB,
        rng: Callable[[], float] = random.random,
    ) -> None:
        """`sign` returns the headers that sign us in; `advice` says what to do about a bad token.

        All clients of a program share the same `breakers`. Proxies and certificates are those of
        the environment: https_proxy, http_proxy, all_proxy, no_proxy, SSL_CERT_FILE, SSL_CERT_DIR.
        """
        self.budget = RateBudget()
        """The remaining rate limit, as of the last answer."""
        self._users = 1
        self._base = parse_address(base_url)
        self._origin = origin(self._base)
        self._host = _name(self._base)
        self._connections: Connections | None = None
        self._breaker = (breakers or CircuitBreakers()).of(f"{self._base.scheme}://{self._host}")
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._cache = Cache()
        self._sign = sign
        self._now = now
        self._advice = advice
        self._timeout = timeout
        self._max_body = max_body
        self._rng = rng

    def __repr__(self) -> str:
        return f"HttpClient({str(self._base)!r})"

    async def get(
        self,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Get a resource; a cached response is reused if the server says that it is still valid.

        `path` may be an address of the same host. Redirects within the host are followed.
        """
        address, wanted = self._address(path, params), _lower(headers)
        context, answer = await self._get_once(address, wanted)
        for _ in range(MOST_MOVES):
            if answer.status not in MOVED:
                return answer
            address = _moved(context, address, answer)
            if not self._is_ours(address):
                text = f"it redirects to {_name(address)}, which is not asked: set the new address"
                raise ForgeError(context.text(text), status=answer.status)
            context, answer = await self._get_once(address, wanted)
        if answer.status in MOVED:
            text = f"it redirects more than {MOST_MOVES} times"
            raise ForgeError(context.text(text), status=answer.status)
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
        """Get a list page by page, at most `most` entries; `key` selects it within an object."""
        found: list[Any] = []
        address: Address | None = self._address(path, params)
        seen: set[Address] = set()
        sizes = {(params or {}).get(name) for name in ("per_page", "limit")}
        while address is not None and address not in seen and len(found) < most:
            seen.add(address)
            answer = await self.get(str(address), headers=headers)
            page, link = self._page(address, answer, key)
            if link is None and answer.unchanged and len(page) in sizes:
                # A full page may be unchanged although a next page exists now.
                self._cache.forget(_key(address, _lower(headers)))
                answer = await self.get(str(address), headers=headers)
                page, link = self._page(address, answer, key)
            found += page
            address = self._address(str(parse_address(link, address))) if link else None
        return found[:most]

    async def send(
        self, method: str, path: str, *, json: Any = None, headers: Mapping[str, str] | None = None
    ) -> Response:
        """Change something. Never cached, never retried: after an error check the outcome."""
        content = None if json is None else json_text.dumps(json).encode()
        kind = {} if content is None else {"content-type": "application/json"}
        address = self._address(path)
        context, raw = await self._ask(method, address, kind | _lower(headers), content=content)
        self._refuse(context, raw)
        return Response(raw.status, parse(context, raw, required=False), raw.headers)

    async def tail(
        self, path: str, *, most: int = 65536, headers: Mapping[str, str] | None = None
    ) -> str:
        """Return the end of a text, such as a log, on any host; other hosts get no credentials.

        Of a text longer than `LOG_LIMIT` it is the end of the part that was read, with a note.
        """
        end = TailBuffer(most)
        address, wanted = self._address(path), ANY_FORM | _lower(headers)
        context, raw = await self._ask("GET", address, wanted, end=end)
        own = True
        for _ in range(MOST_MOVES):
            if raw.status not in MOVED:
                break
            moved = _moved(context, address, raw)
            if moved.scheme != "https" and address.scheme == "https":
                text = "it redirects to an address without TLS, which is not asked"
                raise ForgeError(context.text(text), status=raw.status)
            # A redirect back to our host from elsewhere must not be signed with our token.
            own = own and self._is_ours(moved)
            if own:
                context, raw = await self._ask("GET", moved, wanted, end=end)
            else:
                context, raw = await self._ask_other_host(moved, end)
            address = moved
        self._refuse(context, raw)
        return end.text()

    async def lines(
        self, path: str, *, headers: Mapping[str, str] | None = None, idle: float = 60.0
    ) -> AsyncGenerator[str, None]:
        """Yield the lines of a streamed answer until it ends or the caller closes this.

        UnreachableError if nothing comes for `idle` seconds.
        """
        address, splitter = self._address(path), LineSplitter(self._max_body)
        wanted = {**ANY_FORM, "accept-encoding": "identity", **_lower(headers)}
        context, sent = await self._signed("GET", address, wanted)
        async with self._admitted(context, self._timeout):
            incoming = await self._open(context, address, sent, idle=idle)
            if incoming.status_code != OK:
                raw = await receive(context, incoming, HIDDEN_IN, None)
                raise self._judged(context, raw) or garbled(context, raw.status, "no lines")
        async with contextlib.aclosing(body(context, incoming, whole=False)) as pieces:
            async for piece in pieces:
                for line in splitter.feed(piece):
                    yield line
                if splitter.full:
                    raise garbled(context, OK, f"a line is longer than {self._max_body} bytes")

    def share(self) -> None:
        """Count one more user: each takes its part of the rate limit, and the last one closes."""
        self._users += 1
        self.budget = self.budget.shared_by(self._users)

    async def aclose(self) -> None:
        """Close all connections, once nobody uses them any more."""
        self._users -= 1
        self.budget = self.budget.shared_by(max(self._users, 1))
        if self._users > 0:
            return
        connections, self._connections = self._connections, None
        if connections is not None:
            await connections.aclose()

    async def _ask(
        self,
        method: str,
        address: Address,
        headers: Mapping[str, str],
        *,
        content: bytes | None = None,
        end: TailBuffer | None = None,
    ) -> tuple[RequestContext, RawResponse]:
        """Send a request to our host. A status below 400 is returned, any other raised.

        `end` takes the body of a good answer, of which only the end matters.
        """
        context, sent = await self._signed(method, address, headers)
        timeout = self._timeout if end is None else self._timeout * LOG_PATIENCE
        most = self._max_body if end is None else LOG_LIMIT
        async with self._slots, self._admitted(context, timeout):
            incoming = await self._open(context, address, sent, content=content, idle=timeout)
            raw = await receive(context, incoming, most, end)
            if (fault := self._judged(context, raw)) is not None:
                raise fault
        return context, raw

    async def _ask_other_host(
        self, address: Address, end: TailBuffer
    ) -> tuple[RequestContext, RawResponse]:
        """Send an unsigned request to another host; its path may itself be a secret."""
        context = RequestContext("GET", _name(address), "", "ask the forge for a new one", {})
        timeout = self._timeout * LOG_PATIENCE
        async with within(context, timeout), connect(context, address) as connections:
            incoming = await send(connections, context, address, USUAL | ANY_FORM, idle=timeout)
            return context, await receive(context, incoming, LOG_LIMIT, end)

    async def _signed(
        self, method: str, address: Address, headers: Mapping[str, str]
    ) -> tuple[RequestContext, Mapping[str, str]]:
        """Sign a request; first check the circuit breaker."""
        self._breaker.check(self._now())
        signed = _lower(await self._sign())
        return self._place(method, address, signed), {**USUAL, **signed, **headers}

    async def _open(
        self,
        context: RequestContext,
        address: Address,
        headers: Mapping[str, str],
        *,
        content: bytes | None = None,
        idle: float,
    ) -> Incoming:
        if self._connections is None:
            self._connections = connect(context, self._base)
        return await send(self._connections, context, address, headers, content=content, idle=idle)

    @contextlib.asynccontextmanager
    async def _admitted(self, context: RequestContext, seconds: float) -> AsyncIterator[None]:
        """Pass the circuit breaker, with a deadline, and report the outcome to it."""
        ticket = self._breaker.enter(self._now())
        try:
            async with within(context, seconds):
                yield
        except UnreachableError as error:
            error.retry_at = self._breaker.failed(
                ticket, self._now(), str(error), self._rng(), until=error.retry_at
            )
            raise
        except ForgeError as error:
            answered = error.status and not isinstance(error, GarbledError)
            self._breaker.passed() if answered else self._breaker.left(ticket)
            raise
        except BaseException:
            self._breaker.left(ticket)
            raise
        self._breaker.passed()

    def _judged(self, context: RequestContext, raw: RawResponse) -> ForgeError | None:
        """Record the rate limits of an answer; return its error, if it is one."""
        now = self._now()
        self.budget = self.budget.told(raw.headers, now, counted=raw.status != UNCHANGED)
        fault = fault_of(context, raw, now) if raw.status >= CLIENT_ERRORS else None
        if isinstance(fault, LimitedError) and fault.retry_at is not None and usual(raw.headers):
            self._breaker.limit(fault.retry_at)
        return fault

    def _address(self, path: str, params: Mapping[str, str | int] | None = None) -> Address:
        """Return the whole address of a path, or of an address of the same host."""
        text = path
        if not path.startswith(("http://", "https://")):
            base = str(self._base)
            text = f"{base.rstrip('/')}/{path.lstrip('/')}" if path else base
        if params:
            text += ("&" if "?" in text else "?") + urlencode(params)
        address = parse_address(text)
        if not self._is_ours(address):
            raise ForgeError(f"{_name(address)} is not asked: it is another host than {self._host}")
        return address

    def _is_ours(self, address: Address) -> bool:
        return origin(address) == self._origin

    def _place(self, method: str, address: Address, signed: Mapping[str, str]) -> RequestContext:
        """Return the context by which an error names this request."""
        return RequestContext(method, self._host, str(address), self._advice, signed)

    async def _get_once(
        self, address: Address, headers: Mapping[str, str]
    ) -> tuple[RequestContext, Response]:
        """Get without following redirects, using the cache."""
        key = _key(address, headers)
        kept = self._cache.find(key)
        asked = headers if kept is None else {**headers, **question(kept)}
        context, raw = await self._ask("GET", address, asked)
        if raw.status in MOVED:
            return context, Response(raw.status, None, raw.headers)
        if raw.status == UNCHANGED:
            if kept is None:
                raise garbled(
                    context, raw.status, "it says 304 Not Modified, but nothing is cached"
                )
            told = {**kept.headers, **raw.headers}
            return context, Response(kept.status, kept.body, told, unchanged=True)
        self._refuse(context, raw)
        answer = Response(raw.status, parse(context, raw, required=raw.status == OK), raw.headers)
        if raw.status == OK:
            self._cache.keep(key, answer, len(raw.body))
        return context, answer

    def _page(
        self, address: Address, answer: Response, key: str | None
    ) -> tuple[list[Any], str | None]:
        """Return what one page lists, and the link to the next one."""
        page = answer.body.get(key) if key and isinstance(answer.body, dict) else answer.body
        if not isinstance(page, list):
            text = f"there is no list{f' {key!r}' if key else ''} in it"
            raise garbled(self._place("GET", address, {}), answer.status, text)
        return page, next_link(answer.headers)

    def _refuse(self, context: RequestContext, raw: RawResponse) -> None:
        """Raise the error that an answer is, if it is one."""
        if (fault := fault_of(context, raw, self._now())) is not None:
            raise fault


def _moved(context: RequestContext, address: Address, answer: Response | RawResponse) -> Address:
    """Return where an answer redirects to."""
    location = answer.headers.get("location")
    if not location:
        raise garbled(context, answer.status, "it redirects without a location")
    return parse_address(location, address)


def _key(address: Address, headers: Mapping[str, str]) -> tuple[str, str]:
    return str(address), headers.get("accept", "")


def _lower(headers: Mapping[str, str] | None) -> dict[str, str]:
    """Return headers with their names in lower case, so that one replaces the other."""
    return {name.lower(): value for name, value in (headers or {}).items()}


def _name(address: Address) -> str:
    """Return the host of an address, with the port if it is not the usual one."""
    return address.netloc.decode("ascii")
