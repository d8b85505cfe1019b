"""Settings over HTTP, what of them waits for a person, and what `doctor` finds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import Response  # noqa: TC002  # FastAPI reads it at run time

from orchestrator.control import approve_settings
from orchestrator.web import models  # noqa: TC001  # as above
from orchestrator.web.actor import actor_of
from orchestrator.web.edge.answers import CHANGING, json_answer, says_no
from orchestrator.web.edge.api_router import api_router
from orchestrator.web.edge.problems import refused
from orchestrator.web.reading import configuration as reading
from orchestrator.web.reading.configuration import ConfigurationForm, Doctor, FindingsForm
from orchestrator.web.routes.lifecycle_actions import Actor  # noqa: TC001  # as above
from orchestrator.wording.json_schemas import model_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fastapi import APIRouter

    from orchestrator.approval.approvals import HeldValue
    from orchestrator.runner.server_interface import RunnerPort
    from orchestrator.web.services import ServerServices


def router(services: ServerServices) -> APIRouter:
    """Return the endpoints."""
    made = api_router()
    _reading(made, services.runner, services.doctor)
    _changing(made, services.runner)
    return made


def _reading(made: APIRouter, runner: RunnerPort, doctor: Doctor) -> None:
    @made.get(
        "/settings",
        response_model=model_of(ConfigurationForm),
        responses=says_no(409),
        summary="Every setting with its origin, and the changes by agents that wait",
    )
    async def settings() -> Response:
        return json_answer(await reading.configuration(runner))

    @made.get(
        "/doctor",
        response_model=model_of(FindingsForm),
        summary="What `loopwright doctor` finds; looked for at most every 30 seconds",
    )
    async def findings() -> Response:
        return json_answer(await doctor.findings())


def _changing(made: APIRouter, runner: RunnerPort) -> None:
    refusals = says_no(*CHANGING)

    @made.post(
        "/settings/approve",
        response_model=model_of(ConfigurationForm),
        responses=refusals,
        summary="Put changes that agents made into force; only for admins",
    )
    async def approve(asked: models.Changes, actor: Actor = "") -> Response:
        await approved(runner, asked.changes, by=actor_of(actor))
        return json_answer(await reading.configuration(runner))

    @made.post(
        "/settings/refuse",
        response_model=model_of(ConfigurationForm),
        responses=refusals,
        summary="Leave changes that agents made out of force for good; only for admins",
    )
    async def refuse(asked: models.Changes, actor: Actor = "") -> Response:
        await turned_down(runner, asked.changes, by=actor_of(actor), why=asked.why.strip())
        return json_answer(await reading.configuration(runner))


async def approved(runner: RunnerPort, changes: Sequence[str], *, by: str) -> None:
    """Put changes that agents made into force."""
    (_, approvals), _ = await reading.read(runner)
    cells = _cells(approvals.held, changes)
    await approve_settings.take_over(
        runner.store,
        runner.audit,
        approvals,
        cells,
        by=by,
        at=runner.now(),
        masker=runner.engine.shared.masker,
    )


async def turned_down(runner: RunnerPort, changes: Sequence[str], *, by: str, why: str) -> None:
    """Leave changes that agents made out of force."""
    (_, approvals), _ = await reading.read(runner)
    cells = _cells(approvals.held, changes)
    await approve_settings.refuse(
        runner.store, runner.audit, approvals, cells, by=by, at=runner.now(), why=why
    )


def _cells(held: Mapping[str, HeldValue], changes: Sequence[str]) -> list[str]:
    by_id = {approve_settings.id_of(each): cell for cell, each in held.items()}
    if not by_id.keys() >= set(changes):
        raise refused(
            "a change that is named does not wait any more, or its value is another one by now",
            "look at GET /api/v1/settings again",
        )
    return [by_id[each] for each in dict.fromkeys(changes)]
