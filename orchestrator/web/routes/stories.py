"""What became of a lifecycle, and its logs: lines in words from any place on, or as they come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import Header, Path, Query

from orchestrator.web.edge.answers import json_answer
from orchestrator.web.edge.api_router import api_router
from orchestrator.web.live.streams import ALIVE, event, is_number
from orchestrator.web.operator import found
from orchestrator.web.reading.attempt_logs import following, log_window
from orchestrator.web.reading.log_window import LIMIT, MOST, Asked, LogWindowForm
from orchestrator.web.reading.story import StoryForm, story
from orchestrator.wording.json_schemas import model_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from fastapi import APIRouter
    from starlette.responses import Response

    from orchestrator.web.reading.log_window import LogWindowForm as Window
    from orchestrator.web.services import ServerServices

_LARGEST = 2**53 - 1
Id = Annotated[str, Path(description="the agent's id")]
Place = Annotated[int | None, Query(ge=0, le=_LARGEST)]


def router(services: ServerServices) -> APIRouter:
    """Return the endpoints."""
    made = api_router(404)
    runner = services.runner

    @made.get(
        "/lifecycles/{agent_id}/story",
        response_model=model_of(StoryForm),
        summary="What became of a lifecycle: attempts with gates and who paid, checks, journal",
    )
    async def told(agent_id: Id) -> Response:
        return json_answer(await story(runner, await found(runner, agent_id)))

    @made.get(
        "/lifecycles/{agent_id}/attempts/{attempt}/log/window",
        response_model=model_of(LogWindowForm),
        responses={
            200: {
                "description": "lines in words, the last ones if no place is given; with Accept: "
                "text/event-stream a window for each piece that is added, numbered by its `after`, "
                "then `end`",
                "content": {"text/event-stream": {"schema": {"type": "string"}}},
            },
        },
        summary="A part of what the agent of an attempt printed, in words",
    )
    async def log_part(  # noqa: PLR0913, PLR0917  # one for each wish
        agent_id: Id,
        attempt: Annotated[int, Path(ge=0, le=1_000_000_000)],
        before: Annotated[Place, Query(description="only lines above this byte")] = None,
        after: Annotated[Place, Query(description="only lines from this byte on")] = None,
        at: Annotated[Place, Query(description="from the line on that holds this byte")] = None,
        limit: Annotated[int, Query(ge=1, le=MOST)] = LIMIT,
        errors: Annotated[bool, Query(description="only what went wrong")] = False,  # noqa: FBT002  # a wish in an address
        q: Annotated[
            str,
            Query(
                max_length=200,
                description="the next line that holds this text: below `after`, else above "
                "`before` or the end",
            ),
        ] = "",
        accept: Annotated[str, Header(include_in_schema=False)] = "",
        last_event_id: Annotated[str, Header(max_length=100)] = "",
    ) -> Response:
        """However large the log is, a bounded part is looked through; the answer says where on."""
        record = await found(runner, agent_id)
        if "text/event-stream" in accept:
            seen = int(last_event_id) if is_number(last_event_id) else after or 0
            windows = following(runner, services.hub, record, attempt, seen)
            return services.stream(_events(windows))
        asked = Asked(before=before, after=after, at=at, limit=limit, errors=errors, q=q)
        return json_answer(await log_window(runner, record, attempt, asked))

    return made


async def _events(windows: AsyncGenerator[Window | None]) -> AsyncGenerator[bytes]:
    yield ALIVE
    async for window in windows:
        yield ALIVE if window is None else event(str(window["after"]), window)
    yield event("", {}, name="end")
