"""The summaries of a lifecycle over HTTP: read, compared, edited, approved."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from fastapi import Header, Query
from starlette.responses import Response

from orchestrator.control.commands import OperatorCommand
from orchestrator.control.summaries import HELD, SummaryError, SummaryMovedError
from orchestrator.web import models
from orchestrator.web.actor import actor_of
from orchestrator.web.edge.answers import CHANGING, as_text, json_answer, says_no
from orchestrator.web.edge.api_router import api_router
from orchestrator.web.edge.problems import invalid, refused, unknown
from orchestrator.web.operator import found, steer
from orchestrator.web.reading import summaries as reading
from orchestrator.web.reading.summaries import SummaryDiffForm, summaries_of
from orchestrator.web.routes.lifecycle_actions import Actor, Id, order_form, told
from orchestrator.web.routes.lifecycles import Number  # noqa: TC001  # FastAPI reads it at run time
from orchestrator.wording.json_forms import SummaryForm
from orchestrator.wording.json_schemas import model_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastapi import APIRouter

    from orchestrator.runner.server_interface import RunnerPort
    from orchestrator.web.services import ServerServices

PLACE = "/lifecycles/{agent_id}"
ONE = f"{PLACE}/summaries/{{attempt}}"
MOVED = "GET .../summaries/{n} has the text as it is now"
_FACTS = {"content": {"application/json": {"schema": {"type": "object"}}}}
IfMatch = Annotated[
    str, Header(max_length=100, description="the `version` that is edited, as an ETag")
]


def router(services: ServerServices) -> APIRouter:
    """Return the endpoints."""
    made = api_router()
    _texts(made, services.runner)
    _sources(made, services.runner)
    _changing(made, services.runner)
    return made


@contextmanager
def telling() -> Iterator[None]:
    """Tell what is not there, or cannot be changed, as problems."""
    try:
        yield
    except SummaryMovedError as problem:
        raise refused(str(problem), MOVED) from problem
    except SummaryError as problem:
        raise unknown(str(problem), "GET .../summaries lists those there are") from problem


def _texts(made: APIRouter, runner: RunnerPort) -> None:
    refusals = says_no(404)

    @made.get(
        f"{PLACE}/summaries",
        response_model=model_of(models.SummariesForm),
        responses=refusals,
        summary="Which attempts have a summary, and who edited any",
    )
    async def summaries(agent_id: Id) -> Response:
        return json_answer(await reading.overview(runner, agent_id))

    @made.get(
        ONE,
        response_model=model_of(SummaryForm),
        responses=refusals,
        summary="What an attempt was told, or what the next one will be told",
    )
    async def summary(agent_id: Id, attempt: Number) -> Response:
        with telling():
            return json_answer(await reading.one(runner, agent_id, attempt))

    @made.get(
        f"{ONE}/diff",
        response_model=model_of(SummaryDiffForm),
        responses=refusals,
        summary="What changed since the summary of an earlier attempt",
    )
    async def diff(
        agent_id: Id,
        attempt: Number,
        against: Annotated[
            int | None,
            Query(ge=0, le=1_000_000_000, description="by default the one before it"),
        ] = None,
    ) -> Response:
        with telling():
            return json_answer(await reading.compared(runner, agent_id, attempt, against))


def _sources(made: APIRouter, runner: RunnerPort) -> None:
    refusals = says_no(404)

    @made.get(
        f"{PLACE}/snapshots/{{attempt}}",
        response_class=Response,
        responses={200: {"description": "a `ContextSnapshot`", **_FACTS}, **refusals},
        summary="The facts that a summary is made of",
    )
    async def snapshot(agent_id: Id, attempt: Number) -> Response:
        known = await summaries_of(runner, agent_id)
        with telling():
            return json_answer(await known.snapshot(attempt, at=runner.now()))

    @made.get(
        f"{PLACE}/prompts/{{attempt}}",
        response_class=Response,
        responses={200: as_text("what its program reads on standard input"), **refusals},
        summary="All that an attempt reads, or would read now",
    )
    async def prompt(agent_id: Id, attempt: Number) -> Response:
        known = await summaries_of(runner, agent_id)
        with telling():
            text = await known.prompt(attempt, at=runner.now())
        return Response(text, media_type="text/plain")


def _changing(made: APIRouter, runner: RunnerPort) -> None:
    @made.put(
        ONE,
        response_model=model_of(SummaryForm),
        responses=says_no(*CHANGING, 404),
        summary="Put a text of yours in the place of the next attempt's summary",
    )
    async def write(
        agent_id: Id,
        attempt: Number,
        asked: models.Replacement,
        actor: Actor = "",
        if_match: IfMatch = "",
    ) -> Response:
        version = if_match.strip().removeprefix("W/").strip('"') or asked.version
        shown = await replaced(
            runner, agent_id, attempt, asked.text, by=actor_of(actor), version=version
        )
        return json_answer(shown)

    @made.post(**order_form("summaries/{attempt}/approve", "Release the attempt that is held"))
    async def approve(
        agent_id: Id, attempt: Number, asked: models.Approval, actor: Actor = ""
    ) -> Response:
        await seen(runner, agent_id, attempt, asked.version)
        verb = reading.approval_of(await found(runner, agent_id))
        command = _command(verb, agent_id, asked, actor)
        return await told(runner, agent_id, steer(runner, command))

    @made.post(**order_form("summaries/{attempt}/hold", "Hold the next attempt until approved"))
    async def hold(
        agent_id: Id, attempt: Number, asked: models.Reasoned, actor: Actor = ""
    ) -> Response:
        await seen(runner, agent_id, attempt, None)
        command = _command("pause", agent_id, asked, actor)
        command = replace(command, why=command.why or HELD)
        return await told(runner, agent_id, steer(runner, command))


def _command(verb: str, agent_id: str, asked: models.Reasoned, actor: str) -> OperatorCommand:
    return OperatorCommand(
        verb=verb, agent_id=agent_id, by=actor_of(actor), why=asked.why.strip(), wait_s=asked.wait
    )


async def replaced(  # noqa: PLR0913  # the last by name
    runner: RunnerPort, agent_id: str, attempt: int, text: str, *, by: str, version: str | None
) -> SummaryForm:
    """Keep a person's text for the next attempt; returns the summary as it is then."""
    known = await summaries_of(runner, agent_id)
    only_next(agent_id, attempt, known.next_attempt)
    at = runner.now()
    try:
        await known.replace(text, runner.audit, by=by, at=at, version=version)
    except SummaryMovedError as problem:
        raise refused(str(problem), MOVED) from problem
    except SummaryError as problem:
        raise invalid(str(problem), "send a shorter text") from problem
    return (await known.to_come(at=at)).form(agent_id)


async def seen(runner: RunnerPort, agent_id: str, attempt: int, version: str | None) -> None:
    """Refuse to approve what is not the next summary, or not the one that was looked at."""
    known = await summaries_of(runner, agent_id)
    only_next(agent_id, attempt, known.next_attempt)
    if version is not None:
        with telling():
            present = await known.show(attempt, at=runner.now())
        if present.version != version:
            raise refused("the summary changed since you looked at it", MOVED)


def only_next(agent_id: str, attempt: int, following: int | None) -> None:
    """Refuse to change what an attempt was told already."""
    if following is None:
        raise refused(f"no attempt of {agent_id} follows whose summary could be changed")
    if attempt != following:
        raise refused(
            f"only the summary of the next attempt can be changed, which is {following}",
            f"use .../summaries/{following}",
        )
