"""Reading what people were told, and how the channels do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import Query
from starlette.responses import Response  # noqa: TC002  # FastAPI reads it at run time

from orchestrator.control.notifications import page_of
from orchestrator.notify.forms import NotificationsForm
from orchestrator.notify.outbox import address_of
from orchestrator.web.edge.answers import json_answer
from orchestrator.web.edge.api_router import api_router
from orchestrator.wording.json_schemas import model_of

if TYPE_CHECKING:
    from fastapi import APIRouter

    from orchestrator.web.services import ServerServices

_LARGEST = 2**53 - 1


def router(services: ServerServices) -> APIRouter:
    """Return the endpoint."""
    made = api_router()

    @made.get(
        "/notifications",
        response_model=model_of(NotificationsForm),
        summary="What people were told, newest first, and how each channel does",
    )
    async def notifications(
        cursor: Annotated[int | None, Query(ge=0, le=_LARGEST)] = None,
        limit: Annotated[int, Query(ge=1, le=1000)] = 50,
    ) -> Response:
        """A channel is failing where `failing_since` is not null."""
        runner = services.runner
        found = await page_of(
            runner.store,
            runner.settings(),
            repo=runner.repo,
            address=address_of(runner.engine.shared),
            before=cursor,
            limit=limit,
        )
        return json_answer(found)

    return made
