"""Reading the board: all that one looks at first, in one answer; and who worked when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import Query
from starlette.responses import Response  # noqa: TC002  # FastAPI reads it at run time

from orchestrator.web.edge.answers import json_answer
from orchestrator.web.edge.api_router import api_router
from orchestrator.web.reading import board as reading
from orchestrator.web.reading.attempts import MOST, AttemptSpansForm, attempts
from orchestrator.wording.json_schemas import model_of

if TYPE_CHECKING:
    from fastapi import APIRouter

    from orchestrator.web.services import ServerServices

Word = Annotated[str, Query(max_length=200)]


def router(services: ServerServices) -> APIRouter:
    """Return the endpoints."""
    made = api_router()

    @made.get(
        "/board",
        response_model=model_of(reading.BoardForm),
        summary="Every lifecycle in one row, in groups by whose move it is, with counts and sums",
    )
    async def board(
        group: Literal["me", "working", "waiting", "queued", "done", ""] = "",
        plan: Word = "",
        program: Word = "",
        q: Word = "",
    ) -> Response:
        """With `group` all of its rows; without, the first of each."""
        asked = reading.BoardFilter(group, plan, program, q, everything=bool(group))
        return json_answer(await reading.board(services.board, asked))

    @made.get(
        "/attempts",
        response_model=model_of(AttemptSpansForm),
        summary="Attempts of all lifecycles since an instant, newest first",
    )
    async def since(
        since: Annotated[float, Query(ge=0, allow_inf_nan=False, description="seconds")] = 0.0,
        plan: Word = "",
        limit: Annotated[int, Query(ge=1, le=MOST)] = MOST,
    ) -> Response:
        return json_answer(await attempts(services.runner, since, plan=plan, limit=limit))

    return made
