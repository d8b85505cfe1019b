"""A forge provider at work on a served forge, with our own git over a real remote.

Time goes round faster here, so that a poll of ten seconds is one of a tenth of a second.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, cast

from ci.forge.merge_rules import Rules
from ci.forge.provider import RemoteProvider
from ci.ports import ProviderPorts
from ci.webhook_delivery import Hint
from lifecycle.engine.ci_ports import _Remote, _Repository
from runtime.branches import BranchManager
from runtime.remote.remote import GitRemote
from runtime.workspaces.judging_checkouts import JudgingCheckouts
from tests.ci.ports import IDENTITY, JsonDocuments, ShellCommands

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from ci.events import CIEvent
    from lifecycle.setup.builds import BuildSetups
    from tests.ci.forge.forge_world import ForgeWorld

FASTER = 100.0


async def no_header() -> Mapping[str, str]:
    return {}


class RemoteWorld:
    """What the contract needs, on any served forge."""

    def __init__(self, served: ForgeWorld, folder: Path, *, rules: Rules | None = None) -> None:
        """What is committed in the served world must wait for the provider to push it."""
        self.served, self.folder = served, folder
        self.rules = rules or Rules()
        self.documents = JsonDocuments()
        self.events: list[CIEvent] = []
        self.logged: list[tuple[str, dict[str, object]]] = []
        self._began = time.monotonic()
        self.provider = self._new()

    def now(self) -> float:
        return 1_800_000_000.0 + (time.monotonic() - self._began) * FASTER

    def _call_at(self, when: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        wait = max(0.0, when - self.now()) / FASTER
        return asyncio.get_running_loop().call_later(wait, callback)

    def _new(self) -> RemoteProvider:
        origin = self.served.origin
        provider = RemoteProvider(self.served.forge, rules=lambda: self.rules, header=no_header)
        provider.subscribe(self.events.append)
        provider.bind(
            ProviderPorts(
                repository=_Repository(
                    BranchManager(origin.repo),
                    cast(
                        "BuildSetups",
                        JudgingCheckouts(origin.repo, root=self.folder / "checkouts"),
                    ),
                ),
                commands=ShellCommands(),
                documents=self.documents,
                now=self.now,
                folder=self.folder,
                call_at=self._call_at,
                report=lambda event, /, **fields: self.logged.append((event, fields)),
                remote=_Remote(GitRemote(origin.repo, url=str(origin.bare), environ=IDENTITY)),
            )
        )
        return provider

    async def start(self) -> None:
        await self.provider.start()

    async def restart(self) -> None:
        await self.provider.aclose()
        self.provider = self._new()
        await self.provider.start()

    async def aclose(self) -> None:
        await self.provider.aclose()

    async def polled(self, number: int) -> None:
        """Return when a pull request was looked at once more."""
        await self.provider.take(Hint(numbers=(number,)))

    async def commit(
        self, branch: str, *, outcome: str = "green", shared: str | None = None
    ) -> str:
        """Commit here; nobody but the provider pushes."""
        return await self.served.commit(branch, outcome=outcome, shared=shared)

    async def release(self) -> None:
        await self.served.release()

    async def merged_text(self) -> str:
        return await self.served.merged_text()
