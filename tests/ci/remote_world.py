"""A forge provider at work on a served forge, with our own git over a real remote.

Time goes round faster here, so that a poll of ten seconds is one of a tenth of a second.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Protocol

from ci.interface import Surroundings
from ci.merging import Rules
from ci.remote import RemoteProvider
from lifecycle.joints import _Remote, _Repository
from runtime.branches import BranchManager
from runtime.checkouts import JudgingCheckouts
from runtime.remotes import GitRemote
from tests.ci.ports import IDENTITY, JsonDocuments, ShellCommands

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from ci.events import CIEvent
    from ci.forge import Forge

FASTER = 100.0


class Served(Protocol):
    """A forge that is served, over a repository with a bare origin."""

    @property
    def forge(self) -> Forge: ...

    async def merged_text(self) -> str: ...


async def no_header() -> Mapping[str, str]:
    return {}


class RemoteWorld:
    """What the contract needs, on any served forge."""

    def __init__(  # noqa: PLR0913  # one fact each of a forge that is served
        self,
        served: Served,
        *,
        repo: Path,
        origin: Path,
        commit: Callable[..., Awaitable[str]],
        release: Callable[[], Any],
        folder: Path,
        **rules: Any,
    ) -> None:
        self.served = served
        self.repo, self.origin, self.folder = repo, origin, folder
        self.rules = Rules(**rules)
        self.documents = JsonDocuments()
        self.events: list[CIEvent] = []
        self._commit, self._release = commit, release
        self._releasing: asyncio.Future[Any] | None = None
        self._began = time.monotonic()
        self.provider = self._new()

    def now(self) -> float:
        return 1_800_000_000.0 + (time.monotonic() - self._began) * FASTER

    def _call_at(self, when: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        wait = max(0.0, when - self.now()) / FASTER
        return asyncio.get_running_loop().call_later(wait, callback)

    def _new(self) -> RemoteProvider:
        provider = RemoteProvider(self.served.forge, rules=lambda: self.rules, header=no_header)
        provider.subscribe(self.events.append)
        provider.bind(
            Surroundings(
                repository=_Repository(
                    BranchManager(self.repo),
                    JudgingCheckouts(self.repo, root=self.folder / "checkouts"),
                ),
                commands=ShellCommands(),
                documents=self.documents,
                now=self.now,
                folder=self.folder,
                call_at=self._call_at,
                remote=_Remote(GitRemote(self.repo, url=str(self.origin), environ=IDENTITY)),
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
        if self._releasing is not None:
            await self._releasing
        await self.provider.aclose()

    async def commit(
        self, branch: str, *, outcome: str = "green", shared: str | None = None
    ) -> str:
        """Commit here; nobody but the provider pushes."""
        return await self._commit(branch, outcome=outcome, shared=shared)

    def release(self) -> None:
        done = self._release()
        if done is not None:
            self._releasing = asyncio.ensure_future(done)

    async def merged_text(self) -> str:
        return await self.served.merged_text()
