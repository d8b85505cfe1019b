"""Reading what is about more than one lifecycle: instances, counts, all news."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

from fastapi import Header, Query
from starlette.responses import Response

from lifecycle.fleet.api.instances import AgentHealthStatus, HealthState, InstanceState
from lifecycle.fleet.api.queries import GetInstancesFilter
from orchestrator.control.instances import in_use, left_alone
from orchestrator.web import models
from orchestrator.web.edge.answers import json_answer, says_no
from orchestrator.web.edge.api_router import api_router
from orchestrator.web.edge.problems import Problem
from orchestrator.wording.json_schemas import model_of

if TYPE_CHECKING:
    from fastapi import APIRouter

    from orchestrator.web.services import ServerServices

_LOST = "its process and its runner are gone"
Tag = Annotated[str | None, Query(pattern=r"^[A-Za-z0-9-]+$", max_length=50)]


def router(services: ServerServices) -> APIRouter:
    """Return the endpoints."""
    made = api_router()
    _instances(made, services)
    _news(made, services)
    return made


def _instances(made: APIRouter, services: ServerServices) -> None:
    @made.get(
        "/instances", response_model=model_of(models.InstancesForm), summary="Agent processes"
    )
    async def instances(  # noqa: PLR0913, PLR0917  # one for each filter
        state: InstanceState | None = None,
        health: HealthState | None = None,
        tag: Tag = None,
        name: Annotated[str | None, Query(min_length=1, max_length=200)] = None,
        ended: Annotated[bool, Query(description="also those that ended")] = False,  # noqa: FBT002  # a filter
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
        offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
    ) -> Response:
        """Those alive, the newest first; in `name` a `*` stands for any text."""
        which = GetInstancesFilter(
            state=state,
            health_state=health,
            tag=tag,
            name_pattern=name,
            include_terminated=ended,
            limit=limit,
            offset=offset,
        )
        seen = await services.spawner.get_active_instances(which)
        # It reads the table of all processes, which the loops must not wait for.
        used = await asyncio.to_thread(in_use, seen)
        lost = left_alone(services.runner.repo, seen, used)
        items = []
        for each in seen:
            shown = each
            if each.instance_id in lost:
                gone = {"health": AgentHealthStatus(details=_LOST), "error_message": _LOST}
                shown = each.model_copy(update=gone)
            use = used.get(each.instance_id)
            told = shown.model_dump(mode="json")
            items.append(told | {"use": use._asdict() if use else None})
        return json_answer({"items": items})

    @made.get(
        "/statistics", response_model=model_of(models.StatisticsForm), summary="Everything counted"
    )
    async def statistics() -> Response:
        counted = await services.spawner.get_statistics()
        counters = services.counters
        lifecycles = {
            "by_state": counters.by_state(),
            "by_work_state": counters.by_work_state(),
            "ended": counters.ended,
        }
        told = {"lifecycles": lifecycles, "instances": counted.model_dump(mode="json")}
        return json_answer(told)


def _news(made: APIRouter, services: ServerServices) -> None:
    @made.get(
        "/events",
        response_class=Response,
        responses={
            200: {
                "description": "server-sent events: each decision about any lifecycle; `reset` "
                "says that some may be missing, so that everything has to be read again",
                "content": {"text/event-stream": {"schema": {"type": "string"}}},
            },
            **says_no(406),
        },
        summary="What is decided about all lifecycles, as a stream",
    )
    async def events(
        accept: Annotated[str, Header(include_in_schema=False)] = "",
        last_event_id: Annotated[str, Header(max_length=100)] = "",
    ) -> Response:
        """Continues after `Last-Event-ID` while this server still knows what followed."""
        if "text/event-stream" not in accept:
            raise Problem(
                406,
                "stream",
                "only a stream is available here",
                "send the header Accept: text/event-stream",
            )
        return services.stream(
            services.streams.everything(services.streams.number_of(last_event_id))
        )
