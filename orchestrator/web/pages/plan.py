"""The pages of plans: which there are, and one as a graph, or as a list on a phone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from fastapi import APIRouter
from starlette.requests import Request  # noqa: TC002  # FastAPI reads it at run time
from starlette.responses import Response  # noqa: TC002  # as above

from orchestrator.web.formats import dollars, many
from orchestrator.web.pages.events import live_of, watched
from orchestrator.web.pages.looks import OF_STATE, look_of
from orchestrator.web.pages.plan_graph import BOX, Box, drawn
from orchestrator.web.pages.site import page, see
from orchestrator.web.reading import plans as reading
from orchestrator.web.routes.plans import Name, found

if TYPE_CHECKING:
    from orchestrator.web.pages.looks import Look
    from orchestrator.web.reading.board import BoardRowForm
    from orchestrator.web.reading.plans import PlanForm, PlanRowForm
    from orchestrator.web.services import ServerServices

WIDEST = 30
"""Characters of a title in a box."""
SMALL = 36
"""Characters of the line below it."""
FRAMES = {"you": "you", "bad": "bad", "run": "run"}
"""Colours that a box has, too."""
PHRASES = {
    "accepted": "accepted", "rejected": "rejected", "done": "ready to review",
    "needs-you": "waiting for you", "given-up": "given up", "working": "at work",
    "starting": "starting", "stopping": "stopping", "verifying": "being verified",
    "waiting": "waiting outside", "queued": "queued", "paused": "paused", "stopped": "stopped",
}  # fmt: skip


def router(services: ServerServices) -> APIRouter:
    """Return the pages."""
    made = APIRouter(include_in_schema=False)
    watched("plan", _watched, decided=True)
    watched("plans", _watched_all, decided=True)

    @made.get("/plans")
    async def listed(request: Request) -> Response:
        plans = (await reading.plans(services.board))["items"]
        if len(plans) == 1:
            return see(f"/plans/{quote(plans[0]['name'], safe='')}")
        live = live_of("plans", _counts(plans))
        return page(
            request,
            "plans.html",
            title="Plans",
            here="plan",
            live=live,
            plans=plans,
            looks=OF_STATE,
        )

    @made.get("/plans/{name:path}")
    async def plan(request: Request, name: Name) -> Response:
        told = await found(services, name)
        live = live_of("plan", _signs(told), name)
        return page(
            request, "plan.html", title=f"Plan {name}", here="plan", live=live, **_shown(told)
        )

    return made


async def _watched(services: ServerServices, name: str) -> Any:
    return _signs(await found(services, name))


async def _watched_all(services: ServerServices, about: str) -> Any:
    del about
    return _counts((await reading.plans(services.board))["items"])


def _counts(plans: list[PlanRowForm]) -> Any:
    return [(each["name"], each["tasks"], each["needs_you"], each["by_state"]) for each in plans]


def _signs(told: PlanForm) -> Any:
    """Return what a page is told of when it changes: not what moves all the time."""
    rows = [(row["task_id"], row["state"], row["needs"], row["attempts"]) for row in told["tasks"]]
    return rows, told["edges"]


def _shown(told: PlanForm) -> dict[str, Any]:
    rows = {row["task_id"]: row for row in told["tasks"]}
    edges = [(edge["needs"], edge["task"]) for edge in told["edges"]]
    graph = drawn(list(rows), edges)
    after: dict[str, list[str]] = {}
    for needs, task in edges:
        after.setdefault(task, []).append(needs)
    kinds = {(edge["needs"], edge["task"]): edge for edge in told["edges"]}
    chain = told["critical_path"]
    return {
        "plan": told,
        "boxes": [_boxed(box, rows[box.task]) for box in graph.boxes],
        "lines": [(line, kinds[line.needs, line.task]) for line in graph.lines],
        "width": graph.width,
        "height": graph.height,
        "box_width": BOX[0],
        "box_height": BOX[1],
        "tasks": [(row, look_of(row), after.get(row["task_id"], [])) for row in told["tasks"]],
        "after": after,
        "frames": FRAMES,
        "widest": WIDEST,
        "states": ", ".join(f"{count} {PHRASES[word]}" for word, count in told["by_state"].items()),
        "spent": _spent(told),
        "chain": chain if len(chain) > 1 else [],
        "hint": _hint(told["tasks"], told["frees"]),
    }


def _boxed(box: Box, row: BoardRowForm) -> tuple[Box, BoardRowForm, Look, str]:
    """Return a task with what the second line of its box says: as much as there is room for."""
    look, tried, cost = look_of(row), row["attempts"], row["cost_usd"]
    told = f"{row['task_id'][:12]} · {look.word}"
    for more in (dollars(cost) if cost else "", many(tried, "attempt") if tried else ""):
        if more and len(told) + len(more) + 3 <= SMALL:
            told += f" · {more}"
    return box, row, look, told


def _spent(told: PlanForm) -> str:
    cost = told["cost_usd"]
    if cost is None:
        return ""
    spent = dollars(cost, at_least=not told["exact"])
    budget = told["budget_usd"]
    return f"{spent} of {dollars(budget)}" if budget else spent


def _hint(rows: list[BoardRowForm], frees: dict[str, int]) -> str:
    """Say which of those that wait for a person frees the most others."""
    waiting = [row for row in rows if row["state"] in reading.HELD_BY_PERSON]
    best = max(waiting, key=lambda row: frees.get(row["task_id"], 0), default=None)
    count = frees.get(best["task_id"], 0) if best else 0
    if best is None or not count:
        return ""
    return f"A decision about {best['task_id']} frees {many(count, 'task')}."
