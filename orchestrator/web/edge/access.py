"""Who may use the server: host, token, origin and form of each request, before anything else.

Owns what is refused here, how much may be asked for at once, and the headers that every
answer bears. Must not know any endpoint but those that are open. Pure ASGI, so that streams end.
"""

from __future__ import annotations

import re
import traceback
from collections import Counter
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from orchestrator.web.edge.bodies import GoneError, Headers, read_body, refuse, replayed
from orchestrator.web.edge.problems import Problem, busy, internal
from orchestrator.web.edge.visitors import (
    READING,
    form_of,
    no_token,
    refused_to,
    require_guard,
)
from orchestrator.web.edge.webhooks import PATH as HOOKS
from orchestrator.web.edge.worker_uploads import PATH as WORKERS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from lifecycle.reporting import Report
    from orchestrator.web.edge.visitors import Door, Visitor

    Shown = Callable[[Scope, Problem], ASGIApp | None]
    Insider = Callable[[str, int, int], Awaitable[str]]

OPEN = frozenset(("/healthz", "/readyz"))
"""Paths of the API that need no token; they reveal nothing."""
UNSIGNED = frozenset(("/login", "/favicon.ico"))
"""Paths of the pages that need no sign-in."""
STATIC = "/static/"
API_PATHS = ("/api/", "/metrics", "/openapi.json", *OPEN)
"""What begins so is for programs; all else are pages."""
TOP = "/"
FORM = b"application/x-www-form-urlencoded"
JSON = b"application/json"
STREAM = b"text/event-stream"
LOOPBACK = frozenset(("127.0.0.1", "localhost", "[::1]"))
MOST_BODY = 1 << 20
BODY_WITHIN = 10.0
"""Seconds for the whole body of a request to the API."""
MOST_AT_ONCE = 64
"""Requests to the API under way, streams left out."""
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
OF_API = (
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
)
OF_PAGES = (
    (
        b"content-security-policy",
        b"default-src 'self'; frame-ancestors 'none'; form-action 'self'; base-uri 'none'",
    ),
    # With `no-referrer` browsers would name the origin of a form `null`.
    (b"referrer-policy", b"same-origin"),
)
NO_STORE = (b"cache-control", b"no-store")
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::([0-9]{1,5}))?")


def no_page(scope: Scope, problem: Problem) -> None:
    """Show no page about a problem: everybody gets JSON."""
    del scope, problem


