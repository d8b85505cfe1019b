"""The webhooks that arrived: read, and put back to be worked on again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

from fastapi import Path, Query
from starlette.responses import Response  # noqa: TC002  # FastAPI reads it at run time

from ci.webhook_delivery import DeliveryState
from lifecycle.machine.runner_orders import DeliveriesOrder
from lifecycle.mask_values import masked
from orchestrator.control.webhooks import put_back
from orchestrator.web import models
from orchestrator.web.actor import actor_of
from orchestrator.web.edge.answers import CHANGING, json_answer, says_no
from orchestrator.web.edge.api_router import api_router
from orchestrator.web.edge.problems import unknown
from orchestrator.web.reading import deliveries as reading
from orchestrator.web.reading.deliveries import DeliveryFilter, WebhooksForm, WholeDeliveryForm
from orchestrator.web.routes.lifecycle_actions import Actor  # noqa: TC001  # FastAPI reads it at run time
from orchestrator.wording.json_schemas import model_of

if TYPE_CHECKING:
    from fastapi import APIRouter

    from orchestrator.runner.server_interface import RunnerPort
    from orchestrator.web.services import ServerServices

LOOK_EVERY = 0.05
_LARGEST = 2**53 - 1
Number = Annotated[int, Path(ge=0, le=_LARGEST, description="its `cursor` in the list")]


def router(services: ServerServices) -> APIRouter:
    """Return the endpoints."""
    made = api_router()
    _reading(made, services.runner)
    _changing(made, services.runner)
    return made


def _reading(made: APIRouter, runner: RunnerPort) -> None:
    @made.get(
        "/deliveries",
        response_model=model_of(models.DeliveriesForm),
        summary="Webhook requests that were received, newest first",
    )
    async def deliveries(
        state: DeliveryState | None = None,
        provider: Annotated[str | None, Query(max_length=100)] = None,
        cursor: Annotated[int | None, Query(ge=0, le=_LARGEST)] = None,
        limit: Annotated[int, Query(ge=1, le=1000)] = 50,
    ) -> Response:
        which = DeliveryFilter(state=state, provider=provider, cursor=cursor, limit=limit)
        return json_answer(await reading.page(runner, which))

    @made.get(
        "/deliveries/{number}",
        response_model=model_of(WholeDeliveryForm),
        responses=says_no(404),
        summary="One webhook request: headers, body, and why it matched nothing",
    )
    async def delivery(number: Number) -> Response:
        return json_answer(await whole(runner, number))

    @made.get(
        "/webhooks",
        response_model=model_of(WebhooksForm),
        summary="How many webhook requests are in each state, and the last one of each sender",
    )
    async def webhooks() -> Response:
        return json_answer(await reading.senders(runner))


def _changing(made: APIRouter, runner: RunnerPort) -> None:
    @made.post(
        "/deliveries/{number}/replay",
        response_model=model_of(WholeDeliveryForm),
        responses={
            202: {
                "model": model_of(WholeDeliveryForm),
                "description": "put back, and not worked on in time",
            },
            **says_no(*CHANGING, 404),
        },
        summary="Have a webhook request worked on again",
    )
    async def replay(number: Number, asked: models.Nothing, actor: Actor = "") -> Response:
        told = await replayed(runner, number, by=actor_of(actor), wait_s=asked.wait)
        return json_answer(told, 202 if told["state"] == DeliveryState.RECEIVED else 200)


async def whole(runner: RunnerPort, number: int) -> WholeDeliveryForm:
    """Return a delivery, or say that there is none."""
    found = await reading.one(runner, number)
    if found is None:
        raise unknown(f"there is no delivery {number}", "GET /api/v1/deliveries lists them")
    return found


async def replayed(runner: RunnerPort, number: int, *, by: str, wait_s: float) -> WholeDeliveryForm:
    """Put a delivery back, and wait for what becomes of it."""
    clock = asyncio.get_running_loop().time
    end = clock() + wait_s
    found = await whole(runner, number)
    at = runner.now()
    await put_back(runner.store, runner.audit, found["key"], by=by, at=at)
    order = DeliveriesOrder(at=at, by=by)
    await runner.store.ask(None, masked(order, runner.engine.shared.masker))
    while True:
        found = await whole(runner, number)
        if found["state"] != DeliveryState.RECEIVED or clock() > end:
            return found
        await asyncio.sleep(LOOK_EVERY)
