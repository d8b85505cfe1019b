"""The frame of all pages: the environment of templates, what each page is given, and forms.

A page is `page(request, "name.html", title=..., here=..., **values)`; a piece of one, for htmx or a
stream, is `piece("parts/name.html", **values)`. Must not read records.
"""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from starlette.responses import HTMLResponse, RedirectResponse, Response

from orchestrator.terminal.text import instant, span
from orchestrator.web.actor import actor_of, header_text
from orchestrator.web.edge.problems import Problem, invalid
from orchestrator.web.formats import AGENT, dollars, many, part, plain_why, short, shown, tokens
from orchestrator.web.pages.static_files import static
from templates.renderer import HtmlPages

if TYPE_CHECKING:
    from starlette.requests import Request

    from orchestrator.web.edge.visitors import Visitor
    from orchestrator.web.services import ServerServices

LONGEST = 100_000
"""Characters of a field, as the API takes them."""
FOLDER = Path(__file__).parent / "html"


class NavItem(NamedTuple):
    """One of the main views."""

    key: str
    path: str
    icon: str
    name: str
    phone: bool = True


NAV = (
    NavItem("board", "/", "list", "Board"),
    NavItem("review", "/review", "review", "Review"),
    NavItem("plan", "/plans", "plan", "Plan"),
    NavItem("history", "/history", "history", "History"),
    NavItem("costs", "/costs", "costs", "Costs"),
    NavItem("hooks", "/hooks", "hooks", "Hooks", phone=False),
)


@cache
def environment() -> HtmlPages:
    """Return the templates, compiled as they are first used."""
    return HtmlPages(
        FOLDER,
        {
            "static": static,
            "short": short,
            "task_url": task_url,
            "span": span,
            "instant": instant,
            "tokens": tokens,
            "dollars": dollars,
            "many": many,
            "part": part,
            "plain_why": plain_why,
        },
        shown,
    )


def page(
    request: Request, name: str, /, *, title: str, here: str = "", status: int = 200, **values: Any
) -> Response:
    """Return a page; `here` is the key of its view in the bar at the top."""
    told = {"title": title, "here": here, **frame(request), **values}
    return HTMLResponse(environment().render(name, told), status)


def piece(name: str, /, **values: Any) -> str:
    """Return a piece of a page, made by the template that the page itself uses."""
    return environment().render(name, values)


def frame(request: Request) -> dict[str, Any]:
    """Return what every page is given."""
    visitor = visitor_of(request)
    services: ServerServices | None = getattr(request.app.state, "services", None)
    told: dict[str, Any] = {
        "nav": NAV if services is not None else NAV[:1],
        "visitor": visitor,
        "csrf": visitor.guard if visitor else "",
        "may_operate": bool(visitor and visitor.may("operator")),
        "may_admin": bool(visitor and visitor.may("admin")),
        "repo": "",
        "several": False,
        "needs_count": 0,
        "path": request.url.path,
        "live": "",
        "now": 0.0,
        "keys": request.cookies.get("keys") != "0",
    }
    if services is not None:
        told["repo"] = services.runner.repo.name
        told["several"] = services.several and not (visitor and visitor.place)
        told["needs_count"] = services.board.needs()
        told["now"] = services.runner.now()
    return told


def services_of(request: Request) -> ServerServices:
    """Return what the server works with."""
    found: ServerServices = request.app.state.services
    return found


def visitor_of(request: Request) -> Visitor | None:
    """Return who looks; None on pages that need no sign-in."""
    found: Visitor | None = getattr(request.state, "visitor", None)
    return found


def actor(request: Request) -> str:
    """Return who does something, for the audit."""
    visitor = visitor_of(request)
    given = visitor.name if visitor else ""
    return actor_of(given or header_text(request.headers.get("x-loopwright-actor", "")))


def form(request: Request) -> Form:
    """Return the fields that were sent; a form without the guard never comes so far."""
    return Form(getattr(request.state, "form", {}))


class Form:
    """The fields of a form."""

    def __init__(self, fields: dict[str, list[str]]) -> None:
        self._fields = fields

    def text(self, name: str, default: str = "") -> str:
        """Return one field, without blanks around it."""
        text = self._fields.get(name, [default])[0].replace("\r\n", "\n").strip()
        if "\0" in text or len(text) > LONGEST:
            raise invalid(
                f"{name} holds a character that no text has, or more than {LONGEST:,} characters",
                "go back, and write it otherwise",
            )
        return text

    def all(self, name: str) -> list[str]:
        """Return all values of a field, as of boxes that are ticked."""
        return self._fields.get(name, [])

    def lines(self, name: str) -> list[str]:
        """Return the lines of a field that say something."""
        return [line.strip() for line in self.text(name).splitlines() if line.strip()]


def is_htmx(request: Request) -> bool:
    """Tell whether a script asks, which takes a piece of the page."""
    return request.headers.get("hx-request") == "true"


def see(url: str) -> Response:
    """Send the browser to a page, after a form."""
    return RedirectResponse(url, 303)


def our_path(address: str, default: str = "/") -> str:
    """Return a path of this server, whatever somebody wrote into an address or a form."""
    safe = address.startswith("/") and not address.startswith("//") and "\\" not in address
    return address if safe and address.isprintable() else default


def task_url(agent_id: str, *more: object) -> str:
    """Return the address of a task's page."""
    return "/".join(["/t", *(quote(str(each), safe="") for each in (short(agent_id), *more))])


async def agent_of(services: ServerServices, given: str) -> str:
    """Return the agent that a short id means; 404 with the nearest one if there is none."""
    store = services.runner.store
    for each in (given, f"{AGENT}{given}"):
        if await store.get(each) is not None:
            return each
    known = await store.outlines()
    ids = {each.task_id: each.agent_id for each in reversed(known) if "@" not in each.agent_id}
    if given in ids:
        return ids[given]
    near = get_close_matches(given, [*ids, *(short(each) for each in ids.values())], n=1)
    hint = f"did you mean {near[0]}?" if near else "the board lists all"
    raise Problem(404, "unknown", f"there is no task {given!r}", hint)
