"""The application of one runner: its endpoints joined, its errors turned into answers.

Must not answer anything but errors itself.
"""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import TYPE_CHECKING

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from ci.errors import CIError
from lifecycle.errors import LifecycleError, PlanError, StoreError, UnknownLifecycleError
from lifecycle.store.damaged_records import RecordDamagedError
from lifecycle.store.search.index import SearchError
from orchestrator.control.people_only import peer_of, refusal
from orchestrator.errors import OrchestratorError
from orchestrator.version import __version__
from orchestrator.web.edge.access import Guard
from orchestrator.web.edge.answers import EVERYWHERE, problem_answer, says_no
from orchestrator.web.edge.problems import (
    Problem,
    internal,
    invalid,
    refused,
    store_failed,
    unknown,
)
from orchestrator.web.edge.task_ids import TaskIds
from orchestrator.web.openapi import document
from orchestrator.web.pages import (
    actions,
    board,
    events,
    hooks,
    new,
    plan,
    review,
    settings,
    sign_in,
    static_files,
    summary,
    task,
)
from orchestrator.web.pages import costs as costs_page
from orchestrator.web.pages import history as history_page
from orchestrator.web.pages.refusals import ProblemPages
from orchestrator.web.routes import board as board_api
from orchestrator.web.routes import (
    configuration,
    costs,
    deliveries,
    export,
    history,
    lifecycle_actions,
    lifecycles,
    notifications,
    overview,
    plans,
    reviews,
    several,
    stories,
    summaries,
    system,
)
from runtime.errors import RuntimeFault

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from starlette.requests import Request

    from orchestrator.runner.server_interface import RunnerPort
    from orchestrator.web.services import ServerServices

ROUTES = (
    system,
    lifecycles,
    lifecycle_actions,
    stories,
    overview,
    deliveries,
    history,
    reviews,
    notifications,
    summaries,
    costs,
    configuration,
    board_api,
    several,
    export,
    plans,
)
"""The modules of the API; each has a `router`."""
PAGES = (
    static_files,
    sign_in,
    board,
    new,
    actions,
    events,
    task,
    history_page,
    costs_page,
    hooks,
    settings,
    summary,
    review,
    plan,
)
"""Those of the pages, alike."""
_ORDERS = {"lifecycles": "add", "summaries": "summary edit", "marks": "mark"}
"""What an order is called that its path does not name."""
OURS = (LifecycleError, OrchestratorError, RuntimeFault, CIError, RequestValidationError)


def guarded(services: ServerServices, *, hosts: Callable[[], Collection[str]]) -> Guard:
    """Return the whole application, behind its guard."""
    app = api(services)
    guard = Guard(
        api=app,
        hooks=services.hooks,
        workers=services.worker_uploads,
        door=services.door,
        shown=ProblemPages(app).shown,
        hosts=hosts,
        report=services.runner.report,
        insider=partial(_insider, services.runner),
    )
    services.turned_away = guard.turned_away
    return guard


async def _insider(runner: RunnerPort, order: str, client_port: int, server_port: int) -> str:
    """Return why an order from inside an attempt or a gate is refused; empty if it is not."""
    order = _ORDERS.get(order, order)
    whose = await asyncio.to_thread(peer_of, runner.repo, client_port, server_port)
    if not whose:
        return ""
    said = refusal(order, whose)
    await runner.audit.record(order, whose, order, "refused", said)
    return said


def api(services: ServerServices) -> FastAPI:
    """Return the endpoints, without their guard."""
    app = FastAPI(
        title="Loopwright",
        version=__version__,
        description="The lifecycles of one repository, its agents and its webhooks. A path of "
        "/api/v1 refuses query parameters that it does not declare.",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.services = services
    for each in (*ROUTES, *PAGES):
        # Not included but put together: to include is to make every route once more.
        app.router.routes.extend(each.router(services).routes)
    app.add_middleware(TaskIds, store=services.runner.store)
    return complete(app)


def complete(app: FastAPI) -> FastAPI:
    """Return an application with its document and the answers to what goes wrong."""
    written = _Written(app)

    @app.get(
        "/openapi.json",
        response_class=Response,
        responses={
            200: {"description": "this document", "content": {"application/json": {"schema": {}}}},
            **says_no(*EVERYWHERE),
        },
        summary="This document",
    )
    async def described() -> Response:
        return Response(await written.text(), media_type="application/json")

    for kind in (*OURS, HTTPException, Problem):
        app.add_exception_handler(kind, _answered)
    app.add_exception_handler(Exception, _defect)
    return app


class _Written:
    """The document, made at its first request."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._text = ""

    async def text(self) -> str:
        """Return it."""
        if not self._text:
            # It takes long enough to be felt by the loops.
            self._text = await asyncio.to_thread(lambda: json.dumps(document(self._app)))
        return self._text


async def _answered(request: Request, error: Exception) -> Response:
    problem = problem_of(error)
    shown = ProblemPages(request.app).shown(request.scope, problem)
    return shown or problem_answer(problem)


async def _defect(request: Request, error: Exception) -> Response:
    # The framework raises it on to the guard after this, and that is who reports it.
    del error
    return ProblemPages(request.app).shown(request.scope, internal()) or problem_answer(internal())


def problem_of(error: Exception) -> Problem:  # noqa: PLR0911  # one line per kind reads best
    """Return the answer to a client about an error."""
    match error:
        case Problem():
            return error
        case RequestValidationError():
            return _form(error)
        case HTTPException():
            return _of_framework(error)
        case UnknownLifecycleError():
            return unknown(str(error), "GET /api/v1/lifecycles lists all")
        case RecordDamagedError():
            return Problem(503, "store", str(error), "`loopwright doctor` says how to repair it")
        case SearchError():
            return Problem(503, "search", str(error), "the records are whole; look at the lists")
        case StoreError():
            return store_failed("the records cannot be read or written at present")
        case PlanError():
            return invalid(str(error), "fix the field named in the message")
        case _:
            return refused(str(error))


def _form(error: RequestValidationError) -> Problem:
    first = error.errors()[0]
    place = ".".join(str(each) for each in first.get("loc", ()))
    return invalid(f"{place}: {first.get('msg', 'is invalid')}")


def _of_framework(error: HTTPException) -> Problem:
    headers = dict(error.headers or {})
    if error.status_code == 404:  # noqa: PLR2004  # not found
        return unknown("there is nothing at this path", "see /openapi.json")
    if error.status_code == 405:  # noqa: PLR2004  # not allowed
        text = "this path does not allow that method"
        return Problem(405, "method", text, "see /openapi.json", headers)
    return Problem(422, "invalid", str(error.detail), "see /openapi.json", headers)
