"""A forge at work on a real repository: what tests of every forge may do with it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Self, TypeVar

from ci.forge.protocol import NewPull
from ci.forge.rest import Connection
from ci.forge.sign_in import SignInContext
from tests.ci.forge.served_forge import Issue, ServedForge
from tests.ci.forge_server import forge_server
from tests.ci.served_git import BASE, Origin

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from ci.forge.protocol import Forge, ForgePull
    from ci.forge_registry import ForgeKind
    from ci.interface import MergeResult
    from tests.ci.forge_server import ForgeServer

BEGAN = 1_700_000_000.0
S = TypeVar("S", bound=ServedForge[Any])


class Ahead:
    """A clock of this century that never goes back and can be set forward."""

    def __init__(self) -> None:
        self.by = 0.0
        self.ticks = True

    def __call__(self) -> float:
        return BEGAN + self.by + (time.monotonic() if self.ticks else 0.0)

    async def sleep(self, seconds: float) -> None:
        """Let the time pass at once."""
        self.by += seconds
        await asyncio.sleep(0)


class IssueSeen(NamedTuple):
    """An issue, as people see it."""

    is_open: bool
    labels: tuple[str, ...]
    said: tuple[str, ...]
    """Its comments."""


class ForgeWorld:
    """Commits are real, and merges happen in the bare origin."""

    origin: Origin
    we: ClassVar[str]
    reviewer: ClassVar[str]
    """Somebody else who may write."""

    def __init__(self, folder: Path, *, pushes: bool = True) -> None:
        """`pushes`: what is committed is pushed at once, so that nobody else needs to."""
        self.origin = Origin(folder)
        self.pushes = pushes
        self.forge: Forge

    async def commit(
        self, branch: str, *, outcome: str = "green", shared: str | None = None
    ) -> str:
        """Commit in the repository and say how its checks end; "" for no check."""
        sha = await asyncio.to_thread(
            self.origin.commit, branch, f"{branch}: {outcome}", shared, push=self.pushes
        )
        await self.committed(branch, sha, outcome)
        return sha

    async def committed(self, branch: str, sha: str, outcome: str) -> None:
        """Have the forge notice a commit and check it."""
        raise NotImplementedError

    async def release(self) -> None:
        """Let everything that is held pass."""
        raise NotImplementedError

    async def review(self, number: int, body: str) -> object:
        """Have the reviewer ask for changes."""
        raise NotImplementedError

    async def remark(self, number: int, text: str, path: str, line: int) -> object:
        """Have the reviewer ask for a change of a line."""
        raise NotImplementedError

    async def approve(self, number: int) -> object:
        """Have the reviewer approve, who asks for nothing any more."""
        raise NotImplementedError

    async def merge(self, number: int) -> str:
        """Have a person merge it there; returns the commit of the base."""
        raise NotImplementedError

    async def asked(self, number: int) -> list[str]:
        """Return who is asked for a review of a pull request."""
        raise NotImplementedError

    async def assigned(self, number: int) -> list[str]:
        """Return to whom it is assigned."""
        raise NotImplementedError

    async def new_issue(self, *labels: str, title: str = "Add", body: str = "") -> int:
        """Have a person open an issue with labels; return its number."""
        raise NotImplementedError

    async def issue(self, number: int) -> IssueSeen:
        """Return an issue as people see it."""
        raise NotImplementedError

    async def change_issue(self, number: int, *labels: str, is_open: bool = True) -> None:
        """Have a person give it exactly these labels, and open or close it."""
        raise NotImplementedError

    async def later(self) -> None:
        """Let enough time pass that what follows is told apart."""

    async def opened(
        self, branch: str = "agent/a", *, shared: str | None = "a", title: str = "Do it"
    ) -> ForgePull:
        """Commit, and open a pull request."""
        await self.commit(branch, shared=shared)
        return await self.forge.create_pull(
            NewPull(branch=branch, base=BASE, title=title, body="Why.")
        )

    async def try_merge(
        self, pull: ForgePull, method: str = "merge", *, message: str = ""
    ) -> MergeResult:
        """Merge a pull request by the forge, at the head that it had."""
        return await self.forge.merge(pull, sha=pull.head_sha, method=method, message=message)

    async def pull(self, number: int) -> ForgePull:
        """Return a pull request that is there, as it is now."""
        seen = await self.forge.pull(number)
        assert seen is not None
        return seen

    async def merged_text(self) -> str:
        """Return the shared file of the base branch."""
        return await asyncio.to_thread(self.origin.show, BASE, "shared.txt")


class ServedWorld(ForgeWorld, Generic[S]):
    """A forge that is served from this process; its checks are as said."""

    we, reviewer = "agent", "dora"
    makes: type[S]
    kind: ClassVar[ForgeKind]
    repo: ClassVar[str]
    api: ClassVar[str]
    """The path of the API."""
    at: ClassVar[str]
    """The path of the repository in it."""
    pulls: ClassVar[str]
    """The path of its pull requests."""
    token: ClassVar[str]
    token_variable: ClassVar[str]
    merge_request: ClassVar[tuple[str, str]]
    """The method, and the path below that of the pull request, which merge."""
    draft: ClassVar[str]
    """How the title of a draft begins."""
    forks: ClassVar[tuple[int | None, ...]]
    """Repositories of a branch which are not ours."""
    reading_scopes: ClassVar[set[str]]
    write_scope: ClassVar[str]
    """What is told to be missing when there are only those."""
    role_of_stranger: ClassVar[str]
    """The path at which it is asked for."""

    def __init__(self, folder: Path, server: ForgeServer, *, pushes: bool = True) -> None:
        super().__init__(folder, pushes=pushes)
        self.server = server
        self.clock = Ahead()
        self.served = self.makes(server, self.origin, self.clock)
        self.forge = self.new_forge()

    async def new_issue(self, *labels: str, title: str = "Add", body: str = "") -> int:
        number = 50 + len(self.served.issues)
        self.served.issues[number] = Issue(labels=list(labels), title=title, body=body)
        return number

    async def issue(self, number: int) -> IssueSeen:
        seen = self.served.issues[number]
        return IssueSeen(seen.open, tuple(seen.labels), tuple(row["body"] for row in seen.comments))

    async def change_issue(self, number: int, *labels: str, is_open: bool = True) -> None:
        self.served.issues[number].labels = list(labels)
        self.served.issues[number].open = is_open

    def new_forge(self, token: str = "", repo: str = "") -> Forge:
        """Return a new forge; the caller closes it."""
        return self.kind.make(self.connection(token, repo))

    def connection(self, token: str = "", repo: str = "", **more: Any) -> Connection:
        environ = {self.token_variable: token or self.token}
        sign_in = self.kind.sign_in(SignInContext(environ=environ, host=""))
        assert sign_in is not None
        facts = {
            "repo": repo or self.repo,
            "api": self.server.url + self.api,
            "web_url": self.server.url,
            "sign": sign_in.sign,
            "now": self.clock,
            "sleep": self.clock.sleep,
        }
        return Connection(**{**facts, **more})

    def shown(self, number: int) -> dict[str, Any]:
        """Return the JSON of a pull request."""
        raise NotImplementedError

    def say(self, number: int, who: str, text: str) -> object:
        """Have somebody write a comment under a pull request."""
        raise NotImplementedError

    def demand_newest(self) -> None:
        """Have merges refused while the branch lacks commits of its base."""
        raise NotImplementedError

    def let_write(self, who: str) -> None:
        """Give somebody a role that may write."""
        raise NotImplementedError

    async def later(self) -> None:
        self.clock.by += 1

    async def committed(self, branch: str, sha: str, outcome: str) -> None:
        if outcome:
            self.run(branch, sha, outcome)
        await asyncio.to_thread(self.served.refresh)

    def run(self, branch: str, sha: str, outcome: str) -> None:
        """Have the forge's own CI check a commit."""
        raise NotImplementedError

    async def merge(self, number: int) -> str:
        return await asyncio.to_thread(self.merge_there, number)

    async def asked(self, number: int) -> list[str]:
        return list(self.served.pulls[number].asked)

    async def assigned(self, number: int) -> list[str]:
        return list(self.served.pulls[number].assignees)

    def merge_there(self, number: int) -> str:
        raise NotImplementedError

    @classmethod
    @contextlib.asynccontextmanager
    async def running(cls, folder: Path, *, pushes: bool = True) -> AsyncIterator[Self]:
        """Serve one; it is gone afterwards."""
        async with forge_server() as server:
            world = cls(folder, server, pushes=pushes)
            try:
                yield world
            finally:
                await world.forge.aclose()
            assert not world.served.faults