class Guard:
    """The outermost application: admits, refuses, and answers for failures of the others."""

    def __init__(  # noqa: PLR0913  # all by name
        self,
        *,
        api: ASGIApp,
        hooks: ASGIApp,
        door: Door,
        hosts: Callable[[], Collection[str]],
        report: Report,
        workers: ASGIApp | None = None,
        insider: Insider | None = None,
        shown: Shown = no_page,
    ) -> None:
        """`workers` takes what these hand in.

        `insider` says, of a request that changes something, which agent it comes from. `shown`
        returns a page about a problem, for those who look with a browser.
        """
        self._api = api
        self._hooks, self._workers = hooks, workers
        self._door = door
        self._shown = shown
        self._hosts = hosts
        self._report = report
        self._insider = insider
        self._busy = 0
        self.turned_away: Counter[str] = Counter()
        """How many were refused, by the code of the answer."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        answer = _Answer(send, self._door)
        try:
            await self._serve(scope, receive, answer)
        except Problem as problem:
            self.turned_away[problem.code] += 1
            if not answer.begun:
                page = None if "connection" in problem.headers else self._shown(scope, problem)
                if page is None:
                    await refuse(problem, receive, answer)
                else:
                    await page(scope, receive, answer)
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
        if path.startswith(HOOKS) and not is_page_of_delivery(scope["method"], path):
            await self._hooks(scope, receive, answer)
            return
        if self._workers is not None and path.startswith(WORKERS):
            await self._workers(scope, receive, answer)
            return
        headers = Headers(scope["headers"])
        visitor = answer.visitor = self._check(scope, headers)
        if scope["method"] in READING and path in OPEN:
            # Whether we live is told however much is asked for.
            await self._api(scope, receive, answer)
            return
        if self._busy >= MOST_AT_ONCE:
            raise busy(f"{self._busy} requests are under way")
        self._busy += 1
        answer.place = self._give_back
        try:
            if scope["method"] not in READING:
                await self._require_person(scope)
                body = await read_body(headers, receive, most=MOST_BODY, within=BODY_WITHIN)
                if visitor is not None:
                    require_guard(visitor, headers, body)
                if not _is_api(path):
                    scope["state"]["form"] = form_of(body)
                receive = replayed(body, receive)
            await self._api(scope, receive, answer)
        finally:
            answer.leave_place()

    def _give_back(self) -> None:
        self._busy -= 1

    def _check(self, scope: Scope, headers: Headers) -> Visitor | None:
        path, method = scope["path"], scope["method"]
        host = self._host(headers)
        visitor = self._visitor(scope, headers)
        scope.setdefault("state", {})["visitor"] = visitor
        if visitor is not None:
            if problem := refused_to(visitor, method, path):
                raise problem
            self._door.note_use(visitor, headers)
        if method in READING:
            return visitor
        _same_site(headers, host)
        kind = headers.first(b"content-type").partition(b";")[0].strip().lower()
        if _is_api(path) and kind != JSON:
            raise Problem(
                415,
                "not_json",
                "a request that changes something must be of the type application/json",
                "send the header Content-Type: application/json, and a JSON object",
            )
        if not _is_api(path) and kind != FORM:
            raise Problem(
                415, "not_a_form", "a page takes forms only", "programs use the paths of /api/v1"
            )
        return visitor

    def _visitor(self, scope: Scope, headers: Headers) -> Visitor | None:
        """Return who sends a request; None where nobody has to be known."""
        path = scope["path"]
        if path in OPEN or path.startswith(STATIC):
            return None
        client = scope.get("client")
        found = self._door.visitor(headers, client[0] if client else "")
        if found is not None and found.name:
            # Who is known says so himself: the name that a request gives does not count.
            name = (b"x-loopwright-actor", found.name.encode())
            others = [each for each in scope["headers"] if each[0] != name[0]]
            scope["headers"] = [*others, name]
        if found is not None and path not in (*UNSIGNED, "/logout"):
            self._door.require_place(found)
        if found is None and path not in UNSIGNED and not _is_welcome(scope, headers):
            raise no_token()
        return found

    async def _require_person(self, scope: Scope) -> None:
        client, server = scope.get("client"), scope.get("server")
        if self._insider is None or not client or not server:
            return
        words = [word for word in scope["path"].split("/") if word and not word.isdigit()]
        order = words[-1] if words else ""
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


class _Answer:
    """Adds the headers that every answer bears, and knows whether it has begun.

    A stream takes no place among what is under way once it has begun: it has its own limit. It ends
    with the session of who reads it.
    """

    def __init__(self, send: Send, door: Door) -> None:
        self._send = send
        self._door = door
        self.begun = False
        self.place: Callable[[], None] | None = None
        """Gives back the place that it takes."""
        self.visitor: Visitor | None = None
        self._streams = False

    def leave_place(self) -> None:
        """Give back the place; harmless when called again."""
        place, self.place = self.place, None
        if place is not None:
            place()

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
            given = list(message.get("headers", ()))
            if dict(given).get(b"content-type", b"").startswith(STREAM):
                self._streams = True
                self.leave_place()
            message["headers"] = with_safe_headers(given)
        elif self._streams and self.visitor is not None and self._door.is_over(self.visitor):
            raise GoneError
        await self._send(message)


def with_safe_headers(given: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return the headers of an answer with those that every answer bears."""
    names = dict(given)
    page = names.get(b"content-type", b"").startswith(b"text/html")
    stored = () if b"cache-control" in names else (NO_STORE,)
    return [*given, *HEADERS, *(OF_PAGES if page else OF_API), *stored]


def _is_api(path: str) -> bool:
    return path.startswith(API_PATHS)


def is_browser(scope: Scope) -> bool:
    """Tell whether a page is asked for, by somebody who looks at it."""
    asked = Headers(scope["headers"]).first(b"accept")
    return not _is_api(scope["path"]) and b"text/html" in asked


def _is_welcome(scope: Scope, headers: Headers) -> bool:
    """Tell whether a program asks at the top what there is."""
    return scope["path"] == TOP and b"text/html" not in headers.first(b"accept")


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


def is_page_of_delivery(method: str, path: str) -> bool:
    """Tell whether a webhook's page is asked for: its number, where senders have names."""
    number, _, form = path.removeprefix(HOOKS).partition("/")
    return number.isascii() and number.isdigit() and (method in READING or bool(form))
