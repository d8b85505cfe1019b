"""The page of settings: what agents changed of them first, then each with value and origin."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter
from starlette.requests import Request  # noqa: TC002  # FastAPI reads it at run time
from starlette.responses import Response  # noqa: TC002  # as above

from orchestrator.config.settings import DEFAULT
from orchestrator.errors import ConfigError
from orchestrator.web.edge.problems import invalid
from orchestrator.web.formats import place
from orchestrator.web.pages.events import live_of, watched
from orchestrator.web.pages.site import actor, form, page, see
from orchestrator.web.reading import configuration as reading
from orchestrator.web.routes.configuration import approved, turned_down

if TYPE_CHECKING:
    from orchestrator.web.services import ServerServices

NONE_CHOSEN = "no change is ticked"
TICK = "tick at least one of them"


def router(services: ServerServices) -> APIRouter:
    """Return the page and its two deeds."""
    made = APIRouter(include_in_schema=False)
    runner = services.runner
    watched("settings", _watched)

    @made.get("/settings")
    async def settings(request: Request, doctor: bool = False) -> Response:  # noqa: FBT001, FBT002  # a wish in an address
        problem, rows, held = "", list[Any](), list[Any]()
        try:
            told = await reading.configuration(runner)
            rows, held = list(told["settings"]), told["held"]
        except ConfigError as found:
            problem = str(found)
        return page(
            request,
            "settings.html",
            title="Settings",
            here="settings",
            live=live_of("settings", await _watched(services, "")),
            problem=problem,
            waiting=[each for each in held if each["refused"] is None],
            refused=[each for each in held if each["refused"] is not None],
            given=[each for each in rows if each["source"] != DEFAULT],
            defaults=[each for each in rows if each["source"] == DEFAULT],
            findings=await services.doctor.findings() if doctor else None,
            value=_shown,
            place=lambda text: place(text, runner.repo),
        )

    @made.post("/settings/approve")
    async def approve(request: Request) -> Response:
        await approved(runner, _ticked(request), by=actor(request))
        return see("/settings")

    @made.post("/settings/refuse")
    async def refuse(request: Request) -> Response:
        why = form(request).text("why")
        await turned_down(runner, _ticked(request), by=actor(request), why=why)
        return see("/settings")

    return made


async def _watched(services: ServerServices, _: str) -> Any:
    return await reading.stamp(services.runner)


def _ticked(request: Request) -> list[str]:
    found = form(request).all("change")
    if not found:
        raise invalid(NONE_CHOSEN, TICK)
    return found


def _shown(value: object) -> str:
    return "not set" if value is None else json.dumps(value, ensure_ascii=False, default=str)
