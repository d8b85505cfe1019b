"""What was spent, and how much of each limit is left.

Answers are made by the functions that commands and pages use. Must not change anything.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import Query
from starlette.responses import Response  # noqa: TC002  # hints are read at run time

from orchestrator.control.costs import NIGHT, SinceError, instant_of
from orchestrator.control.spent import BudgetsForm, CostsForm, costs_form
from orchestrator.web.edge.answers import json_answer
from orchestrator.web.edge.api_router import api_router
from orchestrator.web.edge.problems import invalid
from orchestrator.web.reading.spending import budgets_now
from orchestrator.wording.json_schemas import model_of

if TYPE_CHECKING:
    from fastapi import APIRouter

    from orchestrator.web.services import ServerServices

By = Literal["task", "program", "plan", "hour", "day", "agent", "model"]


def router(services: ServerServices) -> APIRouter:
    """Return the endpoints."""
    made = api_router()
    runner = services.runner

    @made.get(
        "/costs",
        response_model=model_of(CostsForm),
        summary="What attempts used that ended since an instant",
    )
    async def costs(
        since: Annotated[
            str,
            Query(max_length=20, description="night (since 18:00), 7d, 12h or a date: 2027-01-31"),
        ] = NIGHT,
        by: By = "task",
        attempts: Annotated[
            int, Query(ge=0, le=5000, description="how many attempts to list, the newest")
        ] = 0,
    ) -> Response:
        """A cost that no program told is null; a sum with such parts is a lower bound."""
        present = runner.now()
        try:
            start = instant_of(since, present, option="since")
        except SinceError as problem:
            raise invalid(str(problem)) from problem
        database = runner.engine.machine.paths.database
        return json_answer(
            await asyncio.to_thread(costs_form, database, start, present, by, attempts)
        )

    @made.get(
        "/budgets",
        response_model=model_of(BudgetsForm),
        summary="How much of each budget is left, and which programs are at a usage limit",
    )
    async def budgets() -> Response:
        """Every limit that holds now: of this day, of each plan, of each lifecycle at hand."""
        return json_answer(await budgets_now(runner))

    return made
