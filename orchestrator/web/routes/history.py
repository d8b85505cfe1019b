"""What was: search over all lifecycles, nights, and the audit.

Answers are made by the functions that commands and pages use. Must not change anything.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import Query
from starlette.responses import Response  # noqa: TC002  # hints are read at run time

from lifecycle.store.search.index import SearchQuestion
from orchestrator.control.audit import AuditForm, VerdictForm, audit_page, checked
from orchestrator.control.history import HistoryForm, history_form
from orchestrator.control.search import SearchForm, states_meant
from orchestrator.web import models  # noqa: TC001  # as above
from orchestrator.web.edge.answers import json_answer
from orchestrator.web.edge.api_router import api_router
from orchestrator.wording.json_schemas import model_of

if TYPE_CHECKING:
    from fastapi import APIRouter

    from orchestrator.web.services import ServerServices

_LARGEST = 2**53 - 1
Kind = Literal["task", "words", "people", "checks", "facts", "summary"]
Value = Annotated[str, Query(max_length=200, pattern=r"^[^\x00]*$")]
Instant = Annotated[
    float | None, Query(ge=0, allow_inf_nan=False, description="seconds since the epoch")
]
Cursor = Annotated[int | None, Query(ge=0, le=_LARGEST, description="`next` of the page before")]


def router(services: ServerServices) -> APIRouter:
    """Return the endpoints."""
    made = api_router()
    _search(made, services)
    _nights(made, services)
    _audit(made, services)
    return made


def _search(made: APIRouter, services: ServerServices) -> None:
    @made.get(
        "/search",
        response_model=model_of(SearchForm),
        summary="Search tasks, words, gate outputs, journals and summaries",
    )
    async def search(  # noqa: PLR0913, PLR0917  # one for each filter
        q: Annotated[str, Query(max_length=400, description="any text")] = "",
        kind: Annotated[
            list[Kind], Query(max_length=6, description="only in these kinds of text")
        ] = [],  # noqa: B006  # never changed
        state: Annotated[list[models.MeantWord], Query(max_length=16)] = [],  # noqa: B006  # as above
        since: Instant = None,
        cursor: Cursor = None,
        limit: Annotated[int, Query(ge=1, le=100)] = 20,
    ) -> Response:
        """Lifecycles that hold every word of `q`, or one that begins so; "exact words" quoted.

        With `since` only those that moved since then.
        """
        question = SearchQuestion(
            text=q,
            kinds=tuple(kind),
            states=states_meant(list(map(str, state))),
            since=since,
            before=cursor,
            limit=limit,
        )
        return json_answer(await services.search.ask(question))


def _nights(made: APIRouter, services: ServerServices) -> None:
    runner = services.runner

    @made.get(
        "/history",
        response_model=model_of(HistoryForm),
        summary="All lifecycles by the night in which they were begun, the newest first",
    )
    async def history(  # noqa: PLR0913, PLR0917  # one for each filter
        state: Annotated[list[models.MeantWord], Query(max_length=16)] = [],  # noqa: B006  # never changed
        tag: Annotated[list[Value], Query(max_length=16)] = [],  # noqa: B006  # as above
        since: Instant = None,
        until: Instant = None,
        cursor: Cursor = None,
        limit: Annotated[int, Query(ge=1, le=500)] = 50,
    ) -> Response:
        """Those made between `since` and `until`; earlier lifecycles of an agent are among them."""
        told = partial(
            history_form,
            runner.engine.machine.paths.database,
            runner.now(),
            words=states_meant(list(map(str, state))),
            tags=tag,
            since=since,
            until=until,
            before=cursor,
            limit=limit,
        )
        return json_answer(await asyncio.to_thread(told))


def _audit(made: APIRouter, services: ServerServices) -> None:
    database = services.runner.engine.machine.paths.database

    @made.get(
        "/audit",
        response_model=model_of(AuditForm),
        summary="Who did what to whom and why, the newest first",
    )
    async def audit(  # noqa: PLR0913, PLR0917  # one for each filter
        actor: Value = "",
        action: Value = "",
        subject: Value = "",
        outcome: Value = "",
        cursor: Cursor = None,
        limit: Annotated[int, Query(ge=1, le=1000)] = 50,
    ) -> Response:
        only = {"actor": actor, "action": action, "subject": subject, "outcome": outcome}
        return json_answer(await asyncio.to_thread(audit_page, database, only, cursor, limit))

    @made.get(
        "/audit/verdict",
        response_model=model_of(VerdictForm),
        summary="Whether the audit is as it was written",
    )
    async def verdict() -> Response:
        """Checks every entry, as `loopwright audit verify` does."""
        return json_answer(await asyncio.to_thread(checked, database))
