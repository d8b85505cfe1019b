"""Gitea served over a real git repository, and a forge at work on it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from ci.gitea import GiteaForge
from ci.gitea_auth import GiteaSignIn
from tests.ci.forge_server import forge_server
from tests.ci.served_git import BASE, Origin, hurried, ticking
from tests.ci.served_gitea import TOKEN, ServedGitea
from tests.ci.served_gitea_state import REPO

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from tests.ci.forge_server import ForgeServer


class GiteaWorld:
    """Commits are real, their checks are as said, and merges happen in the bare origin."""

    def __init__(
        self,
        folder: Path,
        server: ForgeServer,
        *,
        now: Callable[[], float] = ticking,
        settles: float = 0.05,
    ) -> None:
        self.origin = Origin(folder)
        self.repo = self.origin.repo
        self.bare = self.origin.bare
        self.server = server
        self.now = now
        self.settles = settles
        self.served = ServedGitea(server, self.origin, now)
        self.sign_in = GiteaSignIn(source="a test", token=TOKEN)
        self.forge = self.new_forge()

    def new_forge(self, token: str = TOKEN, repo: str = REPO) -> GiteaForge:
        """Return a forge of its own; whoever asks for one closes it."""
        return GiteaForge(
            repo=repo,
            api=f"{self.server.url}/api/v1",
            web_url=self.server.url,
            sign=GiteaSignIn(source="a test", token=token).sign,
            now=self.now,
            sleep=hurried,
            settles=self.settles,
        )

    async def commit(
        self,
        branch: str,
        *,
        outcome: str = "green",
        shared: str | None = None,
        push: bool = True,
    ) -> str:
        """Commit in the repository and say how its checks end; "" for no check."""
        sha = await asyncio.to_thread(
            self.origin.commit, branch, f"{branch}: {outcome}", shared, push=push
        )
        if outcome:
            self.served.run(sha, outcome)
        await asyncio.to_thread(self.served.refresh)
        return sha

    def release(self) -> None:
        self.served.release()

    async def merged_text(self) -> str:
        return await asyncio.to_thread(self.origin.show, BASE, "shared.txt")

    async def review(self, number: int, body: str, *, path: str = "", line: int = 0) -> None:
        """Have somebody who may write ask for changes; `path` and `line` say where."""
        lines = (((path, line), body),) if path else ()
        text = "" if path else body
        self.served.review(number, "dora", "REQUEST_CHANGES", text, lines=lines)

    async def approve(self, number: int) -> None:
        """Have the same person approve."""
        self.served.review(number, "dora", "APPROVED")

    async def merge(self, number: int) -> str:
        """Have a person merge it there; returns the commit of the base."""
        return await asyncio.to_thread(self._merge, number)

    def _merge(self, number: int) -> str:
        pull = self.served.pulls[number]
        pull.merged = self.origin.merge(pull.base, pull.head, f"Merge {pull.branch}")
        pull.state, pull.ended = "closed", self.now()
        return pull.merged

    async def close(self) -> None:
        await self.forge.aclose()


@contextlib.asynccontextmanager
async def gitea_world(
    folder: Path, *, now: Callable[[], float] = ticking, settles: float = 0.05
) -> AsyncIterator[GiteaWorld]:
    """Serve one; it is gone afterwards."""
    async with forge_server() as server:
        world = GiteaWorld(folder, server, now=now, settles=settles)
        try:
            yield world
        finally:
            await world.close()
