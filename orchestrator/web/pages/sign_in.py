"""Signing in and out: a link that works once, or the token, becomes a cookie.

The cookie is a signed statement; see `orchestrator.web.edge.passes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from fastapi import APIRouter
from starlette.requests import Request  # noqa: TC002  # FastAPI reads it at run time
from starlette.responses import Response  # noqa: TC002  # as above

from orchestrator.runner.server_interface import API
from orchestrator.web.actor import actor_of
from orchestrator.web.edge.passes import SESSION_LASTS, PassKind, SpentPassError, VisitorRole
from orchestrator.web.edge.problems import Problem
from orchestrator.web.edge.visitors import COOKIE
from orchestrator.web.links import user_name
from orchestrator.web.pages.site import form, our_path, page, see, visitor_of

if TYPE_CHECKING:
    from orchestrator.web.edge.visitors import Door

ENDED = "You were signed out, or the sign-in is too old. Nothing is lost, tasks go on."


class Entrance(Protocol):
    """What one signs in to."""

    door: Door

    @property
    def place(self) -> str:
        """Its name for people."""
        ...

    async def note_sign_in(self, name: str, role: str) -> None:
        """Record who signed in, and as what."""
        ...


def router(services: Entrance) -> APIRouter:
    """Return the pages."""
    made = APIRouter(include_in_schema=False)

    @made.get("/login")
    async def ask(request: Request, token: str = "", next: str = "/", ended: str = "") -> Response:  # noqa: A002  # its name in the address
        if not token:
            said = ENDED if ended else ""
            return _form(request, services, following=our_path(next), said=said)
        try:
            shown = services.door.link(token, _address(request))
        except Problem as problem:
            return _form(request, services, following=our_path(next), problem=problem)
        return _form(
            request,
            services,
            following=our_path(next),
            link=token,
            role=str(shown.role),
            name=shown.name,
        )

    @made.post("/login")
    async def sign_in(request: Request) -> Response:
        sent = form(request)
        link, name = sent.text("link"), actor_of(sent.text("name"))
        following = our_path(sent.text("next", "/"))
        try:
            role, place = _role(services.door, link, sent.text("token"), _address(request))
            _require_name(name)
        except Problem as problem:
            return _form(
                request,
                services,
                following=following,
                link="" if problem.status == 401 else link,  # noqa: PLR2004  # of no more use
                name=sent.text("name"),
                problem=problem,
            )
        if link:
            _spend(services.door, link, _address(request))
        until = services.door.now() + SESSION_LASTS
        session = services.door.office.issue(PassKind.SESSION, name, role, until, place)
        await services.note_sign_in(name, str(role))
        answer = see(following)
        answer.set_cookie(
            COOKIE,
            session,
            max_age=round(SESSION_LASTS),
            httponly=True,
            samesite="strict",
            # A browser names the origin of a form; behind a proxy that is where TLS ends.
            secure=request.headers.get("origin", "").startswith("https://"),
        )
        return answer

    @made.post("/logout")
    async def sign_out(request: Request) -> Response:
        visitor = visitor_of(request)
        if visitor is not None and visitor.session is not None:
            services.door.spent.spend(visitor.session)
        answer = see("/login")
        answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return answer

    return made


def _role(door: Door, link: str, token: str, address: str) -> tuple[VisitorRole, str]:
    """Return what one may do, and at which of several repositories alone."""
    if link:
        shown = door.link(link, address)
        return shown.role, shown.place
    door.require_token(token, address)
    return VisitorRole.ADMIN, ""


def _require_name(name: str) -> None:
    if name == API:
        raise Problem(422, "invalid", "a name is missing", "write yours; it is for the record")


def _spend(door: Door, link: str, address: str) -> None:
    try:
        door.spent.spend(door.link(link, address))
    except SpentPassError as problem:
        raise Problem(401, "link", str(problem)) from problem


def _form(
    request: Request,
    services: Entrance,
    *,
    following: str,
    problem: Problem | None = None,
    **told: str,
) -> Response:
    values: dict[str, str] = {"link": "", "role": "", "said": "", "name": "", **told}
    values["name"] = values["name"] or user_name()
    return page(
        request,
        "login.html",
        title="Sign in",
        status=problem.status if problem else 200,
        next=following,
        problem=problem,
        repo_name=services.place if values["link"] else "",
        **values,
    )


def _address(request: Request) -> str:
    return request.client.host if request.client else ""
