"""What was spent: by hour, by task, by program, and how much of each limit is left.

Must not read anything but what the API gives as well.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from fastapi import APIRouter, Query
from starlette.requests import Request  # noqa: TC002  # FastAPI reads it at run time
from starlette.responses import Response  # noqa: TC002  # as above

from lifecycle.machine.budget import HOUR
from orchestrator.control.costs import NIGHT, SinceError, instant_of
from orchestrator.control.spent import spent_since
from orchestrator.terminal.text import span
from orchestrator.web.edge.problems import invalid
from orchestrator.web.formats import dollars, tokens
from orchestrator.web.pages.charts import columns, lying
from orchestrator.web.pages.site import page
from orchestrator.web.reading.spending import budgets_now

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from orchestrator.control.spent import BudgetForm, CostsForm, SpentForm
    from orchestrator.web.services import ServerServices

SPANS = ((NIGHT, "Night"), ("7d", "7 days"), ("30d", "30 days"))
MOST_TASKS = 20
MOST_ATTEMPTS = 5000
MOST_BUDGETS = 30
_KINDS = ("well", "badly", "unknown")
_DAY = 24 * HOUR


class Unit(NamedTuple):
    """What a chart shows, and how it is said."""

    key: str
    name: str
    say: Callable[[float], str]


DOLLARS = Unit("cost_usd", "Dollars", dollars)
TOKENS = Unit("tokens", "Tokens", tokens)
TIME = Unit("seconds", "Time of agents", span)


def router(services: ServerServices) -> APIRouter:
    """Return the page."""
    made = APIRouter(include_in_schema=False)
    runner = services.runner
    database = runner.engine.machine.paths.database

    @made.get("/costs")
    async def costs(
        request: Request, since: Annotated[str, Query(max_length=20)] = NIGHT
    ) -> Response:
        present = runner.now()
        try:
            start = instant_of(since, present, option="since")
        except SinceError as problem:
            raise invalid(str(problem)) from problem
        by = await asyncio.to_thread(_told, database, start, present)
        limits = await budgets_now(runner)
        told, unit = by["task"], unit_of(by["task"])
        items = sorted(limits["items"], key=_order)
        return page(
            request,
            "costs.html",
            title="Costs",
            here="costs",
            since=since,
            spans=SPANS,
            begins=start,
            told=told,
            unit=unit,
            steps=columns(_steps(told, unit, start, present), unit.say),
            per_hour=present - start <= 2 * _DAY,
            tasks=lying(_tasks(told, unit)),
            agents={each["task_id"]: each for each in told["attempts"]},
            more_tasks=max(0, len(told["lines"]) - MOST_TASKS),
            programs=by["program"]["lines"],
            plans=by["plan"]["lines"],
            budgets=items[:MOST_BUDGETS],
            more_budgets=max(0, len(items) - MOST_BUDGETS),
            rests={each["program"]: each for each in limits["programs"]},
            amount=_amount,
        )

    return made


def _told(database: Path, start: float, present: float) -> dict[str, CostsForm]:
    """Return the sums by task, program and plan, of one reading."""
    return spent_since(database, start, present, ("task", "program", "plan"), MOST_ATTEMPTS)


def unit_of(told: CostsForm) -> Unit:
    """Return what is worth showing: dollars where any were told, else tokens, else time."""
    total = told["total"]
    if total["cost_usd"]:
        return DOLLARS
    return TOKENS if total["tokens"] else TIME


def _order(part: BudgetForm) -> tuple[int, float]:
    """Put the day first, then plans, then lifecycles, the most used first."""
    return ("day", "plan", "lifecycle").index(part["scope"]), -part["used"] / part["budget"]


def _steps(
    told: CostsForm, unit: Unit, start: float, present: float
) -> list[tuple[str, dict[str, float]]]:
    """Return the amounts of each hour, or of each day where there are many hours."""
    hourly = present - start <= 2 * _DAY
    sums: dict[datetime, dict[str, float]] = defaultdict(lambda: dict.fromkeys(_KINDS, 0.0))
    for each in told["attempts"]:
        sums[_step(each["at"], hourly=hourly)][each["ended"]] += each[unit.key] or 0.0  # type: ignore[literal-required]  # one of three keys
    at, last = _step(start, hourly=hourly), _step(present, hourly=hourly)
    if hourly and sums:
        at = max(at, min(sums))
    made = list[tuple[str, dict[str, float]]]()
    while at <= last:
        name = f"{at:%Hh}" if hourly else f"{at.day} {at:%b}"
        made.append((name, sums[at]))
        at += timedelta(hours=1) if hourly else timedelta(days=1)
    return made


def _step(at: float, *, hourly: bool) -> datetime:
    moment = datetime.fromtimestamp(at).replace(minute=0, second=0, microsecond=0)  # noqa: DTZ006  # as people here read it
    return moment if hourly else moment.replace(hour=0)


def _tasks(told: CostsForm, unit: Unit) -> list[tuple[str, list[tuple[str, str, float]], str]]:
    """Return the tasks that used most, each with its attempts in their order."""
    attempts: dict[str, list[SpentForm]] = defaultdict(list)
    for each in reversed(told["attempts"]):
        attempts[each["task_id"]].append(each)
    lines: list[Any] = sorted(
        told["lines"],
        key=lambda line: line[unit.key] or 0.0,
        reverse=True,
    )
    made = list[tuple[str, list[tuple[str, str, float]], str]]()
    for line in lines[:MOST_TASKS]:
        parts: list[Any] = [
            (f"attempt {each['attempt']}", each["ended"], each[unit.key] or 0.0)  # type: ignore[literal-required]  # as above
            for each in attempts[line["name"]]
        ]
        said = unit.say(line[unit.key])
        if unit is DOLLARS:
            least = line["attempts_with_cost"] < line["attempts"]
            said = dollars(line["cost_usd"], at_least=least)
        made.append((line["name"], parts, said))
    return made


def _amount(part: BudgetForm, value: float, *, used: bool = False) -> str:
    """Say an amount of a budget; what was used is a lower bound where not all was told."""
    least = "≥ " if used and not part["exact"] else ""
    match part["what"]:
        case "usd":
            return f"{least}{dollars(value)}"
        case "hours":
            return span(value * HOUR)
        case "tokens":
            return f"{least}{tokens(value)}"
        case _:
            return f"{value:,.0f}"
