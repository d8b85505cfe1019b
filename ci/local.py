"""The provider that needs nobody: builds and pull requests on this machine, in this repository.

Owns the provider's life (bind, start, close) and the order of its changes. The rules are in
`local_forge`; must not know git, processes or databases, which come through `bind`.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, TypeVar

from ci.errors import ProviderError
from ci.feed import Feed
from ci.interface import USUAL_TERMS, MergeTerms
from ci.local_builds import BuildRunner
from ci.local_checks import LocalChecks
from ci.local_forge import LocalForge
from ci.local_ledger import EVENTS, Ledger
from ci.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from ci.events import CIEvent
    from ci.inbox import Hint
    from ci.interface import EventBatch, MergeResult, PullRequest, Surroundings, Trouble, Watch
    from ci.verdict import Verdict

T = TypeVar("T")

_REFERENCE = re.compile(r"(?:local://pr/|#)?([0-9]{1,18})")


class LocalCIProvider:
    """Runs the test command on each commit of an agent's branch, and keeps local pull requests.

    Without a test command nothing is checked: the verdict is `none` and a merge is up to the
    caller. With one, only a green head is merged. `auto_merge` merges green heads by itself.
    """

    name: str = "local"
    tells_all: bool = True
    looks: bool = False

    def __init__(  # noqa: PLR0913  # settings, each with its default
        self,
        repo: Path,
        *,
        test_command: str | None = None,
        timeout: float = 1800,
        max_parallel: int = 1,
        auto_merge: bool = False,
        base: str | None = None,
    ) -> None:
        if timeout <= 0 or max_parallel < 1:
            raise ProviderError(
                f"a build needs time and a place to run: timeout={timeout} must be above 0 and "
                f"max_parallel={max_parallel} at least 1"
            )
        if auto_merge and not test_command:
            raise ProviderError(
                "auto_merge merges green commits only, and without a test_command none gets "
                "green: set one, or leave auto_merge off"
            )
        self.repo = repo
        self.base = base
        """The branch for pull requests that name none."""
        self._command = test_command or None
        self._timeout = timeout
        self._max_parallel = max_parallel
        self._auto_merge = auto_merge
        self._feed = Feed(EVENTS)
        self._surroundings: Surroundings | None = None
        self._life = asyncio.Lock()
        self._turns = Turns()
        self._runner: BuildRunner | None = None
        self._forge: LocalForge | None = None

    def bind(self, surroundings: Surroundings) -> None:
        """Give it what it works with; the same again, also while it runs, changes nothing."""
        if self._runner is not None and surroundings != self._surroundings:
            raise ProviderError(
                "this provider is at work with other surroundings: aclose() it before bind()"
            )
        self._surroundings = surroundings

    async def start(self) -> None:
        """Load the records, run interrupted builds again, finish an interrupted merge."""
        async with self._life:
            if self._forge is None:
                await self._open(self._bound())

    async def aclose(self) -> None:
        """Stop the builds and leave no process, task or checkout; records stay for `start`."""
        async with self._life:
            await self._stop()

    async def _open(self, surroundings: Surroundings) -> None:
        self._turns = Turns()
        self._runner = BuildRunner(
            surroundings, timeout=self._timeout, max_parallel=self._max_parallel
        )
        ledger = Ledger(surroundings.documents, self._feed)
        checks = LocalChecks(
            ledger, self._runner, self._turns, command=self._command, now=surroundings.now
        )
        forge = LocalForge(surroundings, ledger, checks, auto_merge=self._auto_merge)
        try:
            await self._feed.open(surroundings.documents)
            await self._turns.take(forge.resume)
            self._forge = forge
        finally:
            if self._forge is None:
                await self._stop()

    async def _stop(self) -> None:
        self._forge = None
        if self._runner is not None:
            await self._runner.aclose()
            await self._turns.drain()
            await self._feed.flush()
            self._runner = None

    def subscribe(self, handler: Callable[[CIEvent], None]) -> Callable[[], None]:
        """Tell every later event to the handler; the returned function ends that."""
        return self._feed.subscribe(handler)

    async def events_since(self, cursor: int) -> EventBatch:
        """Return the events after the cursor; 0 for all."""
        self._started()
        return await self._feed.since(cursor)

    async def pushed(self, branch: str, sha: str) -> None:
        """Build the newest commit of a branch; an older build of that branch is cancelled."""
        await self._change(lambda forge: forge.push(branch, sha))

    async def rebuild(self, sha: str) -> None:
        """Build a commit again; its new verdict replaces the old one."""
        await self._change(lambda forge: forge.checks.rebuild(sha))

    async def verdict(self, sha: str) -> Verdict:
        """Judge a commit by its latest build."""
        return self._started().checks.verdict(sha)

    async def pull_request(self, ref: str | int) -> PullRequest | None:
        """Find a pull request: `3`, `"3"`, `"#3"` or `"local://pr/3"`."""
        self._started()
        found = _REFERENCE.fullmatch(str(ref).strip())
        return await self._change(lambda forge: forge.look(int(found[1]))) if found else None

    async def find_pull_request(self, branch: str) -> PullRequest | None:
        """Find the newest open pull request of a branch, else its newest."""
        return await self._change(lambda forge: forge.find(branch))

    async def create_pull_request(
        self, *, branch: str, base: str, title: str, body: str = ""
    ) -> PullRequest:
        """Open a pull request on the branch's newest commit, or return the one that is open."""
        into = base or self.base
        if not into:
            raise ProviderError(
                f"the pull request of {branch} needs a base branch: give base=... here or to the "
                "provider"
            )
        return await self._change(lambda forge: forge.create(branch, into, title, body))

    async def merge(
        self, number: int, *, expected_sha: str | None = None, terms: MergeTerms = USUAL_TERMS
    ) -> MergeResult:
        """Merge a green, conflict-free pull request; the reason says why not."""
        return await self._change(
            lambda forge: forge.merge(number, expected_sha=expected_sha, terms=terms)
        )

    async def close(self, number: int) -> PullRequest:
        """Close a pull request without merging it."""
        return await self._change(lambda forge: forge.close(number))

    def watch(self, watch: Watch) -> Callable[[], None]:
        """Need no watch: builds and pull requests are its own, and it tells of each change."""
        del watch
        return _nothing

    async def take(self, hint: Hint) -> tuple[str, ...]:
        """Need no hint, for the same reason."""
        del hint
        return ()

    def troubles(self) -> tuple[Trouble, ...]:
        """Have none: everything is on this machine."""
        return ()

    async def _change(self, operation: Callable[[LocalForge], Awaitable[T]]) -> T:
        forge = self._started()
        return await self._turns.take(lambda: operation(forge))

    def _started(self) -> LocalForge:
        self._bound()
        if self._forge is None:
            raise ProviderError("the local CI provider is not running: await start() first")
        return self._forge

    def _bound(self) -> Surroundings:
        if self._surroundings is None:
            raise ProviderError(
                "the local CI provider has nothing to work with yet: bind(Surroundings(...)) it "
                "first, then await start() (AgentLifecycleLoop does both by itself)"
            )
        return self._surroundings


def _nothing() -> None:
    pass
