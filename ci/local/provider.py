"""The local provider: builds and pull requests on this machine, in this repository.

Owns the provider's lifecycle (bind, start, close) and the order of its changes. The rules are in
`ci.local.pull_requests`; must not know git, processes or databases, which come through `bind`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ci.errors import ProviderError
from ci.interface import USUAL_TERMS, MergeTerms
from ci.local.builds import BuildRunner
from ci.local.checks import LocalChecks
from ci.local.ledger import EVENTS, LocalLedger
from ci.local.pull_requests import LocalPullRequests
from ci.provider import BaseProvider
from ci.serial_queue import SerialQueue

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ci.interface import CIWatch, MergeResult, PullRequest, Trouble
    from ci.ports import ProviderPorts
    from ci.verdict import Verdict
    from ci.webhook_delivery import Hint

T = TypeVar("T")

_REFERENCE = re.compile(r"(?:local://pr/|#)?([0-9]{1,18})")


class LocalCIProvider(BaseProvider[LocalPullRequests]):
    """Runs the test command on each commit of an agent's branch, and keeps local pull requests.

    Without a test command nothing is checked: the verdict is `none` and a merge is up to the
    caller. With one, only a green head is merged. `auto_merge` merges green heads by itself.
    """

    name: str = "local"
    tells_all: bool = True
    looks: bool = False

    def __init__(  # noqa: PLR0913  # settings, each with its default
        self,
        repo: Path | str,
        *,
        test_command: str | None = None,
        timeout: float = 1800,
        max_parallel: int = 1,
        auto_merge: bool = False,
        base: str | None = None,
    ) -> None:
        if timeout <= 0 or max_parallel < 1:
            raise ProviderError(
                f"the timeout of builds ({timeout}) must be above 0, and max_parallel "
                f"({max_parallel}) at least 1"
            )
        if auto_merge and not test_command:
            raise ProviderError(
                "auto_merge merges green commits only, and without a test_command none gets "
                "green: set one, or leave auto_merge off"
            )
        super().__init__(EVENTS)
        self.repo = Path(repo)
        self.base = base
        """The branch for pull requests that name none."""
        self._command = test_command or None
        self._timeout = timeout
        self._max_parallel = max_parallel
        self._auto_merge = auto_merge
        self._changes = SerialQueue()
        self._runner: BuildRunner | None = None

    async def start(self) -> None:
        """Load the records, run interrupted builds again, finish an interrupted merge."""
        async with self._life:
            if self._work is None:
                await self._open(self._bound())

    async def aclose(self) -> None:
        """Stop the builds and leave no process, task or checkout; records stay for `start`."""
        async with self._life:
            await self._stop()

    async def _open(self, ports: ProviderPorts) -> None:
        self._changes = SerialQueue()
        self._runner = BuildRunner(ports, timeout=self._timeout, max_parallel=self._max_parallel)
        ledger = LocalLedger(ports.documents, self._log)
        checks = LocalChecks(
            ledger, self._runner, self._changes, command=self._command, now=ports.now
        )
        forge = LocalPullRequests(ports, ledger, checks, auto_merge=self._auto_merge)
        try:
            await self._log.open(ports.documents)
            await self._changes.run(forge.resume)
            self._work = forge
        finally:
            if self._work is None:
                await self._stop()

    async def _stop(self) -> None:
        self._work = None
        if self._runner is not None:
            await self._runner.aclose()
            await self._changes.drain()
            await self._log.flush()
            self._runner = None

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

    def watch(self, watch: CIWatch) -> Callable[[], None]:
        """Do nothing: every change of its own builds and pull requests causes an event."""
        del watch
        return _nothing

    async def take(self, hint: Hint) -> tuple[str, ...]:
        """Do nothing, for the same reason."""
        del hint
        return ()

    def troubles(self) -> tuple[Trouble, ...]:
        """Return nothing: everything is on this machine."""
        return ()

    async def _change(self, operation: Callable[[LocalPullRequests], Awaitable[T]]) -> T:
        forge = self._started()
        return await self._changes.run(lambda: operation(forge))


def _nothing() -> None:
    pass
