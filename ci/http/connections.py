"""Connections through httpx: addresses, proxies, certificates, deadlines, limits on reading.

The only importer of httpx. Every failure becomes an error of `ci.errors`, in our own words. Must
not know what is requested, as whom, nor how an answer is used.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ipaddress
import logging
import os
import socket
import ssl
import zlib
from typing import TYPE_CHECKING, cast
from urllib.request import getproxies_environment, proxy_bypass

import httpx

from ci.errors import ForgeError, UnauthorizedError, UnreachableError
from ci.http.response import HIDDEN_IN, REDIRECTS, RawResponse, RequestContext, garbled

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping

    from ci.http.response import TailBuffer


Address = httpx.URL
Incoming = httpx.Response
"""A response of which only the head has arrived."""

CONNECT_TIMEOUT = 10.0
IDLE_CONNECTIONS = 4
IDLE_SECONDS = 60.0
"""For which an idle connection is kept: a new one costs more."""
STEP = 256 * 1024
"""Bytes that are decompressed at once: a few bytes may expand a thousandfold."""
GZIP = 16 + zlib.MAX_WBITS
PORTS = {"http": 80, "https": 443}
HIGHEST_PORT = 65535
NO_ADDRESS = "not asked: not a valid address (use http(s)://host/path, without a user name)"

_REASONS: dict[type[BaseException], str] = {
    ssl.SSLError: "the TLS handshake failed",
    socket.gaierror: "its name cannot be resolved: is the network up?",
    ConnectionRefusedError: "the connection was refused",
    httpx.ProxyError: "the proxy in the environment refused the connection",
    httpx.ConnectTimeout: "the connection timed out",
    httpx.TimeoutException: "the answer timed out",
}
"""The first match with any cause wins."""

# The library logs headers at DEBUG, among them signed addresses.
for _name in ("httpx", "httpcore"):
    logging.getLogger(_name).setLevel(logging.WARNING)


class _NoCookies(httpx.Cookies):
    def extract_cookies(self, response: Incoming) -> None:
        """Take none."""


class Connections(httpx.AsyncClient):
    """Connections of httpx that keep no cookies."""

    cookies = _NoCookies()  # type: ignore[override]  # in the place of the property


@functools.lru_cache(maxsize=1024)
def parse_address(text: str, base: Address | None = None) -> Address:
    """Parse an address, which may be relative to another one; ForgeError if it is not valid."""
    try:
        url = httpx.URL(text) if base is None else base.join(text)
        known = url.scheme in PORTS and url.host and not url.userinfo
        known = known and (url.port or 1) <= HIGHEST_PORT
    except (httpx.InvalidURL, UnicodeError, ValueError):
        raise ForgeError(NO_ADDRESS) from None
    if not known:
        raise ForgeError(NO_ADDRESS)
    return url


def origin(address: Address) -> tuple[str, str, int]:
    """Return scheme, host and port, by which two addresses belong to the same host."""
    return address.scheme, address.host, address.port or PORTS[address.scheme]


def connect(context: RequestContext, address: Address) -> Connections:
    """Return connections to a host, through the proxy that the environment names for it."""
    # Without TLS the context is never used, and a real one takes long to load.
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    files = (os.environ.get("SSL_CERT_FILE", ""), os.environ.get("SSL_CERT_DIR", ""))
    try:
        return Connections(
            verify=_trusted(*files) if address.scheme == "https" else bare,
            limits=httpx.Limits(
                max_connections=None,
                max_keepalive_connections=IDLE_CONNECTIONS,
                keepalive_expiry=IDLE_SECONDS,
            ),
            proxy=_proxy_for(address),
            trust_env=False,
        )
    except OSError:
        text = "SSL_CERT_FILE or SSL_CERT_DIR names certificates that cannot be read"
        raise ForgeError(context.text(text)) from None
    except (ImportError, ValueError, httpx.InvalidURL):
        text = "the proxy in the environment cannot be used: give an http:// one"
        raise ForgeError(context.text(text)) from None


def _proxy_for(address: Address) -> str | None:
    """Return the proxy in the environment, if one is to be used; never for this machine.

    Not left to httpx, which refuses a no_proxy that names a network such as fe80::/10.
    """
    proxies = getproxies_environment()
    proxy = proxies.get(address.scheme) or proxies.get("all")
    if not proxy or _is_here(address.host) or proxy_bypass(address.host):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@functools.cache
def _trusted(file: str, folder: str) -> ssl.SSLContext:
    """Return the certificates to trust: those in the environment, else the installed ones."""
    if file or folder:
        return ssl.create_default_context(cafile=file or None, capath=folder or None)
    context = httpx.create_ssl_context(trust_env=False)
    context.load_default_certs()
    return context


async def send(  # noqa: PLR0913  # what makes up a request
    connections: Connections,
    context: RequestContext,
    address: Address,
    headers: Mapping[str, str],
    *,
    content: bytes | None = None,
    idle: float,
) -> Incoming:
    """Send; a GET on a connection that turns out to be closed is retried once."""
    for value in headers.values():  # the library's own error would show a secret
        if not (value.isascii() and value.isprintable()):
            text = f"the token contains invalid characters: {context.advice}"
            raise UnauthorizedError(context.text(text))
    # Connecting gives up before anybody else does: only then it closes what it began.
    timeout = {"connect": min(CONNECT_TIMEOUT, idle / 3), "read": idle, "write": idle}
    request = httpx.Request(
        context.method, address, headers=headers, content=content, extensions={"timeout": timeout}
    )
    with _converted(context):
        try:
            return await connections.send(request, stream=True, auth=None)
        except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
            if context.method != "GET":
                raise
            return await connections.send(request, stream=True, auth=None)


async def receive(
    context: RequestContext, response: Incoming, most: int, end: TailBuffer | None
) -> RawResponse:
    """Read the body; of an error only the first part."""
    good = response.status_code < REDIRECTS
    room = most = most if good else HIDDEN_IN
    kept: list[bytes] = []
    add = kept.append if end is None or not good else end.add
    whole = good and end is None
    async with contextlib.aclosing(body(context, response, whole=whole)) as steps:
        async for step in steps:
            add(step[:room])
            room -= len(step)
            if room < 0:
                break
    if room < 0 and whole:
        raise garbled(context, response.status_code, f"the answer is longer than {most} bytes")
    if room < 0 and good and end is not None:
        end.note(f"\n[cut: only the first {most} bytes were read]\n")
    return RawResponse(response.status_code, dict(response.headers.items()), b"".join(kept))


async def body(
    context: RequestContext, response: Incoming, *, whole: bool
) -> AsyncGenerator[bytes, None]:
    """Yield a body in steps; must be closed, which frees the connection. `whole`: refuse a part.

    Not decompressed by httpx: it would expand a few bytes without limit, and stop after the first
    of several concatenated gzip members.
    """
    status, packing = response.status_code, response.headers.get("content-encoding", "")
    packed = packing.strip().lower() not in ("", "identity")
    inflate, begun = zlib.decompressobj(GZIP), False
    stream = cast("httpx.AsyncByteStream", response.stream)
    pieces = aiter(stream)
    try:
        if packed and packing.strip().lower() not in ("gzip", "x-gzip"):
            problem = f"it is compressed as {packing[:40]!r}, but only gzip was requested"
            raise garbled(context, status, problem)
        with _converted(context, status):
            async for piece in pieces:
                if not packed:
                    yield piece
                    continue
                left, begun = piece, True
                while left:
                    if inflate.eof:
                        inflate = zlib.decompressobj(GZIP)
                    yield inflate.decompress(left, STEP)
                    left = inflate.unconsumed_tail or inflate.unused_data
        if whole and begun and not inflate.eof:
            raise garbled(context, status, "the compressed answer is cut off")
    except zlib.error:
        problem = "it says that it is gzip, and is not"
        raise garbled(context, status, problem) from None
    finally:
        await stream.aclose()
        # End the nested generators here, not at some later time in the loop.
        with contextlib.suppress(httpx.HTTPError, OSError):
            async for _ in pieces:
                pass


@contextlib.asynccontextmanager
async def within(context: RequestContext, seconds: float) -> AsyncIterator[None]:
    """Raise UnreachableError after so many seconds, however much data arrives."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise UnreachableError(context.text(f"no complete answer within {seconds:g} s")) from None


