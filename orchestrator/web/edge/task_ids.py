"""Task ids in the paths of lifecycles: they mean the lifecycle of their task, as on command lines.

Must not answer anything; an id that means nothing stays as it came, and its endpoint says so.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import quote

from lifecycle.errors import LifecycleError
from orchestrator.control.open_store import of_task
from orchestrator.web.edge.answers import PREFIX

if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from typing import Any

    from starlette.types import ASGIApp, Receive, Scope, Send

    from lifecycle.store.sqlite.store import SqliteStore

LIFECYCLES = f"{PREFIX}/lifecycles/"


class TaskIds:
    """Passes requests on, each under the id of the agent that it means."""

    def __init__(self, app: ASGIApp, store: SqliteStore) -> None:
        self._app, self._store = app, store

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] == "http" and scope["path"].startswith(LIFECYCLES):
            scope = await self._meant(scope)
        await self._app(scope, receive, send)

    async def _meant(self, scope: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        given, slash, rest = scope["path"].removeprefix(LIFECYCLES).partition("/")
        record = None
        with suppress(LifecycleError):  # its endpoint says what is wrong
            record = await of_task(self._store, given)
        if record is None:
            return scope
        path = f"{LIFECYCLES}{record.agent_id}{slash}{rest}"
        return {**scope, "path": path, "raw_path": quote(path, safe="/@:").encode()}
