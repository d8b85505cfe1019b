"""Adding a task: its page and where the form goes, also from the page of a first start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter
from pydantic import ValidationError
from starlette.requests import Request  # noqa: TC002  # FastAPI reads it at run time
from starlette.responses import HTMLResponse, Response

from lifecycle.errors import LifecycleError
from lifecycle.plan import Allowance
from orchestrator.errors import OrchestratorError
from orchestrator.runner.add_task import Addition
from orchestrator.web import operator as people
from orchestrator.web.edge.problems import Problem, invalid
from orchestrator.web.pages.board import empty
from orchestrator.web.pages.site import Form, actor, form, page, piece, see, task_url

if TYPE_CHECKING:
    from orchestrator.web.services import ServerServices

NAMES = (
    "text", "title", "acceptance", "verify", "agent", "command", "dependencies", "base", "usd",
    "attempts",
)  # fmt: skip


def router(services: ServerServices) -> APIRouter:
    """Return the page and where its form goes."""
    made = APIRouter(include_in_schema=False)

    @made.get("/new")
    async def ask(request: Request) -> Response:
        return page(request, "new.html", title="Add a task", here="board", **empty(services))

    @made.get("/ui/doctor")
    async def doctor() -> Response:
        found = await services.doctor.findings()
        return HTMLResponse(piece("parts/doctor.html", checks=found["checks"]))

    @made.post("/new")
    async def add(request: Request) -> Response:
        sent = form(request)
        try:
            record, _ = await people.add(services.runner, addition_of(sent, actor(request)))
        except (LifecycleError, OrchestratorError, Problem) as problem:
            said = problem if isinstance(problem, Problem) else invalid(str(problem), "")
            told: dict[str, Any] = empty(services) | {
                "problem": said,
                "sent": {name: sent.text(name) for name in NAMES},
            }
            return page(
                request, "new.html", title="Add a task", here="board", status=said.status, **told
            )
        return see(task_url(record.agent_id))

    return made


def addition_of(sent: Form, by: str) -> Addition:
    """Return what a form asks for."""
    if not sent.text("text"):
        raise invalid("there is no task yet", "write what is to be done")
    return Addition(
        text=sent.text("text"),
        adapter=sent.text("agent") or None,
        command=sent.text("command") or None,
        verify=tuple(sent.lines("verify")),
        base=sent.text("base") or None,
        title=" ".join(sent.text("title").split()),
        acceptance=tuple(sent.lines("acceptance")),
        dependencies=tuple(sent.text("dependencies").replace(",", " ").split()),
        budget=_budget(sent),
        by=by,
    )


def _budget(sent: Form) -> Allowance | None:
    usd, attempts = sent.text("usd").lstrip("$ "), sent.text("attempts")
    if not usd and not attempts:
        return None
    try:
        return Allowance(
            usd=float(usd) if usd else None, attempts=int(attempts) if attempts else None
        )
    except (ValueError, ValidationError) as problem:
        raise invalid(
            "the budget is not a number above 0", "write dollars and attempts in digits"
        ) from problem
