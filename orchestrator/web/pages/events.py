"""The one stream of each page: pieces of HTML by name, made by the templates of the page itself.

`/ui/events?view=board&...` gives `row:T05`, `counts`, `headline` and `words:T05`; a module with a
view of its own adds its maker to `VIEWS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter
from starlette.requests import Request  # noqa: TC002  # FastAPI reads it at run time
from starlette.responses import Response  # noqa: TC002  # as above

from orchestrator.web.edge.problems import busy, unknown
from orchestrator.web.live.streams import Stream
from orchestrator.web.pages.board import GUARD, BoardNews, filter_of
from orchestrator.web.pages.site import visitor_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from orchestrator.web.live.page_news import Maker
    from orchestrator.web.services import ServerServices

    ViewOf = Callable[[ServerServices, Request, bool], tuple[str, Maker]]
    """Returns the name of a channel and what makes its pieces."""

VIEWS: dict[str, ViewOf] = {}


def router(services: ServerServices) -> APIRouter:
    """Return the stream."""
    made = APIRouter(include_in_schema=False)
    boards: dict[str, BoardNews] = {}

    def board(services: ServerServices, request: Request, operate: bool) -> tuple[str, Maker]:  # noqa: FBT001  # as all views
        name = f"board:{int(operate)}:{filter_of(request)!r}"
        if len(boards) > services.most_streams:
            boards.clear()
        return name, boards.setdefault(
            name, BoardNews(services, filter_of(request), operate=operate)
        ).pieces

    VIEWS["board"] = board

    @made.get("/ui/events")
    async def events(request: Request, view: str = "board", last: str = "") -> Response:
        if view not in VIEWS:
            raise unknown(f"there is no view {view[:40]!r}", "load the page once more")
        if services.pages.pages >= services.most_streams:
            raise busy(f"{services.pages.pages} pages are open")
        visitor = visitor_of(request)
        operate = bool(visitor and visitor.may("operator"))
        name, make = VIEWS[view](services, request, operate)
        last = request.headers.get("last-event-id", "") or last
        guard = visitor.guard if visitor else ""
        return Stream(_own(services.pages.stream(name, make, last), guard))

    return made


async def _own(pieces: AsyncGenerator[bytes], guard: str) -> AsyncGenerator[bytes]:
    """Put the guard of who looks where it belongs."""
    wanted = GUARD.encode()
    try:
        async for each in pieces:
            yield each.replace(wanted, guard.encode()) if wanted in each else each
    finally:
        await pieces.aclose()
