"""What a person does with a task: each form of the pages, sent here.

Goes through the functions of the API. A refusal is shown where the deed was done, with what was
typed; a browser without scripts is sent back with 303.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter
from starlette.requests import Request  # noqa: TC002  # FastAPI reads it at run time
from starlette.responses import HTMLResponse, Response

from lifecycle.state_words import REVIEW
from orchestrator.control.commands import OperatorCommand
from orchestrator.control.requests import UnansweredError
from orchestrator.web import operator as people
from orchestrator.web.edge.problems import Problem, invalid
from orchestrator.web.formats import short
from orchestrator.web.pages.board import GUARD, row_piece
from orchestrator.web.pages.site import (
    Form,
    actor,
    agent_of,
    form,
    is_htmx,
    our_path,
    page,
    see,
    task_url,
    visitor_of,
)
from orchestrator.web.reading.board import one_row
from orchestrator.web.several import accept_several

if TYPE_CHECKING:
    from orchestrator.review.queue import WaitingForm
    from orchestrator.web.services import ServerServices

VERBS = {
    "answer": "answer",
    "guide": "guide",
    "back": "guide",
    "unblock": "unblock",
    "pause": "pause",
    "resume": "resume",
    "stop": "stop",
    "accept": "accept",
    "reject": "reject",
}
"""By the last part of the address, the order; to send back is to guide what is done."""
NAMES = {
    "answer": "Answer",
    "guide": "Guide",
    "back": "Send back",
    "unblock": "Unblock",
    "pause": "Pause",
    "resume": "Resume",
    "stop": "Stop",
    "accept": "Accept",
    "reject": "Reject",
}
SAYING = frozenset(("answer", "guide", "back"))
"""Need words for the agent."""
WITHIN = 10.0
"""Seconds to wait for what follows; a merge goes on after that."""


def router(services: ServerServices) -> APIRouter:
    """Return the addresses of forms."""
    made = APIRouter(include_in_schema=False)

    @made.post("/t/{task}/{verb}")
    async def act(request: Request, task: str, verb: str) -> Response:
        if verb not in VERBS:
            raise Problem(404, "unknown", "there is no such action", "go back to the task")
        agent_id = await agent_of(services, task)
        sent = form(request)
        back = our_path(sent.text("next"), task_url(agent_id))
        try:
            await carry_out(services, agent_id, verb, sent, actor(request))
        except UnansweredError:
            # It is carried out as soon as the runner gets to it; the page shows when.
            pass
        except Problem as problem:
            return await _refused(request, services, agent_id, verb, problem, back)
        if is_htmx(request):
            return await _row(request, services, agent_id, back)
        return see(back)

    @made.get("/accept")
    async def choose(request: Request) -> Response:
        queue = (await services.reviews.queue())["items"]
        return page(
            request,
            "accept.html",
            title="Accept several",
            here="board",
            items=[each for each in queue if can_be_ticked(each)],
        )

    @made.post("/accept")
    async def accept(request: Request) -> Response:
        sent = form(request)
        agents = [await agent_of(services, each) for each in sent.all("agent")]
        if not agents:
            raise invalid("nothing is ticked", "go back, and tick what is to be merged")
        heads = {each: head for each in agents if (head := sent.text(f"head-{short(each)}"))}
        told = await accept_several(services.runner, agents, by=actor(request), heads=heads)
        merged = sum(each["merged"] for each in told)
        return page(
            request,
            "accepted.html",
            title=f"{merged} of {len(told)} merged",
            here="review",
            told=told,
            merged=merged,
        )

    return made


def can_be_ticked(each: WaitingForm) -> bool:
    """Tell whether work may be merged among others: green, and nothing in it flagged."""
    return each["needs"] == REVIEW and each["verified"] and not each["flagged"]


async def carry_out(
    services: ServerServices, agent_id: str, verb: str, sent: Form, by: str
) -> None:
    """Give the order that a form asks for."""
    text, why = sent.text("text"), sent.text("why")
    if verb in SAYING and not text:
        raise invalid("there is nothing to say yet", "write what the agent is told")
    if verb == "reject" and not why:
        raise invalid("a rejection needs a reason", "write why; it is for the record")
    more: dict[str, Any] = {}
    if verb == "accept":
        more = {"along": sent.text("along") == "1", "expect_head": sent.text("expect_head")}
    if verb == "pause":
        more = {"now": sent.text("now") == "1"}
    await people.steer(
        services.runner,
        OperatorCommand(
            verb=VERBS[verb],
            agent_id=agent_id,
            text=text if verb in SAYING or verb == "unblock" else "",
            why=why,
            by=by,
            wait_s=WITHIN,
            **more,
        ),
    )


async def _row(
    request: Request,
    services: ServerServices,
    agent_id: str,
    back: str,
    problem: Problem | None = None,
) -> Response:
    """Return the row as it is now."""
    visitor = visitor_of(request)
    row = await one_row(services.board, agent_id)
    text = row_piece(
        row,
        now=services.runner.now(),
        operate=bool(visitor and visitor.may("operator")),
        back=back,
        opened=problem is not None,
        problem=problem,
        typed=form(request).text("text") if problem else "",
    )
    return HTMLResponse(text.replace(GUARD, visitor.guard if visitor else ""))


async def _refused(  # noqa: PLR0913, PLR0917  # what the page is made of
    request: Request,
    services: ServerServices,
    agent_id: str,
    verb: str,
    problem: Problem,
    back: str,
) -> Response:
    """Show the refusal with what was typed."""
    row = await one_row(services.board, agent_id)
    if is_htmx(request) and request.headers.get("hx-target", "").startswith("row-"):
        return await _row(request, services, agent_id, back, problem)
    if is_htmx(request):
        raise problem
    sent = form(request)
    return page(
        request,
        "refused.html",
        title="Not merged" if verb == "accept" else "That was refused",
        here="board",
        status=problem.status,
        row=row,
        verb=verb,
        name=NAMES[verb],
        problem=problem,
        back=back,
        text=sent.text("text"),
        why=sent.text("why"),
        saying=verb in SAYING or verb == "unblock",
        reasoned=verb in {"reject", "stop", "pause"},
    )
