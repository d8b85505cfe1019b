"""Who sends a request, by its token or its cookie, and what that one may do.

Owns the table of what each role may do, and the form against forged requests. Must not answer.
"""

from __future__ import annotations

import hmac
from collections import deque
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from orchestrator.web.edge.passes import (
    PassKind,
    PassOffice,
    SpentPasses,
    VisitorRole,
    mark_of_place,
)
from orchestrator.web.edge.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from orchestrator.web.edge.bodies import Headers
    from orchestrator.web.edge.passes import Pass

COOKIE = "loopwright"
FIELD = "csrf"
HEADER = b"x-csrf-token"
UNASKED = b"x-loopwright-unasked"
"""Marks what a page asks for by itself."""
READING = frozenset(("GET", "HEAD"))
ADMIN = ("/api/v1/settings", "/settings", "/api/v1/links", "/api/v1/runner", "/runner")
"""What begins so is changed by admins; all else that is changed, by operators."""
MOST_WRONG = 20
WRONG_WITHIN = 60.0
MOST_ADDRESSES = 1000
NO_WORKER = (
    "the token of workers is missing or wrong; `loopwright serve --worker-token` prints it on the "
    "machine of the coordinator"
)


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who sends a request."""

    name: str
    """For the audit; empty where the request itself says it, or nobody does."""
    role: VisitorRole
    guard: str = ""
    """What forms must bear; empty where no cookie signs."""
    session: Pass | None = None
    place: str = ""
    """The one repository that the sign-in is for, as name and mark; empty for all."""

    def may(self, role: str) -> bool:
        """Tell whether the visitor has a role, or a greater one."""
        return self.role.covers(VisitorRole(role))


def needed(method: str, path: str) -> VisitorRole:
    """Return the role that a request needs: the one table for API and pages."""
    if method in READING or path == "/logout":
        return VisitorRole.VIEWER
    return VisitorRole.ADMIN if path.startswith(ADMIN) else VisitorRole.OPERATOR


def refused_to(visitor: Visitor, method: str, path: str) -> Problem | None:
    """Return why a visitor may not do something."""
    role = needed(method, path)
    if visitor.role.covers(role):
        return None
    return Problem(
        403,
        "role",
        f"a {visitor.role} may not do this; it takes the role {role}",
        f"sign in with a link for that role: loopwright serve --link --role {role}",
    )


class Door:
    """Knows visitors by what they show."""

    def __init__(
        self,
        token: str,
        *,
        now: Callable[[], float],
        spent: SpentPasses,
        worker_token: str = "",
    ) -> None:
        """Without a `worker_token` no worker is let in."""
        self._token, self._worker_token = token.encode(), worker_token.encode()
        self.office = PassOffice(token)
        self.spent = spent
        self.now = now
        self.used_at: float | None = None
        """When somebody who is signed in last asked for something."""
        self._wrong: dict[str, deque[float]] = {}
        self.place = ""
        """The mark of the repository behind it; empty where it is about all of several."""

    def at(self, repo: Path) -> Door:
        """Return the door of one repository; who is known here is known there."""
        made = copy(self)
        made.place = mark_of_place(repo)
        return made

    def require_place(self, visitor: Visitor) -> None:
        """Refuse whose sign-in is for another repository."""
        name, _, mark = visitor.place.partition(" ")
        if visitor.place and mark != self.place:
            raise Problem(
                403,
                "repository",
                f"this sign-in is for the repository {name} alone",
                f"where it is one of several, its pages are at /r/{name}/, its API at "
                f"/api/v1/repositories/{name}",
            )

    def visitor(self, headers: Headers, address: str) -> Visitor | None:
        """Return who it is; None if nothing is shown. What is wrong is refused."""
        given = headers.all(b"authorization")
        if any(given):
            found = self._by_token(given)
            if found is None:
                raise self._wrong_token(address)
            return found
        return self.by_cookie(headers)

    def by_cookie(self, headers: Headers) -> Visitor | None:
        """Return who a browser says it is."""
        text = cookie_of(headers)
        shown = self.office.read(text, PassKind.SESSION, self.now()) if text else None
        if shown is None or self.spent.has(shown):
            return None
        guard = self.office.guard_of(text)
        return Visitor(shown.name, shown.role, guard, shown, place=shown.place)

    def note_use(self, visitor: Visitor, headers: Headers) -> None:
        """Take note that a person is at a page; what a page asks for by itself does not say so."""
        streams = headers.first(b"accept").startswith(b"text/event-stream")
        if visitor.session is not None and not streams and not headers.all(UNASKED):
            self.used_at = self.now()

    def is_over(self, visitor: Visitor) -> bool:
        """Tell whether the session of a visitor has come to its end."""
        shown = visitor.session
        return shown is not None and (self.spent.has(shown) or self.now() >= shown.until)

    def link(self, text: str, address: str) -> Pass:
        """Return what a link says, if it can still be used."""
        shown = self.office.read(text, PassKind.LINK, self.now())
        if shown is None:
            raise self._wrong_token(address, of="the link is too old, or not of this server")
        if self.spent.has(shown):
            raise Problem(
                401,
                "link",
                "this link was used already",
                "get a new one: loopwright serve --link",
            )
        return shown

    def require_token(self, text: str, address: str) -> None:
        """Refuse what is not the token itself; wrong ones are counted."""
        if not hmac.compare_digest(text.strip().encode(), self._token):
            raise self._wrong_token(address, of="this is not the token of this server")

    def require_worker(self, headers: Headers, address: str) -> None:
        """Refuse what does not bear the token of workers; wrong ones are counted."""
        given = headers.all(b"authorization")
        scheme, _, token = given[0].partition(b" ") if len(given) == 1 else (b"", b"", b"")
        right = hmac.compare_digest(token.strip(), self._worker_token)
        if not (right and self._worker_token and scheme.lower() == b"bearer"):
            raise self._wrong_token(address, of=NO_WORKER)

    def _by_token(self, given: list[bytes]) -> Visitor | None:
        scheme, _, token = given[0].partition(b" ") if len(given) == 1 else (b"", b"", b"")
        if scheme.lower() != b"bearer":
            return None
        if hmac.compare_digest(token.strip(), self._token):
            return Visitor("", VisitorRole.ADMIN)
        text = token.strip().decode("latin-1")
        shown = self.office.read(text, PassKind.TOKEN, self.now())
        if shown is None or self.spent.has(shown):
            return None
        return Visitor(shown.name, shown.role, place=shown.place)

    def _wrong_token(self, address: str, of: str = "") -> Problem:
        """Count it. A right token is let in all the same: nobody can lock others out."""
        now = self.now()
        if len(self._wrong) > MOST_ADDRESSES:
            self._wrong.clear()
        wrong = self._wrong.setdefault(address, deque(maxlen=MOST_WRONG))
        many = len(wrong) == MOST_WRONG and now - wrong[0] < WRONG_WITHIN
        wrong.append(now)
        if many:
            return Problem(
                429,
                "too_many",
                f"more than {MOST_WRONG} wrong tokens within {WRONG_WITHIN:g} s",
                "wait a minute, and take the token from where the server says it is",
                {"retry-after": str(round(WRONG_WITHIN))},
            )
        return no_token(of)


def no_token(text: str = "") -> Problem:
    """Say that nobody is signed in."""
    return Problem(
        401,
        "token",
        text or "the token is missing or wrong",
        "send the header Authorization: Bearer TOKEN; the command that started the server says "
        "where the token is",
        {"www-authenticate": "Bearer"},
    )


def require_guard(visitor: Visitor, headers: Headers, body: bytes) -> None:
    """Refuse a change that bears the cookie but comes from no form of ours."""
    if not visitor.guard:
        return
    told = headers.first(HEADER).decode("latin-1") or form_of(body).get(FIELD, [""])[0]
    if not hmac.compare_digest(told.encode(), visitor.guard.encode()):
        raise Problem(
            403,
            "forged",
            "the request does not come from a form of this page, or you signed in anew since",
            "load the page once more and send it again",
        )


def form_of(body: bytes) -> dict[str, list[str]]:
    """Return the fields of a form."""
    try:
        return parse_qs(body.decode(), keep_blank_values=True, max_num_fields=2000)
    except ValueError:
        return {}


def cookie_of(headers: Headers) -> str:
    """Return our cookie, if there is one."""
    for line in headers.all(b"cookie"):
        for each in line.decode("latin-1").split(";"):
            name, _, value = each.strip().partition("=")
            if name == COOKIE:
                return value
    return ""
