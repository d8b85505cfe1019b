"""Changing lifecycles: adding one, and what a person may ask of one.

What each order means is `orchestrator.control.commands`'s and the machine's business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Header, Path
from pydantic import AfterValidator
from starlette.responses import Response  # noqa: TC002  # FastAPI reads it at run time

from orchestrator.control.commands import OperatorCommand
from orchestrator.control.requests import UnansweredError
from orchestrator.review.marks import Comment, guidance
from orchestrator.runner.add_task import Addition
from orchestrator.web import models
from orchestrator.web import operator as people
from orchestrator.web.actor import actor_of, header_text
from orchestrator.web.edge.answers import CHANGING, json_answer, says_no
from orchestrator.web.edge.api_router import api_router
from orchestrator.web.edge.problems import invalid
from orchestrator.web.operator import found
from orchestrator.wording.json_forms import record_form
from orchestrator.wording.json_schemas import model_of

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from fastapi import APIRouter

    from orchestrator.control.outcomes import OperatorOutcome
    from orchestrator.runner.server_interface import RunnerPort
    from orchestrator.web.services import ServerServices

_IN_RECORD = ("agent_id", "command", "state", "record_state")

Id = Annotated[str, Path(description="the agent's id")]
Actor = Annotated[
    str,
    Header(
        alias="X-Loopwright-Actor",
        max_length=1000,
        description="who asks, for the audit; by default api",
    ),
    AfterValidator(header_text),
]


def router(services: ServerServices) -> APIRouter:
    """Return the endpoints."""
    made = api_router(*CHANGING)
    _adding(made, services.runner)
    _holding(made, services.runner)
    _speaking(made, services)
    _judging(made, services.runner)
    return made


def _adding(made: APIRouter, runner: RunnerPort) -> None:
    @made.post(
        "/lifecycles",
        status_code=201,
        response_model=model_of(models.AddedForm),
        summary="Add a task with an agent of its own; it starts as soon as a slot is free",
    )
    async def add(asked: models.Submission, actor: Actor = "") -> Response:
        record, warnings = await people.add(runner, addition_of(asked, actor_of(actor)))
        return json_answer({"lifecycle": record_form(record, runs=True), "warnings": warnings}, 201)


def addition_of(asked: models.Submission, by: str) -> Addition:
    """Return what is to be added."""
    return Addition(
        text=asked.text.strip(),
        name=asked.name,
        adapter=asked.agent,
        command=asked.command,
        verify=tuple(asked.verify),
        base=asked.base,
        issue=asked.issue,
        title=asked.title.strip(),
        acceptance=tuple(asked.acceptance),
        dependencies=tuple(asked.dependencies),
        budget=asked.budget,
        by=by,
    )


def _holding(made: APIRouter, runner: RunnerPort) -> None:
    @made.post(**order_form("pause", "Start no new attempt after the present one"))
    async def pause(agent_id: Id, asked: models.Pause, actor: Actor = "") -> Response:
        command = OperatorCommand(
            verb="pause",
            agent_id=agent_id,
            by=actor_of(actor),
            wait_s=asked.wait,
            why=asked.why.strip(),
            now=asked.now,
            turns=asked.turns or 0,
        )
        return await told(runner, agent_id, people.steer(runner, command))

    @made.post(**order_form("resume", "Continue a paused, stopped or given-up lifecycle"))
    async def resume(agent_id: Id, asked: models.Reasoned, actor: Actor = "") -> Response:
        return await _steered(runner, "resume", agent_id, asked, actor)

    @made.post(**order_form("stop", "End the present attempt now, keep its work, and hold"))
    async def stop(agent_id: Id, asked: models.Reasoned, actor: Actor = "") -> Response:
        return await _steered(runner, "stop", agent_id, asked, actor)


def _speaking(made: APIRouter, services: ServerServices) -> None:
    runner = services.runner

    @made.post(**order_form("guide", "Tell the next attempt something"))
    async def guide(agent_id: Id, asked: models.SendingBack, actor: Actor = "") -> Response:
        return await _guided(services, agent_id, asked, actor_of(actor))

    @made.post(**order_form("unblock", "Say that what it waits for is settled"))
    async def unblock(agent_id: Id, asked: models.MaybeSaying, actor: Actor = "") -> Response:
        return await _steered(runner, "unblock", agent_id, asked, actor, asked.text)

    @made.post(**order_form("answer", "Answer the agent's question"))
    async def answer(agent_id: Id, asked: models.Saying, actor: Actor = "") -> Response:
        return await _steered(runner, "answer", agent_id, asked, actor, asked.text)


def _judging(made: APIRouter, runner: RunnerPort) -> None:
    @made.post(**order_form("accept", "Merge completed work into its base"))
    async def accept(agent_id: Id, asked: models.Acceptance, actor: Actor = "") -> Response:
        command = OperatorCommand(
            verb="accept",
            agent_id=agent_id,
            by=actor_of(actor),
            why=asked.why.strip(),
            wait_s=asked.wait,
            along=asked.with_dependencies,
            verify=asked.verify,
            expect_head=asked.expect_head or "",
        )
        return await told(runner, agent_id, people.steer(runner, command))

    @made.post(**order_form("reject", "End a lifecycle; its work stays under a saved ref"))
    async def reject(agent_id: Id, asked: models.Reasoned, actor: Actor = "") -> Response:
        return await _steered(runner, "reject", agent_id, asked, actor)


def order_form(verb: str, summary: str) -> dict[str, Any]:
    """Describe an order to a lifecycle."""
    return {
        "path": f"/lifecycles/{{agent_id}}/{verb}",
        "response_model": model_of(models.OutcomeForm),
        "responses": {
            202: {
                "model": model_of(models.OutcomeForm),
                "description": "asked for, and not decided in time",
            },
            **says_no(*CHANGING, 404),
        },
        "summary": summary,
    }


async def _steered(  # noqa: PLR0913, PLR0917  # as the endpoints have them
    runner: RunnerPort, verb: str, agent_id: str, asked: models.Nothing, actor: str, text: str = ""
) -> Response:
    command = OperatorCommand(
        verb=verb,
        agent_id=agent_id,
        text=text.strip(),
        by=actor_of(actor),
        why=asked.why.strip() if isinstance(asked, models.Reasoned) else "",
        wait_s=asked.wait,
    )
    return await told(runner, agent_id, people.steer(runner, command))


async def _guided(
    services: ServerServices, agent_id: str, asked: models.SendingBack, actor: str
) -> Response:
    comments = [
        Comment(file=each.file, line=each.line, side=each.side, text=each.text)
        for each in asked.comments
    ]
    if asked.marked:
        comments += await services.reviews.comments(agent_id, actor)
    text = guidance(asked.text, comments)
    if not text:
        raise invalid("there are neither words nor comments to tell the agent", "give `text`")
    command = OperatorCommand(
        verb="guide", agent_id=agent_id, text=text, by=actor, wait_s=asked.wait
    )
    answer = await told(services.runner, agent_id, people.steer(services.runner, command))
    if asked.marked:
        await services.reviews.forget_comments(agent_id, actor)
    return answer


async def told(runner: RunnerPort, agent_id: str, steering: Awaitable[OperatorOutcome]) -> Response:
    """Answer with what became of what was asked."""
    try:
        outcome = await steering
    except UnansweredError as late:
        record = await found(runner, agent_id)
        asked = {"lifecycle": record_form(record, runs=True), "changed": False, "text": str(late)}
        return json_answer(asked, 202)
    record = await found(runner, agent_id)
    more = {key: value for key, value in outcome.to_json().items() if key not in _IN_RECORD}
    return json_answer({"lifecycle": record_form(record, runs=True), **more})
