"""The one stream of each page: pieces of HTML by name, made by the templates of the page itself.

`/ui/events?view=board&...` gives `row:T05`, `counts`, `headline` and `words:T05`; a module with a
view of its own adds its maker to `VIEWS`. A page that is not swapped piece by piece is `watched`:
it is told `changed` once what it shows is not what it was made of any more. One that is swapped
names the version that it was made of, and is told `reset` if that is not the present one.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from fastapi import APIRouter
from starlette.requests import Request  # noqa: TC002  # FastAPI reads it at run time
from starlette.responses import Response  # noqa: TC002  # as above

from lifecycle.errors import LifecycleError
from orchestrator.errors import OrchestratorError
from orchestrator.web.edge.problems import Problem, busy, unknown
from orchestrator.web.live.streams import Stream
from orchestrator.web.pages.board import GUARD, BoardNews, filter_of
from orchestrator.web.pages.site import visitor_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Collection

    from orchestrator.web.live.page_news import Maker
    from orchestrator.web.services import ServerServices

    ViewOf = Callable[[ServerServices, Request, bool], tuple[str, Maker]]
    """Returns the name of a channel and what makes its pieces."""

    Shown = Callable[[ServerServices, str], Awaitable[Any]]
    """Returns what a page about something shows, as far as one is told that it changed."""

VIEWS: dict[str, ViewOf] = {}
SEEN = "seen"
VERSION = "version"
"""Of what a page was made of whose pieces come one by one: the board's, or its lifecycle's."""
OUTDATED = "-"
"""Stands for the last piece of a page that missed some: it is told to read everything again."""


def watched(view: str, shown: Shown, *, decided: bool = False) -> None:
    """Tell pages of a view that something changed; see `live_of`.

    With `decided` it is looked at only when something was decided about a lifecycle.
    """

    def of(services: ServerServices, request: Request, operate: bool) -> tuple[str, Maker]:  # noqa: FBT001  # as all views
        del operate
        about = request.query_params.get("of", "")[:300]
        seen = request.query_params.get(SEEN, "")[:40]
        news = ChangeNews(partial(shown, services, about), seen, decided=decided)
        return f"{view}:{seen}:{about}", news.pieces

    VIEWS[view] = of


def live_of(view: str, shown: Any, about: str = "") -> str:
    """Return the address of the stream of a page that shows this."""
    told = {"view": view, "of": about, SEEN: _digest(shown)}
    return f"/ui/events?{urlencode({key: value for key, value in told.items() if value})}"


@dataclass(slots=True)
class ChangeNews:
    """Tells the pages that were made of the same that it is not so any more."""

    shown: Callable[[], Awaitable[Any]]
    seen: str
    decided: bool = field(kw_only=True)
    _begun: bool = False

    async def pieces(self, changed: Collection[str], look: bool) -> list[tuple[str, str]]:  # noqa: FBT001  # as all makers
        """Return that it changed, if it did."""
        del look
        if self._begun and self.decided and not changed:
            return []
        self._begun = True
        try:
            present = _digest(await self.shown())
        except (Problem, LifecycleError, OrchestratorError) as problem:
            present = _digest(str(problem))
        if present == self.seen:
            return []
        self.seen = present
        return [("changed", "")]


def _digest(shown: Any) -> str:
    text = json.dumps(shown, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


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

    @made.get("/ui/events")
    async def events(request: Request, view: str = "board", last: str = "") -> Response:
        of = board if view == "board" else VIEWS.get(view)
        if of is None:
            raise unknown(f"there is no view {view[:40]!r}", "load the page once more")
        if services.pages.pages >= services.most_streams:
            raise busy(f"{services.pages.pages} pages are open")
        visitor = visitor_of(request)
        operate = bool(visitor and visitor.may("operator"))
        name, make = of(services, request, operate)
        last = request.headers.get("last-event-id", "") or last
        if not last and _is_outdated(services, request):
            last = OUTDATED
        guard = visitor.guard if visitor else ""
        return Stream(_own(services.pages.stream(name, make, last), guard))

    return made


def _is_outdated(services: ServerServices, request: Request) -> bool:
    """Tell whether something was decided after a page was made and before it listens."""
    made_of, task = request.query_params.get(VERSION, ""), request.query_params.get("task", "")
    if not made_of:
        return False
    if not task:
        return made_of != str(services.board.version)
    record = services.board.records.get(task)
    return record is not None and made_of != str(record.version)


async def _own(pieces: AsyncGenerator[bytes], guard: str) -> AsyncGenerator[bytes]:
    """Put the guard of who looks where it belongs."""
    wanted = GUARD.encode()
    try:
        async for each in pieces:
            yield each.replace(wanted, guard.encode()) if wanted in each else each
    finally:
        await pieces.aclose()
