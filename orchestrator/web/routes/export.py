"""Lifecycles as one static page, for a pull request or a mail. Must not change anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import Query
from starlette.responses import Response

from lifecycle.record import AgentLifecycle, Filter
from orchestrator.control.costs import SinceError, instant_of
from orchestrator.review.work_diff import WorkReader
from orchestrator.web.edge.answers import as_text, says_no
from orchestrator.web.edge.api_router import api_router
from orchestrator.web.edge.problems import invalid
from orchestrator.web.export.static_page import ExportSource, static_page, title_of_page
from orchestrator.web.operator import found
from runtime.branches import BranchManager

if TYPE_CHECKING:
    from fastapi import APIRouter

    from orchestrator.web.services import ServerServices

MOST = 1000
"""Lifecycles that one page names."""


def router(services: ServerServices) -> APIRouter:
    """Return the endpoint."""
    made = api_router()
    runner = services.runner
    masker = runner.engine.shared.masker
    reader = WorkReader(
        BranchManager(runner.repo),
        runner.store,
        runner.settings,
        cleaned=masker.mask_bytes,
        bring=runner.engine.machine.bring,
    )

    @made.get(
        "/export",
        response_class=Response,
        responses={200: as_text("the page, to be saved", "text/html"), **says_no(404)},
        summary="Lifecycles as one static page",
    )
    async def export(
        agent: Annotated[list[str], Query(max_length=100, description="these")] = [],  # noqa: B006  # never changed
        since: Annotated[
            str,
            Query(max_length=20, description="or those that moved since night, 7d, 12h, a date"),
        ] = "",
    ) -> Response:
        """What `loopwright export --html` writes: no script, and nothing fetched."""
        if bool(agent) == bool(since):
            raise invalid("give either agent or since")
        source = ExportSource(
            repo=runner.repo,
            database=runner.engine.machine.paths.database,
            store=runner.store,
            reader=reader,
            mask=masker.mask,
            now=runner.now(),
            runs=True,
        )
        start = _start(since, source.now) if since else None
        records: list[AgentLifecycle] = []
        if start is None:
            records += [await found(runner, each) for each in agent]
        else:
            page = await runner.store.list(Filter(updated_after=start), limit=MOST)
            records += page.records
        title = title_of_page(records, start, runner.repo.name)
        text = await static_page(source, records, title=title, since=start)
        name = "night.html" if start is not None else "lifecycles.html"
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return Response(text, media_type="text/html", headers=headers)

    return made


def _start(since: str, present: float) -> float:
    try:
        return instant_of(since, present, option="since")
    except SinceError as problem:
        raise invalid(str(problem)) from problem
