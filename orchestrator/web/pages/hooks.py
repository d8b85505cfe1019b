"""The pages of webhooks: what arrived, one of them with why it matched nothing, and replay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Path, Query
from starlette.requests import Request  # noqa: TC002  # FastAPI reads it at run time
from starlette.responses import Response  # noqa: TC002  # as above

from ci.forge_registry import SENDERS
from ci.webhook_delivery import DeliveryState
from orchestrator.web.pages.events import live_of, watched
from orchestrator.web.pages.site import actor, page, see
from orchestrator.web.reading import deliveries as reading
from orchestrator.web.reading.deliveries import DeliveryFilter
from orchestrator.web.routes.deliveries import replayed, whole

if TYPE_CHECKING:
    from orchestrator.runner.server_interface import RunnerPort
    from orchestrator.web.reading.deliveries import WholeDeliveryForm
    from orchestrator.web.services import ServerServices

_LARGEST = 2**53 - 1
REPLAY_WITHIN = 3.0
"""Seconds in which a replay tells its outcome; later ones are seen on the page."""
ROWS = 50
LOOKS = {
    "received": ("clock", "wait"),
    "matched": ("ok", "good"),
    "unmatched": ("question", "wait"),
    "ignored": ("dash", "idle"),
    "broken": ("no", "bad"),
}
"""Shape and colour of each state of a delivery; its word is the state itself."""
_TITLES = {
    "received": "What happens to it",
    "matched": "What it matched",
    "unmatched": "Why nothing matched",
    "ignored": "Why it was left alone",
    "broken": "What is wrong with it",
}

Number = Annotated[int, Path(ge=0, le=_LARGEST)]
State = Annotated[str, Query(max_length=20)]
Sender = Annotated[str, Query(max_length=100)]
Cursor = Annotated[int | None, Query(ge=0, le=_LARGEST)]


def router(services: ServerServices) -> APIRouter:
    """Return the pages."""
    made = APIRouter(include_in_schema=False)
    runner = services.runner
    watched("hooks", _counts)

    @made.get("/hooks")
    async def listed(
        request: Request, state: State = "", provider: Sender = "", cursor: Cursor = None
    ) -> Response:
        return await _page(request, runner, state, provider, cursor, None)

    @made.get("/hooks/{number}")
    async def one(
        request: Request,
        number: Number,
        state: State = "",
        provider: Sender = "",
        cursor: Cursor = None,
    ) -> Response:
        return await _page(request, runner, state, provider, cursor, await whole(runner, number))

    @made.post("/hooks/{number}/replay")
    async def replay(request: Request, number: Number) -> Response:
        await replayed(runner, number, by=actor(request), wait_s=REPLAY_WITHIN)
        return see(f"/hooks/{number}?replayed=1")

    return made


async def _page(  # noqa: PLR0913, PLR0917  # the fields of the address
    request: Request,
    runner: RunnerPort,
    state: str,
    provider: str,
    cursor: int | None,
    shown: WholeDeliveryForm | None,
) -> Response:
    chosen = DeliveryState(state) if state in set(DeliveryState) else None
    which = DeliveryFilter(state=chosen, provider=provider or None, cursor=cursor, limit=ROWS)
    found = await reading.page(runner, which)
    counted = await reading.senders(runner)
    kept = {"state": chosen or "", "provider": provider}
    told: dict[str, Any] = {
        "rows": found["items"],
        "older": _address("/hooks", {**kept, "cursor": found["next"]}) if found["next"] else "",
        "query": _address("", kept),
        "counts": counted["by_state"],
        "states": [
            (each, _address("/hooks", {**kept, "state": each}), each == chosen)
            for each in map(str, DeliveryState)
        ],
        "all_states": (_address("/hooks", {**kept, "state": ""}), chosen is None),
        "total": sum(counted["by_state"].values()),
        "senders": counted["senders"],
        "looks": LOOKS,
        "shown": shown,
        "why_title": _TITLES.get(shown["state"], "") if shown else "",
        "replayed": request.query_params.get("replayed") == "1",
        "base": str(request.base_url).rstrip("/"),
        "names": SENDERS,
    }
    title = f"Webhook {shown['cursor']}" if shown else "Webhooks"
    live = live_of("hooks", counted["by_state"])
    return page(request, "hooks.html", title=title, here="hooks", live=live, **told)


async def _counts(services: ServerServices, _: str) -> Any:
    return (await reading.senders(services.runner))["by_state"]


def _address(path: str, fields: dict[str, Any]) -> str:
    given = {name: value for name, value in fields.items() if value not in ("", None)}
    return f"{path}?{urlencode(given)}" if given else path
