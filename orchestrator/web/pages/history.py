"""What was: search over everything, the nights, and who did what.

Must not read anything but what the API gives as well.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query
from starlette.requests import Request  # noqa: TC002  # FastAPI reads it at run time
from starlette.responses import Response  # noqa: TC002  # as above

from lifecycle.state_words import ACCEPTED, DONE, GIVEN_UP, NEEDS_YOU, REJECTED, spelled
from lifecycle.store.search.index import SearchError, SearchQuestion
from orchestrator.control.audit import audit_page, checked
from orchestrator.control.history import history_form
from orchestrator.control.search import KINDS_IN_WORDS, states_meant
from orchestrator.web.pages.looks import OF_STATE
from orchestrator.web.pages.site import page, task_url

if TYPE_CHECKING:
    from orchestrator.control.audit import VerdictForm
    from orchestrator.control.history import NightForm
    from orchestrator.control.search import PlaceForm
    from orchestrator.web.services import ServerServices

LARGEST = 2**53 - 1
FEW_ACTS = 8
MANY_ACTS = 100
CHECKED = 20_000
"""Entries of the audit that are all read for a page, to say whether the chain is whole."""
HOLDS = 60.0
"""Seconds for which that is said again without reading them, if no entry came."""
ENDS = tuple(map(spelled, (ACCEPTED, DONE, NEEDS_YOU, GIVEN_UP, REJECTED)))
"""States that one narrows a list down to, where no search says which there are."""
_OUTCOMES = {"refused": ("no", "bad"), "failed": ("no", "bad"), "done": ("ok", "good")}
_ACTS = {"spawn": "spawn", "stop": "stop", "suspend": "pause", "guide": "guide"}

Cursor = Annotated[int | None, Query(ge=0, le=LARGEST)]
Given = Annotated[list[str], Query(max_length=20)]
Value = Annotated[str, Query(max_length=400)]


def router(services: ServerServices) -> APIRouter:
    """Return the pages."""
    made = APIRouter(include_in_schema=False)
    runner, chain = services.runner, ChainState(services)
    database = runner.engine.machine.paths.database

    @made.get("/history")
    async def history(
        request: Request,
        q: Value = "",
        state: Given = [],  # noqa: B006  # never changed
        kind: Given = [],  # noqa: B006  # as above
        cursor: Cursor = None,
    ) -> Response:
        words = states_meant(state)
        told: dict[str, Any] = {"found": None, "nights": [], "problem": "", "next": None}
        if q.strip():
            question = SearchQuestion(text=q, kinds=kind, states=words, before=cursor)
            try:
                told["found"] = await services.search.ask(question)
                told["next"] = told["found"]["next"]
            except SearchError as problem:
                told["problem"] = str(problem)
        else:
            seen = await asyncio.to_thread(
                history_form, database, runner.now(), words=words, before=cursor
            )
            told |= seen
        acts = await asyncio.to_thread(audit_page, database, {}, None, FEW_ACTS)
        newest = acts["items"][0]["seq"] if acts["items"] else 0
        return page(
            request,
            "history.html",
            title=f"{q.strip()[:40]} · History" if q.strip() else "History",
            here="history",
            q=q,
            states=[spelled(word) for word in words],
            kinds=kind,
            every_kind=KINDS_IN_WORDS,
            ends=ENDS,
            looks=OF_STATE,
            acts=acts["items"],
            act_look=act_look,
            entries=newest,
            verdict=await chain.told(newest),
            keep=runner.settings().retention_hours,
            night_name=night_name,
            place_url=place_url,
            cursor=cursor,
            next_url=_next(request, told["next"]),
            **told,
        )

    @made.get("/history/audit")
    async def audit(  # noqa: PLR0913, PLR0917  # one for each filter
        request: Request,
        actor: Value = "",
        action: Value = "",
        subject: Value = "",
        outcome: Value = "",
        cursor: Cursor = None,
    ) -> Response:
        only = {"actor": actor, "action": action, "subject": subject, "outcome": outcome}
        acts = await asyncio.to_thread(audit_page, database, only, cursor, MANY_ACTS)
        newest = await asyncio.to_thread(audit_page, database, {}, None, 1)
        entries = newest["items"][0]["seq"] if newest["items"] else 0
        return page(
            request,
            "audit.html",
            title="Who did what",
            here="history",
            acts=acts["items"],
            only=only,
            entries=entries,
            verdict=await chain.told(entries),
            next_url=_next(request, acts["next"]),
        )

    return made


class ChainState:
    """Whether the chain of the audit is whole, as it was found a moment ago."""

    def __init__(self, services: ServerServices) -> None:
        self._runner = services.runner
        self._found: tuple[int, float, VerdictForm] | None = None

    async def told(self, entries: int) -> VerdictForm | None:
        """Say it; nothing where to read all of it takes too long."""
        if not entries or entries > CHECKED:
            return None
        at = self._runner.now()
        if self._found is None or self._found[0] != entries or at - self._found[1] > HOLDS:
            database = self._runner.engine.machine.paths.database
            self._found = entries, at, await asyncio.to_thread(checked, database)
        return self._found[2]


def _next(request: Request, cursor: int | None) -> str:
    """Return the address of the next page, with all filters."""
    if cursor is None:
        return ""
    kept = [(name, value) for name, value in request.query_params.multi_items() if name != "cursor"]
    return f"{request.url.path}?{urlencode([*kept, ('cursor', cursor)])}"


def night_name(night: NightForm) -> str:
    """Name a night by its two days."""
    first, last = (datetime.fromtimestamp(night[name]).astimezone() for name in ("begins", "ends"))
    if first.month == last.month:
        return f"{first.day} to {last.day} {last:%B %Y}"
    return f"{first.day} {first:%B} to {last.day} {last:%B %Y}"


def place_url(agent_id: str, place: PlaceForm) -> str:
    """Return where one reads the whole of a text."""
    if place["attempt"] is None:
        return task_url(agent_id)
    if place["kind"] == "summary":
        return task_url(agent_id, "summaries", place["attempt"])
    return task_url(agent_id, "attempts", place["attempt"])


def act_look(entry: dict[str, Any]) -> tuple[str, str]:
    """Return icon and colour of an entry of the audit."""
    icon, colour = _OUTCOMES.get(entry["outcome"], ("dash", "idle"))
    return _ACTS.get(entry["action"], icon) if colour != "bad" else icon, colour
