"""Changing several lifecycles with one request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypedDict

from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response  # noqa: TC002  # FastAPI reads it at run time

from orchestrator.web.actor import actor_of
from orchestrator.web.edge.answers import CHANGING, json_answer
from orchestrator.web.edge.api_router import api_router
from orchestrator.web.models import Line, Wait  # noqa: TC001  # as above
from orchestrator.web.routes.lifecycle_actions import Actor  # noqa: TC001  # as above
from orchestrator.web.several import AcceptedForm, accept_several
from orchestrator.wording.json_schemas import model_of

if TYPE_CHECKING:
    from fastapi import APIRouter

    from orchestrator.web.services import ServerServices


class AcceptSeveral(BaseModel):
    """Whose work to accept."""

    model_config = ConfigDict(extra="forbid")

    agents: Annotated[list[Line], Field(min_length=1, max_length=500)]
    heads: dict[Line, Line] = Field(
        {}, description="by agent, the commit that was looked at; another one is not merged"
    )
    wait: Wait = 10.0


class AcceptedSeveralForm(TypedDict):
    """What became of each, in the order in which they were merged."""

    items: list[AcceptedForm]


def router(services: ServerServices) -> APIRouter:
    """Return the endpoints."""
    made = api_router(*CHANGING, 404)

    @made.post(
        "/accept",
        response_model=model_of(AcceptedSeveralForm),
        summary="Accept the work of several lifecycles, in the order of their dependencies",
    )
    async def accept(asked: AcceptSeveral, actor: Actor = "") -> Response:
        told = await accept_several(
            services.runner,
            asked.agents,
            by=actor_of(actor),
            heads=asked.heads,
            wait_s=asked.wait,
        )
        return json_answer({"items": told})

    return made
