"""How the server itself does: alive, ready, and its numbers.

Must not need anything of what it tells about but the probe's tiny write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter
from starlette.responses import Response

from lifecycle.fleet.spawner import metrics as names
from lifecycle.state_words import ACCEPTED, spelled
from orchestrator.web import models
from orchestrator.web.edge.answers import EVERYWHERE, as_text, json_answer, says_no
from orchestrator.web.live.prometheus import TYPE, MetricsText

if TYPE_CHECKING:
    from collections import Counter

    from orchestrator.web.services import ServerServices

_COUNTERS = (
    (names.SPAWN_COUNT, "Agent processes started"),
    (names.SPAWN_FAILURES, "Agent processes that could not be started"),
    (names.TERMINATE_COUNT, "Agent processes ended by the runner"),
    (names.TERMINATE_FORCED, "Agent processes that had to be killed"),
    (names.RESTARTS_COUNT, "Agent processes that followed an earlier one of the same agent"),
    (names.LICENSE_REJECTIONS, "Agent processes refused by a quota"),
)
_HISTOGRAMS = (
    (names.SPAWN_DURATION, "Seconds to start an agent process"),
    (names.TERMINATE_DURATION, "Seconds to end an agent process"),
)


def router(services: ServerServices) -> APIRouter:
    """Return the endpoints."""
    made = APIRouter()
    _checks(made, services)

    @made.get(
        "/metrics",
        response_class=Response,
        responses={200: as_text("Prometheus text form"), **says_no(*EVERYWHERE)},
        summary="Numbers for Prometheus",
    )
    async def metrics() -> Response:
        return Response(await present_numbers(services), media_type=TYPE)

    return made


async def present_numbers(services: ServerServices) -> str:
    """Return all numbers as they are now."""
    # Brings the gauges of instances in line.
    await services.spawner.get_statistics()
    return numbers(services)


def _checks(made: APIRouter, services: ServerServices) -> None:
    open_ = says_no(405, 421, 500)

    @made.get("/healthz", response_model=models.Health, responses=open_, summary="Whether it lives")
    async def alive() -> Response:
        return json_answer({"status": "ok", "reason": ""})

    @made.get(
        "/readyz",
        response_model=models.Health,
        responses={503: {"model": models.Health, "description": "not ready"}, **open_},
        summary="Whether it can work: the store takes writes, and the runner is not ending",
    )
    async def ready() -> Response:
        if services.leaving or services.runner.draining():
            return json_answer({"status": "not ready", "reason": "it is shutting down"}, 503)
        problem = await services.probe.look()
        if problem:
            # The problem names files, which clients without a token must not learn.
            return json_answer(
                {"status": "not ready", "reason": "the store cannot be written"}, 503
            )
        return json_answer({"status": "ready", "reason": ""})


def numbers(services: ServerServices) -> str:
    """Return all numbers in Prometheus' form."""
    page = MetricsText()
    _of_instances(page, services)
    _of_loops(page, services)
    _of_outside(page, services)
    return page.text()


def _of_instances(page: MetricsText, services: ServerServices) -> None:
    shot = services.spawner.metrics.snapshot()
    gauges = shot.gauges
    active = gauges.get(names.ACTIVE, {}).get("", 0)
    page.gauge(_name(names.ACTIVE), "Instances that have not ended", active)
    page.gauges(
        _name(names.BY_STATE),
        "Instances by state",
        [({"state": str(state)}, count) for state, count in gauges[names.BY_STATE].items()],
    )
    for name, help_ in _COUNTERS:
        page.counter(f"{_name(name)}_total", help_, shot.counters.get(name, 0))
    for name, help_ in _HISTOGRAMS:
        if name in shot.histograms:
            page.histogram(f"{_name(name)}_seconds", help_, shot.histograms[name])


def _of_loops(page: MetricsText, services: ServerServices) -> None:
    counters = services.counters
    page.gauges(
        "loopwright_lifecycles",
        "Lifecycles that are not over, by state",
        _labelled("state", counters.by_state()),
    )
    page.gauges(
        "loopwright_lifecycles_by_work_state",
        "Lifecycles that are not over, by work state",
        _labelled("work_state", counters.by_work_state()),
    )
    page.counters(
        "loopwright_lifecycles_ended_total",
        "Lifecycles accepted, rejected or given up",
        _labelled("state", counters.ended),
    )
    page.summaries(
        "loopwright_lifecycle_seconds",
        "From creation to end, by how it ended",
        [
            ({"state": state}, counters.lasted[state], count)
            for state, count in sorted(counters.ended.items())
        ],
    )
    if total := counters.ended.total():
        page.gauge(
            "loopwright_lifecycle_success_ratio",
            "How many of the lifecycles that ended were accepted",
            counters.ended[spelled(ACCEPTED)] / total,
        )
    page.counters(
        "loopwright_attempts_total",
        "Attempts that ended, by how they ended",
        _labelled("outcome", counters.attempts),
    )
    page.summaries(
        "loopwright_wait_seconds",
        "Waits that are over, by what was waited for",
        [({"kind": kind}, counters.waited[kind], count) for kind, count in counters.waits.items()],
    )


def _of_outside(page: MetricsText, services: ServerServices) -> None:
    page.counters(
        "loopwright_hooks_received_total",
        "Webhook requests, by what became of them",
        [
            ({"provider": provider, "result": result}, count)
            for (provider, result), count in services.hooks.received.items()
        ],
    )
    page.gauges(
        "loopwright_forge_requests_remaining",
        "Requests that a forge still allows",
        [
            ({"forge": forge}, left)
            for forge, left in services.runner.budgets().items()
            if left is not None
        ],
    )
    page.counters(
        "loopwright_http_refused_total",
        "Requests that were turned away, by why",
        _labelled("code", services.turned_away),
    )
    page.gauge("loopwright_streams", "Open streams", services.hub.listeners)
    writes = services.probe.latency()
    if writes is not None:
        page.histogram("loopwright_store_write_seconds", "Seconds that a tiny write took", writes)


def _labelled(label: str, counts: Counter[str]) -> list[tuple[dict[str, str], float]]:
    return [({label: name}, count) for name, count in sorted(counts.items())]


def _name(name: str) -> str:
    return name.replace(".", "_")
