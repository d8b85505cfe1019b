"""What goes wrong, as a page: for those who look with a browser; programs get JSON.

Nobody signed in is sent to the sign-in, and comes back to where it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from orchestrator.web.edge.access import is_browser
from orchestrator.web.edge.bodies import Headers
from orchestrator.web.edge.visitors import cookie_of
from orchestrator.web.pages.site import environment, frame, is_htmx, our_path

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.types import Scope

    from orchestrator.web.edge.problems import Problem

UNSIGNED = 401
_TITLES = {
    403: "Not allowed",
    404: "There is no such page",
    409: "It moved on while you looked",
    415: "That cannot be read",
    421: "Wrong address",
    422: "That is not complete",
    429: "Too many tries",
    503: "Not now",
}


class ProblemPages:
    """Shows problems with the frame of the pages."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app

    def shown(self, scope: Scope, problem: Problem) -> Response | None:
        """Return the page about a problem; None where a program asks."""
        if not is_browser(scope) and not self._by_script(scope):
            return None
        scope = {"app": self._app, **scope}
        request = Request(scope)
        if problem.status == UNSIGNED and problem.code == "token":
            return _to_sign_in(request)
        if is_htmx(request):
            # The script puts it where the deed was done.
            said = environment().render("parts/problem.html", {"problem": problem})
            return HTMLResponse(said, problem.status, dict(problem.headers))
        title = _TITLES.get(problem.status, "That did not work")
        values = {**frame(request), "title": title, "here": "", "problem": problem}
        said = environment().render("error.html", values)
        return HTMLResponse(said, problem.status, dict(problem.headers))

    @staticmethod
    def _by_script(scope: Scope) -> bool:
        return Headers(scope["headers"]).first(b"hx-request") == b"true"


def _to_sign_in(request: Request) -> Response:
    """Send a visitor to the sign-in, unless the sign-in only did not come along.

    From another site a browser sends no cookie that is `SameSite=Strict`; a page of ours that
    loads the same address once more has it sent.
    """
    here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    if request.headers.get("sec-fetch-site") == "cross-site" and request.method == "GET":
        # A path of two slashes would be another server's.
        values = {**frame(request), "title": "One moment", "here": "", "address": our_path(here)}
        return HTMLResponse(environment().render("again.html", values))
    ended = bool(cookie_of(Headers(request.scope["headers"])))
    address = f"/login?next={quote(here if request.method == 'GET' else '/', safe='')}"
    address += "&ended=1" if ended else ""
    if is_htmx(request):
        return Response(status_code=UNSIGNED, headers={"hx-redirect": address})
    return RedirectResponse(address, 303)
