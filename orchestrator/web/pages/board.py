"""The board: every task of the repository, what needs a person first.

Must not read anything but what `orchestrator.web.reading` gives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter
from starlette.requests import Request  # noqa: TC002  # FastAPI reads it at run time
from starlette.responses import Response

from orchestrator.web.edge.answers import as_text, says_no
from orchestrator.web.pages.site import page

if TYPE_CHECKING:
    from orchestrator.web.services import ServerServices

WELCOME = """\
Loopwright runs here. The API is described by /openapi.json, beginning with /api/v1/lifecycles.

  curl -H "Authorization: Bearer $(cat TOKEN_FILE)" ADDRESS/api/v1/lifecycles

The command that started the server says where the token is. A browser gets the dashboard here.
"""


def router(services: ServerServices) -> APIRouter:
    """Return the page."""
    del services
    made = APIRouter()

    @made.get(
        "/",
        response_class=Response,
        responses={
            200: as_text("the dashboard for a browser; else where to go next"),
            **says_no(401, 405, 421, 500, 503),
        },
        summary="Where to go next",
    )
    async def board(request: Request) -> Response:
        if "text/html" not in request.headers.get("accept", ""):
            return Response(WELCOME, media_type="text/plain")
        return page(request, "board.html", title="Board", here="board")

    return made
