"""The one door to HTTP: `Web` asks a forge politely and turns all that goes wrong into our errors.

Owns connections and the library that opens them. Must not know what is asked, how often, or what
an answer means: that is `ci.http_asker`'s business, and the forges'.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import random
import socket
import ssl
from typing import TYPE_CHECKING, cast

import httpx

from ci.breaker import Doors
from ci.budget import Budget
from ci.errors import ForgeError, UnauthorizedError, UnreachableError
from ci.http_answer import Answer, Place, garbled
from ci.http_asker import Asker
from ci.http_host import Host
from ci.http_line import Address
from ci.http_proxy import proxy_for

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        AsyncIterator,
        Awaitable,
        Callable,
        Iterator,
        Mapping,
    )

    from ci.http_line import Request

__all__ = ["Answer", "Budget", "Doors", "Web"]

MIB = 1024 * 1024
CONNECT_TIMEOUT = 10.0
IDLE_CONNECTIONS = 4
IDLE_SECONDS = 60.0
"""For which a connection nobody uses is kept: a new one costs more than to keep it."""
NO_ADDRESS = "not asked: an address is http(s)://host/path, without a user name"
PORTS = {"http": 80, "https": 443}

_REASONS: dict[type[BaseException], str] = {
    ssl.SSLError: "it speaks no TLS, or none that is safe",
    socket.gaierror: "its name is not known: is the network there?",
    ConnectionRefusedError: "the connection was refused",
    httpx.ProxyError: "the proxy of the environment does not let us through",
    httpx.ConnectTimeout: "no connection in time",
    httpx.TimeoutException: "no answer in time",
}
"""The first that fits any cause wins."""

# What is below us tells headers at DEBUG, and among those are signed addresses.
for _name in ("httpx", "httpcore"):
    logging.getLogger(_name).setLevel(logging.WARNING)


class Web(Asker):
    """Asks one host. Close it at the end."""

    def __init__(  # noqa: PLR0913  # each is something that a forge or a test decides
        self,
        base_url: str,
        *,
        sign: Callable[[], Awaitable[Mapping[str, str]]],
        now: Callable[[], float],
        advice: str = "give another one",
        doors: Doors | None = None,
        timeout: float = 20.0,
        max_body: int = 16 * MIB,
        rng: Callable[[], float] = random.random,
        env: Mapping[str, str] = os.environ,
    ) -> None:
        """`sign` returns the headers that sign us in; `advice` says what to do about a bad token.

        All `Web` objects of a program are given the same `doors`. `env` names proxies and
        certificates: https_proxy, http_proxy, all_proxy, no_proxy, SSL_CERT_FILE, SSL_CERT_DIR.
        """
        host = Host(
            HttpxLine(env),
            base_url,
            sign=sign,
            now=now,
            advice=advice,
            doors=doors or Doors(),
            timeout=timeout,
            max_body=max_body,
            rng=rng,
        )
        super().__init__(host, new_line=lambda: HttpxLine(env), now=now)


class HttpxLine:
    """Connections through httpx's transport: no cookies, no redirects, no netrc, no log."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self._transports: dict[tuple[str, str, int], httpx.AsyncHTTPTransport] = {}

    def address(self, text: str, base: Address | None = None) -> Address:
        """Understand an address; ForgeError if it is none."""
        if base is None:
            return _understood(text)
        try:
            return _understood(str(cast("httpx.URL", base.parsed).join(text)))
        except (httpx.InvalidURL, UnicodeError, ValueError):
            raise ForgeError(NO_ADDRESS) from None

    async def open(self, request: Request, *, idle: float) -> _Incoming:
        """Send; a connection that turns out to be closed is replaced once, if that is harmless."""
        transport = self._transport(request)
        # Connecting gives up before anybody else does: only then it closes what it began.
        connect = min(CONNECT_TIMEOUT, request.timeout / 3)
        timeout = {"connect": connect, "read": idle, "write": idle}
        sent = httpx.Request(
            request.place.method,
            request.address.parsed,
            headers=_plain(request),
            content=request.content,
            extensions={"timeout": timeout},
        )
        with _told(request.place):
            try:
                response = await transport.handle_async_request(sent)
            except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
                if request.place.method != "GET":
                    raise
                response = await transport.handle_async_request(sent)
        return _Incoming(request.place, response)

    async def aclose(self) -> None:
        """Close all connections."""
        transports, self._transports = list(self._transports.values()), {}
        for transport in transports:
            await transport.aclose()

    def _transport(self, request: Request) -> httpx.AsyncHTTPTransport:
        address = request.address
        transport = self._transports.get(address.origin)
        if transport is None:
            proxy = proxy_for(address.scheme, address.origin[1], self._env)
            files = (self._env.get("SSL_CERT_FILE", ""), self._env.get("SSL_CERT_DIR", ""))
            # Without TLS the context is never used, and a real one takes long to load.
            bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            try:
                transport = httpx.AsyncHTTPTransport(
                    verify=_trusted(*files) if address.scheme == "https" else bare,
                    limits=httpx.Limits(
                        max_connections=None,
                        max_keepalive_connections=IDLE_CONNECTIONS,
                        keepalive_expiry=IDLE_SECONDS,
                    ),
                    proxy=proxy or None,
                )
            except OSError:
                text = "SSL_CERT_FILE or SSL_CERT_DIR names certificates that cannot be read"
                raise ForgeError(request.place.text(text)) from None
            except (ImportError, ValueError, httpx.InvalidURL):
                text = "the proxy of the environment is none that can be used: give an http:// one"
                raise ForgeError(request.place.text(text)) from None
            self._transports[address.origin] = transport
        return transport


