"""Plans over HTTP: which there are, and one with its tasks and what waits for what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import Path
from starlette.responses import Response  # noqa: TC002  # FastAPI reads it at run time

from orchestrator.web.edge.answers import json_answer, says_no
from orchestrator.web.edge.api_router import api_router
from orchestrator.web.edge.problems import unknown
from orchestrator.web.reading import plans as reading
from orchestrator.web.reading.plans import PlanForm, PlansForm
from orchestrator.wording.json_schemas import model_of

if TYPE_CHECKING:
    from fastapi import APIRouter

    from orchestrator.web.services import ServerServices

Name = Annotated[str, Path(min_length=1, max_length=200, description="the name of the plan")]


def router(services: ServerServices) -> APIRouter:
    """Return the endpoints."""
    made = api_router()

    @made.get(
        "/plans",
        response_model=model_of(PlansForm),
        summary="Plans with their tasks by state; `run` are the tasks that came with none",
    )
    async def plans() -> Response:
        return json_answer(await reading.plans(services.board))

    @made.get(
        "/plans/{name:path}",
        response_model=model_of(PlanForm),
        responses=says_no(404),
        summary="A plan: tasks, what waits for what, totals, the longest chain of open tasks",
    )
    async def plan(name: Name) -> Response:
        return json_answer(await found(services, name))

    return made


async def found(services: ServerServices, name: str) -> PlanForm:
    """Return a plan, or say that there is none."""
    told = await reading.plan(services.board, name)
    if told is None:
        raise unknown(f"there is no plan {name!r}", "GET /api/v1/plans lists them")
    return told
