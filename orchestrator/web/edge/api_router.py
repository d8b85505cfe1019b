"""What the modules of the API hang their paths on: it refuses query parameters that nobody reads.

A parameter that is ignored looks like a filter that was applied. Pages and webhooks are not of
these: mail programs and forges add parameters of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter
from fastapi.routing import APIRoute

from orchestrator.web.edge.answers import EVERYWHERE, PREFIX, says_no
from orchestrator.web.edge.problems import invalid

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from starlette.requests import Request
    from starlette.responses import Response


class ApiRoute(APIRoute):
    """A path that takes the query parameters that it declares, and no others."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers its requests."""
        answer = super().get_route_handler()
        known = sorted(each.alias for each in self.dependant.query_params)

        async def checked(request: Request) -> Response:
            unknown = sorted(set(request.query_params) - set(known))
            if unknown:
                names = ", ".join(f"query.{name}" for name in unknown)
                takes = f"leave it out; this path takes {', '.join(known) or 'no parameters'}"
                raise invalid(f"{names}: there is no such parameter", takes)
            return await answer(request)

        return checked


def api_router(*statuses: int) -> APIRouter:
    """Return a router of the API, whose paths may all refuse with these, too."""
    refusals = says_no(*EVERYWHERE, 422, *statuses)
    return APIRouter(prefix=PREFIX, route_class=ApiRoute, responses=refusals)