@contextlib.contextmanager
def _converted(context: RequestContext, status: int = 0) -> Iterator[None]:
    """Convert the library's errors into ours, without its texts, which may hold secrets."""
    try:
        yield
    except (httpx.RemoteProtocolError, httpx.InvalidURL) as error:
        if isinstance(error.__context__ or error, httpx.InvalidURL):  # httpx looks at Location
            raise ForgeError(context.text("it redirects to an address that is not valid")) from None
        if status:
            raise garbled(context, status, "the answer is cut off") from None
        raise UnreachableError(
            context.text("it closed the connection, or does not speak HTTP")
        ) from None
    except httpx.LocalProtocolError:
        raise ForgeError(context.text("the request cannot be written")) from None
    except (httpx.HTTPError, OSError, UnicodeError) as error:
        raise UnreachableError(context.text(_reason(error)), status=status) from None


def _reason(error: BaseException) -> str:
    """Return in our own words why there was no answer."""
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return (
                f"its certificate is not trusted ({cause.verify_message}): make sure that this is "
                "the right host; a CA of your own goes into SSL_CERT_FILE"
            )
        for kind, text in _REASONS.items():
            if isinstance(cause, kind):
                return text
    return "the connection broke"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and all that led to it."""
    yield error
    for each in (error.__cause__ or error.__context__, *getattr(error, "exceptions", ())):
        if each is not None:
            yield from _causes(each)