class _Incoming:
    """An answer of which the head is there."""

    def __init__(self, place: Place, response: httpx.Response) -> None:
        self._place = place
        self._response = response
        self.status = response.status_code
        self.headers = dict(response.headers)

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """Yield the body as it was sent; must be closed, which frees the connection."""
        stream = cast("httpx.AsyncByteStream", self._response.stream)
        pieces = aiter(stream)
        try:
            with _told(self._place, self.status):
                async for piece in pieces:
                    yield piece
        finally:
            await stream.aclose()
            await _finish(pieces)


@functools.lru_cache(maxsize=1024)
def _understood(text: str) -> Address:
    try:
        url = httpx.URL(text)
        port = url.port
    except (httpx.InvalidURL, UnicodeError, ValueError):
        raise ForgeError(NO_ADDRESS) from None
    if url.scheme not in PORTS or not url.host or url.userinfo:
        raise ForgeError(NO_ADDRESS)
    origin = (url.scheme, url.host, port or PORTS[url.scheme])
    return Address(str(url), url.scheme, url.netloc.decode("ascii"), origin, url)


async def _finish(pieces: AsyncIterator[bytes]) -> None:
    """Let the generators within generators come to an end here, not at some time in the loop."""
    with contextlib.suppress(httpx.HTTPError, OSError):
        async for _ in pieces:
            pass


def _plain(request: Request) -> Mapping[str, str]:
    """Return the headers, if they can be written; the library's own error would show a secret."""
    for value in request.headers.values():
        if not (value.isascii() and value.isprintable()):
            text = f"the token holds characters that no token has: {request.place.advice}"
            raise UnauthorizedError(request.place.text(text))
    return request.headers


@functools.cache
def _trusted(file: str, folder: str) -> ssl.SSLContext:
    """Return the certificates to trust: those of the environment, else all that are installed."""
    if file or folder:
        return ssl.create_default_context(cafile=file or None, capath=folder or None)
    context = httpx.create_ssl_context(trust_env=False)
    context.load_default_certs()
    return context


@contextlib.contextmanager
def _told(place: Place, status: int = 0) -> Iterator[None]:
    """Turn the library's errors into ours; none of its texts, which may hold what was sent."""
    try:
        yield
    except httpx.RemoteProtocolError:
        if status:
            raise garbled(place, status, "the answer is cut off") from None
        raise UnreachableError(place.text("hung up, or answers no HTTP")) from None
    except httpx.LocalProtocolError:
        raise ForgeError(place.text("the request cannot be written")) from None
    except (httpx.HTTPError, OSError, UnicodeError) as error:
        raise UnreachableError(place.text(_reason(error)), status=status) from None


def _reason(error: BaseException) -> str:
    """Say in our own words why there was no answer."""
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return (
                f"its certificate is not trusted ({cause.verify_message}): make sure that this is "
                "the right host; an authority of your own goes into SSL_CERT_FILE"
            )
        for kind, text in _REASONS.items():
            if isinstance(cause, kind):
                return text
    return "the connection broke"


def _causes(error: BaseException) -> list[BaseException]:
    """Return the error and all that led to it."""
    found: list[BaseException] = []
    waiting = [error]
    while waiting:
        each = waiting.pop(0)
        if each in found:
            continue
        found.append(each)
        waiting += [cause for cause in (each.__cause__, each.__context__) if cause is not None]
        if isinstance(each, BaseExceptionGroup):
            waiting += each.exceptions
    return found
