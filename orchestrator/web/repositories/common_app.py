"""What is about no single repository: the sign-in, the board of all, how each does.

Must not answer for a repository: what is asked of one that is broken gets an answer that says so.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from fastapi import APIRouter, FastAPI
from starlette.requests import Request  # noqa: TC002  # FastAPI reads it at run time
from starlette.responses import HTMLResponse, RedirectResponse, Response

from orchestrator.version import __version__
from orchestrator.web.app import complete
from orchestrator.web.edge.answers import EVERYWHERE, PREFIX, as_text, json_answer, says_no
from orchestrator.web.edge.problems import Problem, busy, unknown
from orchestrator.web.live.prometheus import TYPE, MetricsText, joined
from orchestrator.web.live.streams import Stream
from orchestrator.web.pages import sign_in, static_files
from orchestrator.web.pages.board import GUARD
from orchestrator.web.pages.looks import GROUPS
from orchestrator.web.pages.site import NAV, page, see, visitor_of
from orchestrator.web.repositories.board import CommonBoard, CommonFilter, needs_of
from orchestrator.web.repositories.forms import HealthOfAll, RepositoriesForm, RepositoryForm
from orchestrator.web.repositories.prefix import API, PAGES
from orchestrator.web.routes.system import present_numbers
from orchestrator.wording.json_schemas import model_of
from templates.renderer import Html

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from orchestrator.runner.repositories import ServedRepository
    from orchestrator.web.repositories.common_services import CommonServices

WELCOME = """\
Loopwright serves several repositories here. GET /api/v1/repositories lists them; the API of each is
below /api/v1/repositories/NAME, as /openapi.json of a single one describes it at
/r/NAME/openapi.json. A browser gets the board of all here.
"""
LOOK_EVERY = 1.0
"""Seconds between two looks whether the board changed, while somebody has it open."""
BEAT = 5.0
MOST_PAGES = 100
ANY = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]


def common_app(services: CommonServices) -> FastAPI:
    """Return the endpoints, without their guard."""
    app = FastAPI(
        title="Loopwright",
        version=__version__,
        description="Several repositories: how each does. The API of one is below "
        "/api/v1/repositories/NAME, and described by /r/NAME/openapi.json.",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    for made in (
        static_files.router(),
        sign_in.router(services),
        _health(services),
        _api(services),
        _pages(services),
    ):
        app.router.routes.extend(made.routes)
    complete(app)
    app.router.routes.extend(_rest(services).routes)
    return app


def _health(services: CommonServices) -> APIRouter:
    made = APIRouter()
    open_ = says_no(405, 421, 500)

    @made.get(
        "/healthz",
        response_model=model_of(HealthOfAll),
        responses=open_,
        summary="Whether it lives, and how each repository does in a word",
    )
    async def alive() -> Response:
        told = {each.name: str(each.status) for each in services.repositories}
        broken = sum(not each.well for each in services.repositories)
        reason = f"{broken} of {len(told)} repositories are broken" if broken else ""
        status = "degraded" if broken else "ok"
        return json_answer({"status": status, "reason": reason, "repositories": told})

    @made.get(
        "/metrics",
        response_class=Response,
        responses={200: as_text("Prometheus text form"), **says_no(*EVERYWHERE)},
        summary="Numbers for Prometheus of all repositories, each with the label repository",
    )
    async def metrics() -> Response:
        page = MetricsText()
        told = [({"repository": each.name}, each.well) for each in services.repositories]
        page.gauges("loopwright_repository_up", "Whether a repository is served", told)
        served = {each.name: each.mounted for each in services.repositories if each.mounted}
        texts = {name: await present_numbers(each.services) for name, each in served.items()}
        return Response(page.text() + joined(texts), media_type=TYPE)

    @made.get(
        "/readyz",
        response_model=model_of(HealthOfAll),
        responses={503: {"description": "not ready"}, **open_},
        summary="Whether it can work: a repository is served, and the process is not ending",
    )
    async def ready() -> Response:
        told = {each.name: str(each.status) for each in services.repositories}
        served = any(each.mounted is not None for each in services.repositories)
        reason = "" if served else "no repository is served"
        reason = "it is shutting down" if services.leaving else reason
        said = {"status": "not ready" if reason else "ready", "reason": reason}
        return json_answer({**said, "repositories": told}, 503 if reason else 200)

    return made


def _api(services: CommonServices) -> APIRouter:
    made = APIRouter(prefix=PREFIX, responses=says_no(*EVERYWHERE))

    @made.get(
        "/repositories",
        response_model=model_of(RepositoriesForm),
        summary="Every repository that is served here, and what is wrong with it",
    )
    async def all_() -> Response:
        return json_answer({"items": [_form(services, each) for each in services.repositories]})

    @made.get(
        "/repositories/{name}",
        response_model=model_of(RepositoryForm),
        responses=says_no(404),
        summary="One repository",
    )
    async def one(name: str) -> Response:
        return json_answer(_form(services, services.repository(name)))

    @made.post(
        "/repositories/{name}/open",
        response_model=model_of(RepositoryForm),
        responses=says_no(404, 409, 415),
        summary="Open a broken repository now; one whose records are lost begins with empty ones",
    )
    async def open_(name: str) -> Response:
        return json_answer(_form(services, services.open(name)))

    return made


def _form(services: CommonServices, each: ServedRepository) -> RepositoryForm:
    return {
        "name": each.name,
        "folder": str(each.folder),
        "status": str(each.status),
        "trouble": each.trouble,
        "since": each.since,
        "again_at": each.again_at,
        "needs": needs_of(each),
        "url": f"{services.url}{PAGES}{each.name}/",
    }


def _pages(services: CommonServices) -> APIRouter:
    made = APIRouter()
    board = CommonBoard(services.repositories)

    async def whole(request: Request) -> Html:
        visitor = visitor_of(request)
        operate = bool(visitor and visitor.may("operator"))
        text = await board.whole(_asked(services, request), services.now(), operate=operate)
        return Html(text.replace(GUARD, visitor.guard if visitor else ""))

    async def shown(request: Request) -> Response:
        if "text/html" not in request.headers.get("accept", ""):
            return Response(WELCOME, media_type="text/plain")
        return page(
            request,
            "repositories.html",
            title=f"{board.needs() or 'Nothing'} needs you",
            here="board",
            nav=NAV[:1],
            needs_count=board.needs(),
            now=services.now(),
            live="/ui/events?view=board",
            board=await whole(request),
        )

    @made.get(
        "/",
        response_class=Response,
        responses={
            200: as_text("the board for a browser; else where to go next"),
            **says_no(401, 403, 405, 421, 429, 500, 503),
        },
        summary="Where to go next",
    )
    async def top(request: Request) -> Response:
        return await shown(request)

    @made.get("/repositories", include_in_schema=False)
    async def again(request: Request) -> Response:
        return await shown(request)

    @made.get("/ui/board", include_in_schema=False)
    async def anew(request: Request) -> Response:
        return HTMLResponse(await whole(request))

    @made.post("/repositories/{name}/open", include_in_schema=False)
    async def open_(name: str) -> Response:
        services.open(name)
        return see("/")

    @made.get("/ui/events", include_in_schema=False)
    async def live() -> Response:
        if services.pages >= MOST_PAGES:
            raise busy(f"{services.pages} pages are open")
        return Stream(_changes(services, board))

    return made


async def _changes(services: CommonServices, board: CommonBoard) -> AsyncGenerator[bytes]:
    """Yield that the board is another one, whenever it is."""
    clock = asyncio.get_running_loop().time
    services.pages += 1
    seen, said = board.version(), clock()
    try:
        yield b'data: {"name":"hello"}\n\n'
        while not services.leaving:
            await services.looked_again(LOOK_EVERY)
            present = board.version()
            if present != seen:
                seen, said = present, clock()
                yield b'data: {"name":"reset"}\n\n'
            elif clock() - said >= BEAT:
                said = clock()
                yield b'data: {"name":"beat"}\n\n'
    finally:
        services.pages -= 1


def _asked(services: CommonServices, request: Request) -> CommonFilter:
    given = request.query_params
    repo, group = given.get("repo", ""), given.get("group", "")
    known = any(each.name == repo for each in services.repositories)
    return CommonFilter(
        repo if known else "", group if group in GROUPS else "", given.get("q", "")[:200]
    )


def _rest(services: CommonServices) -> APIRouter:
    """Answer what no repository answers: of one that is broken, or of none."""
    made = APIRouter(include_in_schema=False)

    async def of_one(name: str) -> Response:
        it = services.repository(name)
        if it.mounted is not None:
            return RedirectResponse(f"{PAGES}{name}/", 303)
        raise Problem(
            503,
            "repository",
            f"{name} is not served now: {it.trouble or 'it is being opened'}",
            "it is tried again by itself; the other repositories go on",
            {"retry-after": "5"},
        )

    for path in (
        f"{PAGES}{{name}}",
        f"{PAGES}{{name}}/{{rest:path}}",
        f"{API}{{name}}/{{rest:path}}",
    ):
        made.add_api_route(path, of_one, methods=ANY)

    @made.api_route(f"{PREFIX}/{{rest:path}}", methods=ANY)
    async def of_which(rest: str) -> Response:
        raise unknown(
            "several repositories are served here, and this path does not say which one",
            f"ask {API}NAME/{rest[:200]}; GET {PREFIX}/repositories lists the names",
        )

    return made


def to_sign_in(name: str, query: str) -> Response:
    """Send who follows a link of one repository to the sign-in of all, and then back."""
    more = f"{query}&" if query else ""
    return RedirectResponse(f"/login?{more}next={PAGES}{name}/", 303)
