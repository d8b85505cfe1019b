"""Answers as bytes that are ready to send, and what the document says about each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

if TYPE_CHECKING:
    from orchestrator.web.edge.problems import Problem

Documented = dict[int | str, dict[str, Any]]

PREFIX = "/api/v1"
_WHY = {
    400: "it cannot be read",
    401: "the token, or the signature, is missing or wrong",
    403: "a page of another site sent it, or an agent; or the role does not allow it",
    404: "it does not exist",
    405: "this path does not allow that method",
    406: "it is available in another form only",
    408: "the body came too slowly",
    409: "the present state does not allow it; the text says why",
    413: "the body is too long",
    415: "it is not JSON",
    416: "the range does not exist",
    421: "it names a host that this server does not serve",
    422: "it does not have the right form, or has a query parameter that this path does not take",
    429: "too many wrong tokens",
    500: "an internal error",
    503: "busy, or the store cannot be read or written",
}
FAILURE = {"application/json": {"schema": {"$ref": "#/components/schemas/Failure"}}}
"""By name: as a model it would be made anew for each answer of each endpoint, 600 times."""
EVERYWHERE = (401, 403, 405, 421, 429, 500, 503)
CHANGING = (*EVERYWHERE, 408, 409, 413, 415, 422)


def json_answer(value: Any, status: int = 200) -> Response:
    """Return an answer of JSON."""
    return Response(json.dumps(value), status, media_type="application/json")


def problem_answer(problem: Problem) -> Response:
    """Return an answer that refuses a request."""
    return Response(
        problem.body(), problem.status, dict(problem.headers), media_type="application/json"
    )


def says_no(*statuses: int) -> Documented:
    """Document answers that refuse a request."""
    return {status: {"description": _WHY[status], "content": FAILURE} for status in statuses}


def as_text(description: str, *types: str) -> dict[str, Any]:
    """Document an answer that is text."""
    content = {each: {"schema": {"type": "string"}} for each in types or ("text/plain",)}
    return {"description": description, "content": content}
