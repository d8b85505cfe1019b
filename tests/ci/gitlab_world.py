"""GitLab served over a real git repository, and a forge at work on it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from ci.gitlab import GitLabForge
from ci.gitlab_auth import GitLabSignIn
from tests.ci.forge_server import forge_server
from tests.ci.served_git import BASE, Origin, hurried, ticking
from tests.ci.served_gitlab import TOKEN, ServedGitLab
from tests.ci.served_gitlab_state import REPO

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from tests.ci.forge_server import ForgeServer


class GitLabWorld:
    """Commits are real, their checks are as said, and merges happen in the bare origin."""

    def __init__(
        self, folder: Path, server: ForgeServer, *, now: Callable[[], float] = ticking
    ) -> None:
        self.origin = Origin(folder)
        self.repo = self.origin.repo
        self.bare = self.origin.bare
        self.server = server
        self.now = now
        self.served = ServedGitLab(server, self.origin, now)
        self.sign_in = GitLabSignIn(source="a test", token=TOKEN)
        self.forge = self.new_forge()

    def new_forge(self, token: str = TOKEN, repo: str = REPO) -> GitLabForge:
        """Return a forge of its own; whoever asks for one closes it."""
        return GitLabForge(
            repo=repo,
            api=f"{self.server.url}/api/v4",
            web_url=self.server.url,
            sign=GitLabSignIn(source="a test", token=token).sign,
            now=self.now,
            sleep=hurried,
        )

    async def commit(
        self,
        branch: str,
        *,
        outcome: str = "green",
        shared: str | None = None,
        push: bool = True,
    ) -> str:
        """Commit in the repository and say how its pipeline ends; "" for no pipeline."""
        sha = await asyncio.to_thread(
            self.origin.commit, branch, f"{branch}: {outcome}", shared, push=push
        )
        if outcome:
            self.served.run(sha, branch, outcome)
        await asyncio.to_thread(self.served.refresh)
        return sha

    def release(self) -> None:
        self.served.release()

    async def merged_text(self) -> str:
        return await asyncio.to_thread(self.origin.show, BASE, "shared.txt")

    async def review(self, number: int, body: str, **note: Any) -> None:
        """Have a developer ask for changes; `path` and `line` say where."""
        self.served.say(number, 2, body, thread=True, **note)
        self.served.merges[number].reviewers[2] = "requested_changes"

    async def approve(self, number: int) -> None:
        """Have the developer approve, who asks for nothing any more."""
        for discussion in self.served.merges[number].discussions:
            for note in discussion["notes"]:
                note["resolved"] = note["resolvable"]
        self.served.approve(number, 2)

    async def merge(self, number: int) -> str:
        """Have a person merge it there; returns the commit of the base."""
        return await asyncio.to_thread(self._merge, number)

    def _merge(self, number: int) -> str:
        merge = self.served.merges[number]
        made = self.origin.merge(merge.base, merge.head, f"Merge {merge.branch}")
        merge.state, merge.updated = "merged", self.now()
        merge.merged = {"merge_commit_sha": made}
        return made

    async def close(self) -> None:
        await self.forge.aclose()


@contextlib.asynccontextmanager
async def gitlab_world(
    folder: Path, *, now: Callable[[], float] = ticking
) -> AsyncIterator[GitLabWorld]:
    """Serve one; it is gone afterwards."""
    async with forge_server() as server:
        world = GitLabWorld(folder, server, now=now)
        try:
            yield world
        finally:
            await world.close()
