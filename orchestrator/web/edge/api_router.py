"""What the modules of the API hang their paths on: it refuses query parameters that nobody reads.

A value that is ignored looks like a filter that was applied. Pages and webhooks are not of
these: mail programs and forges add parameters of their own.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, get_origin

from fastapi import APIRouter
from fastapi.routing import APIRoute

from orchestrator.web.edge.answers import EVERYWHERE, PREFIX, says_no
from orchestrator.web.edge.problems import invalid

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence
    from typing import Any

    from starlette.requests import Request
    from starlette.responses import Response


class ApiRoute(APIRoute):
    """A path that takes the query parameters that it declares, each once if it is no list."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers its requests."""
        answer = super().get_route_handler()
        known = {
            each.alias: get_origin(each.field_info.annotation) is list
            for each in self.dependant.query_params
        }

        async def checked(request: Request) -> Response:
            _check(known, Counter(name for name, _ in request.query_params.multi_items()))
            return await answer(request)

        return checked


def _check(known: Mapping[str, bool], given: Counter[str]) -> None:
    """Refuse a parameter that is not known, and a second value of one that is no list."""
    if unknown := sorted(given.keys() - known.keys()):
        takes = f"leave it out; this path takes {', '.join(sorted(known)) or 'no parameters'}"
        raise invalid(f"{_named(unknown)}: there is no such parameter", takes)
    if more := sorted(name for name, times in given.items() if times > 1 and not known[name]):
        raise invalid(f"{_named(more)}: given more than once", "give one value")


def _named(names: Sequence[str]) -> str:
    return ", ".join(f"query.{name}" for name in names)


def api_router(*statuses: int) -> APIRouter:
    """Return a router of the API, whose paths may all refuse with these, too."""
    refusals = says_no(*EVERYWHERE, 422, *statuses)
    return APIRouter(prefix=PREFIX, route_class=ApiRoute, responses=refusals)
