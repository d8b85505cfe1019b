"""Who may use the server: host, token, origin and form of each request, before anything else.

Owns what is refused here, how much may be asked for at once, and the headers that every
answer bears. Must not know any endpoint but those that are open. Pure ASGI, so that streams end.
"""

from __future__ import annotations

import hmac
import re
import traceback
from collections import Counter
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from orchestrator.web.edge.bodies import GoneError, Headers, read_body, refuse, replayed
from orchestrator.web.edge.problems import Problem, busy, internal
from orchestrator.web.edge.webhooks import PATH as HOOKS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from lifecycle.reporting import Report

    Insider = Callable[[str, int, int], Awaitable[str]]

OPEN = frozenset(("/", "/healthz", "/readyz"))
"""Paths that need no token; they reveal nothing."""
STREAMS = "/events"
READING = frozenset(("GET", "HEAD"))
LOOPBACK = frozenset(("127.0.0.1", "localhost", "[::1]"))
MOST_BODY = 1 << 20
BODY_WITHIN = 10.0
"""Seconds for the whole body of a request to the API."""
MOST_AT_ONCE = 64
"""Requests to the API under way, streams left out."""
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"x-frame-options", b"DENY"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::([0-9]{1,5}))?")


class Guard:
    """The outermost application: admits, refuses, and answers for failures of the others."""

    def __init__(  # noqa: PLR0913  # all by name
        self,
        *,
        api: ASGIApp,
        hooks: ASGIApp,
        token: str,
        hosts: Callable[[], Collection[str]],
        report: Report,
        insider: Insider | None = None,
        most_at_once: int = MOST_AT_ONCE,
    ) -> None:
        """`insider` says, of a request that changes something, which agent it comes from."""
        self._api = api
        self._hooks = hooks
        self._token = token.encode()
        self._hosts = hosts
        self._report = report
        self._insider = insider
        self._most = most_at_once
        self._busy = 0
        self.turned_away: Counter[str] = Counter()
        """How many were refused, by the code of the answer."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        answer = _Answer(send)
        try:
            await self._serve(scope, receive, answer)
        except Problem as problem:
            self.turned_away[problem.code] += 1
            if not answer.begun:
                await refuse(problem, receive, answer)
        except GoneError:
            self.turned_away["gone"] += 1
        except Exception as problem:  # noqa: BLE001  # the outermost boundary of a request
            self._report(
                "api_request_failed",
                path=str(scope["path"])[:200],
                reason=f"{type(problem).__name__}: {problem}",
                trace=_trace(problem),
            )
            if not answer.begun:
                await internal().send(answer)

    async def _serve(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        path = scope["path"]
        if path.startswith(HOOKS):
            await self._hooks(scope, receive, answer)
            return
        headers = Headers(scope["headers"])
        self._check(scope, headers)
        if scope["method"] in READING and (path in OPEN or path.endswith(STREAMS)):
            # Streams have their own limit; whether we live is told however much is asked for.
            await self._api(scope, receive, answer)
            return
        if self._busy >= self._most:
            raise busy(f"{self._busy} requests are under way")
        self._busy += 1
        try:
            if scope["method"] not in READING:
                await self._require_person(scope)
                body = await read_body(headers, receive, most=MOST_BODY, within=BODY_WITHIN)
                receive = replayed(body, receive)
            await self._api(scope, receive, answer)
        finally:
            self._busy -= 1

    def _check(self, scope: Scope, headers: Headers) -> None:
        host = self._host(headers)
        if scope["path"] not in OPEN:
            self._sign(headers)
        if scope["method"] in READING:
            return
        _same_site(headers, host)
        if headers.first(b"content-type").partition(b";")[0].strip().lower() != b"application/json":
            raise Problem(
                415,
                "not_json",
                "a request that changes something must be of the type application/json",
                "send the header Content-Type: application/json, and a JSON object",
            )

    async def _require_person(self, scope: Scope) -> None:
        client, server = scope.get("client"), scope.get("server")
        if self._insider is None or not client or not server:
            return
        order = scope["path"].rpartition("/")[2]
        if refusal := await self._insider(order, client[1], server[1]):
            raise Problem(403, "people_only", refusal, "let a person send it")

    def _host(self, headers: Headers) -> str:
        """Refuse what was meant for another host: so speaks a page whose name points at us."""
        given = headers.all(b"host")
        text = given[0].decode("latin-1").lower() if len(given) == 1 else ""
        found = _HOST.fullmatch(text)
        if found is None or not (found[1] in LOOPBACK or found[1] in self._hosts()):
            raise Problem(
                421,
                "host",
                "this server does not answer to the host that the request names",
                "use the address it was started with, or add the name to the setting allowed_hosts",
            )
        return text

    def _sign(self, headers: Headers) -> None:
        given = headers.all(b"authorization")
        scheme, _, token = given[0].partition(b" ") if len(given) == 1 else (b"", b"", b"")
        if scheme.lower() != b"bearer" or not hmac.compare_digest(token.strip(), self._token):
            raise Problem(
                401,
                "token",
                "the token is missing or wrong",
                "send the header Authorization: Bearer TOKEN; the command that started the "
                "server says where the token is",
                {"www-authenticate": "Bearer"},
            )


class _Answer:
    """Adds the headers that every answer bears, and knows whether it has begun."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.begun = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
            message["headers"] = [*message.get("headers", ()), *HEADERS]
        await self._send(message)


def _same_site(headers: Headers, host: str) -> None:
    """Refuse what a page of another site had a browser send, also with a right token."""
    site = headers.all(b"sec-fetch-site")
    origin = headers.all(b"origin")
    strange = any(each.lower() not in (b"same-origin", b"none") for each in site)
    if strange or len(origin) > 1 or (origin and not _is_ours(origin[0], host)):
        raise Problem(
            403,
            "origin",
            "the request was sent by a page of another site",
            "use the API from a program, or from a page of this server",
        )


def _is_ours(origin: bytes, host: str) -> bool:
    try:
        found = urlsplit(origin.decode("latin-1").lower())
    except ValueError:
        return False
    return found.scheme in ("http", "https") and origin.decode("latin-1").lower() == (
        f"{found.scheme}://{host}"
    )


def _trace(problem: Exception) -> str:
    return "".join(traceback.format_exception(problem))[-4000:]
