"""One repository at its place: its pages and API are built when somebody first asks for them.

Owns when a repository can be asked. Its application is that of a server for it alone.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from orchestrator.runner.repositories import RepositoryStatus
from orchestrator.web.app import guarded
from orchestrator.web.repositories.prefix import PAGES, Prefixed
from orchestrator.web.services import ServerServices

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping

    from starlette.types import ASGIApp

    from orchestrator.runner.repositories import ServedRepository
    from orchestrator.runner.server_interface import RunnerPort
    from orchestrator.web.repositories.common_services import CommonServices


class MountedRepository:
    """What runs beside the loops of one repository of several."""

    stays = True

    def __init__(
        self,
        repository: ServedRepository,
        common: CommonServices,
        *,
        token: str,
        hosts: Callable[[], Collection[str]],
        secrets: Mapping[str, str],
    ) -> None:
        """`secrets` are those of the server, by variable, which are masked everywhere."""
        self._secrets = secrets
        self._repository, self._common = repository, common
        self._token, self._hosts = token, hosts
        self._app: ASGIApp | None = None
        self._building = asyncio.Lock()
        self.runner: RunnerPort
        self.services: ServerServices

    @property
    def used_at(self) -> float | None:
        """When somebody who is signed in last asked for something; None if nobody did."""
        return self._common.door.used_at

    async def decisions(self) -> int:
        """Return how many lifecycles wait for a person's decision."""
        await self.services.board.look()
        return self.services.board.needs()

    async def run(self, runner: RunnerPort, over: Callable[[], Awaitable[None]]) -> None:
        """Serve until `over` returns."""
        it = self._repository
        self.runner = runner
        runner.engine.shared.masker.learn(self._secrets)
        shared = self._common.door
        async with ServerServices(runner, token=self._token, door=shared) as services:
            self.services = services
            runner.serves_at(f"{self._common.url}{PAGES}{it.name}")
            it.mounted, it.status, it.trouble = self, RepositoryStatus.OK, ""
            it.since = runner.now()
            try:
                await over()
            finally:
                it.mounted = None

    async def app(self) -> ASGIApp:
        """Return its application at its place."""
        async with self._building:
            if self._app is None:
                made = await asyncio.to_thread(guarded, self.services, hosts=self._hosts)
                self._app = Prefixed(made, f"{PAGES}{self._repository.name}")
            return self._app
