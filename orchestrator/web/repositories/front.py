"""The way in: which repository a request is for, by its path; everything else is about all of them.

Must not admit or refuse anybody: that is for the guard of the repository, or that of all.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from orchestrator.control.people_only import peer_of, refusal
from orchestrator.web.edge.access import Guard
from orchestrator.web.edge.webhooks import Hooks
from orchestrator.web.pages.refusals import ProblemPages
from orchestrator.web.repositories.common_app import common_app, to_sign_in
from orchestrator.web.repositories.prefix import API, PAGES
from orchestrator.web.repositories.webhooks import CommonReceiver

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from starlette.types import ASGIApp, Receive, Scope, Send

    from lifecycle.reporting import Report
    from orchestrator.web.repositories.common_services import CommonServices

OPEN = "open"
"""What is asked about a repository, not of it."""
INSIDE = ((PAGES, "/"), (API, "/api/v1/"))
"""How the paths of a repository begin, and how its own application knows them."""


class Front:
    """The application of a server for several repositories."""

    def __init__(
        self,
        common: CommonServices,
        *,
        environ: Mapping[str, str],
        hosts: Callable[[], Collection[str]],
        report: Report,
    ) -> None:
        self._services = common
        app = common_app(common)
        receiver = CommonReceiver(common.repositories, environ, now=common.now)
        self._common = Guard(
            api=app,
            hooks=Hooks(receiver, report=report),
            door=common.door,
            shown=ProblemPages(app).shown,
            hosts=hosts,
            report=report,
            insider=partial(_insider, common),
        )
        common.turned_away = self._common.turned_away

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        app, inner = await self._of(scope)
        await app(inner, receive, send)

    async def _of(self, scope: Scope) -> tuple[ASGIApp, Scope]:
        if scope["type"] != "http":
            return self._common, scope
        for begin, inside in INSIDE:
            name, slash, rest = scope["path"].removeprefix(begin).partition("/")
            if not (scope["path"].startswith(begin) and slash):
                continue
            it = next((each for each in self._services.repositories if each.name == name), None)
            if it is None or it.mounted is None or (begin == API and rest == OPEN):
                break
            if begin == PAGES and rest == "login" and scope["method"] == "GET":
                return to_sign_in(name, scope["query_string"].decode("latin-1")), scope
            outer = f"{begin}{name}/".encode()
            raw = inside.encode() + scope["raw_path"].removeprefix(outer)
            path = f"{inside}{rest}"
            return await it.mounted.app(), {**scope, "path": path, "raw_path": raw}
        return self._common, scope


async def _insider(common: CommonServices, order: str, client_port: int, server_port: int) -> str:
    """Return why an order from inside an attempt or a gate is refused; empty if it is not."""
    for each in common.repositories:
        if each.mounted is not None:
            # Whose it is another repository does not know, but that it is somebody's.
            whose = await asyncio.to_thread(peer_of, each.folder, client_port, server_port)
            return refusal(order, whose) if whose else ""
    return ""
