"""Adding a task: its page and where the form goes, also from the page of a first start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter
from pydantic import ValidationError
from starlette.requests import Request  # noqa: TC002  # FastAPI reads it at run time
from starlette.responses import HTMLResponse, Response

from lifecycle.errors import LifecycleError
from orchestrator.errors import OrchestratorError
from orchestrator.web import operator as people
from orchestrator.web.edge.problems import Problem, invalid
from orchestrator.web.models import Submission
from orchestrator.web.pages.board import empty
from orchestrator.web.pages.site import Form, actor, form, page, piece, see, task_url
from orchestrator.web.routes.lifecycle_actions import addition_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from orchestrator.web.services import ServerServices

NAMES = (
    "text", "title", "acceptance", "verify", "agent", "command", "dependencies", "base", "issue",
    "usd", "attempts",
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
            addition = addition_of(submission_of(sent), actor(request))
            record, _ = await people.add(services.runner, addition)
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


def submission_of(sent: Form) -> Submission:
    """Return what a form asks for, checked as the API checks it."""
    if not sent.text("text"):
        raise invalid("there is no task yet", "write what is to be done")
    usd, attempts = sent.text("usd").lstrip("$ "), sent.text("attempts")
    budget = {"usd": _number(usd, float), "attempts": _number(attempts, int)}
    asked = {
        "text": sent.text("text"),
        "agent": sent.text("agent") or None,
        "command": sent.text("command") or None,
        "verify": sent.lines("verify"),
        "base": sent.text("base") or None,
        "issue": sent.text("issue"),
        "title": " ".join(sent.text("title").split()),
        "acceptance": sent.lines("acceptance"),
        "dependencies": sent.text("dependencies").replace(",", " ").split(),
        "budget": budget if usd or attempts else None,
    }
    try:
        return Submission.model_validate(asked)
    except ValidationError as problem:
        first = problem.errors(include_url=False)[0]
        name = str(first["loc"][0])
        if name == "budget":
            raise invalid(
                "the budget is not a number above 0", "write dollars and attempts in digits"
            ) from problem
        raise invalid(f"{name}: {first['msg']}", "write it otherwise") from problem


def _number(text: str, kind: Callable[[str], float]) -> float | str | None:
    """Return the number that a text says; a text that says none is refused later."""
    try:
        return kind(text) if text else None
    except ValueError:
        return text
