"""What a provider needs from others: the repository, commands, documents, a remote, a timer.

Owns these protocols. Must not know git, processes or databases: who builds a provider connects
them to it by `bind(ProviderPorts(...))`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ci.webhook_delivery import Deliveries


class RepositoryMerge(Protocol):
    """The result of a merge in the repository."""

    @property
    def merged(self) -> bool:
        """Whether the target now contains the branch."""
        ...

    @property
    def commit(self) -> str | None:
        """The commit of the target that contains the branch."""
        ...

    @property
    def conflicts(self) -> tuple[str, ...]:
        """The conflicting paths."""
        ...

    @property
    def reason(self) -> str:
        """Why it was not merged."""
        ...

    @property
    def passing(self) -> bool:
        """Whether the obstacle is temporary."""
        ...


class Repository(Protocol):
    """The user's repository, as far as CI needs it."""

    async def head(self, branch: str) -> str | None:
        """Return the full hash of the branch's newest commit; None if there is no such branch."""
        ...

    async def lay_out(self, commit: str, name: str) -> Path:
        """Return a folder with the files of the commit; the next call with this name reuses it.

        The name begins with a dot, so that it is never an agent's.
        """
        ...

    async def set_up(self, commit: str, name: str) -> None:
        """Install what the laid out commit needs; RedSetUpError when the commit is at fault."""
        ...

    async def merge(
        self, branch: str, into: str, *, message: str, expected_head: str | None = None
    ) -> RepositoryMerge:
        """Merge completely or change nothing; refuse if the branch is not at `expected_head`.

        A branch that the target already contains counts as merged.
        """
        ...

    async def prepare(
        self, branch: str, into: str, *, message: str, expected_head: str | None = None
    ) -> tuple[str, str]:
        """Create the merge commit and move no branch; return the target's commit and this one.

        Where there is nothing to merge, it is the target's own commit, or empty.
        """
        ...

    async def advance(self, branch: str, into: str, *, target: str, commit: str) -> RepositoryMerge:
        """Move a branch to the merge made for it, if it has not moved since."""
        ...

    async def same_files(self, one: str, other: str) -> bool:
        """Return whether two commits have the same files."""
        ...

    async def joined(self, commit: str, other: str, *, message: str) -> str | None:
        """Return a commit that holds both, moving no branch; None if they conflict."""
        ...

    async def is_merged(self, commit: str, into: str) -> bool:
        """Return whether a commit is in another one, also squashed or rebased.

        Then it is among its ancestors, or merging it would change no file. What it should be in has
        to be here; a commit that is not here at all is nobody's work that could be lost.
        """
        ...

    async def conflicts(self, branch: str, into: str) -> tuple[str, ...]:
        """Return the paths on which the branches conflict, changing nothing."""
        ...


class CommandOutcome(Protocol):
    """How a command ended."""

    @property
    def code(self) -> int | None:
        """The exit code; negative or None if it did not end by itself."""
        ...

    @property
    def timed_out(self) -> bool:
        """Whether it was stopped because its time was over."""
        ...

    @property
    def excerpt(self) -> str:
        """The end of what it printed."""
        ...

    @property
    def seconds(self) -> float:
        """How long it ran."""
        ...


class BuildCommands(Protocol):
    """Runs shell commands so that no process is left over."""

    async def run(
        self,
        command: str,
        *,
        cwd: Path,
        log: Path,
        timeout: float,  # noqa: ASYNC109  # the limit of the process tree, not of the caller
        mark: str,
    ) -> CommandOutcome:
        """Run to the end, output to `log`, and leave no process behind, also when cancelled.

        A process that still carries this `mark` from a runner that was killed is ended first,
        so that nothing runs twice at once.
        """
        ...


class Documents(Protocol):
    """Stores JSON documents; once `put` has returned, the document survives a crash."""

    async def put(self, collection: str, key: str, body: dict[str, Any]) -> None:
        """Store the document, replacing the one with the same key."""
        ...

    async def all(self, collection: str) -> Mapping[str, dict[str, Any]]:
        """Return all documents of a collection by key."""
        ...

    async def delete(self, collection: str, key: str) -> None:
        """Delete the document, if there is one."""
        ...


class Pushed(Protocol):
    """The result of a push."""

    @property
    def done(self) -> bool:
        """Whether the remote branch is at the commit now."""
        ...

    @property
    def reason(self) -> str:
        """Why not, and what to do."""
        ...


class Remote(Protocol):
    """The remote repository, as git reaches it."""

    async def push(
        self, branch: str, sha: str, *, expected: str | None, header: Mapping[str, str]
    ) -> Pushed:
        """Set the remote branch to the commit, if it is at `expected` (None: does not exist).

        `header` holds HTTP header lines that sign us in; they appear in no argument and no file.
        """
        ...

    async def remove(self, branch: str, *, expected: str, header: Mapping[str, str]) -> Pushed:
        """Remove the remote branch, if it is at `expected`."""
        ...

    async def fetch(self, branch: str, *, header: Mapping[str, str]) -> str | None:
        """Fetch the branch's newest commit and return it; None if there is no such branch."""
        ...

    async def holds(self, commit: str, other: str) -> bool:
        """Return whether a commit has the other among its ancestors; both are local."""
        ...

    async def follow(self, branch: str, sha: str) -> bool:
        """Fast-forward the local branch to a fetched commit, if nothing is lost by that."""
        ...


MergeObjection = Callable[[str, str, str], Awaitable[str]]
"""Takes a branch, its commit and the target; returns why not to merge, or nothing."""


async def no_work_into(branch: str) -> bool:
    """Know of no work that goes into a branch."""
    del branch
    return False


class LogEvent(Protocol):
    """Takes a log event with its fields."""

    def __call__(self, event: str, /, **fields: object) -> object:
        """Log it."""
        ...


def reported_nowhere(event: str, /, **fields: object) -> None:
    """Log nothing."""
    del event, fields


async def nothing_along(branch: str, sha: str, into: str) -> str:
    """Object to nothing."""
    del branch, sha, into
    return ""


class Cancellable(Protocol):
    """A scheduled call that can be cancelled."""

    def cancel(self) -> None:
        """Cancel the call."""
        ...


@dataclass(frozen=True)
class ProviderPorts:
    """Everything that a provider works with."""

    repository: Repository
    commands: BuildCommands
    documents: Documents
    now: Callable[[], float]
    folder: Path
    """For checkouts and logs; the provider's own."""
    call_at: Callable[[float, Callable[[], None]], Cancellable] | None = None
    """Calls back at an instant; needed by providers that poll."""
    remote: Remote | None = None
    """Needed by providers on a forge."""
    deliveries: Deliveries | None = None
    """Needed by providers that receive webhooks."""
    auto_merge_objection: Callable[[str, str], Awaitable[str]] | None = None
    """Returns why a head must not be merged into a base automatically, or nothing."""
    comes_along: MergeObjection = nothing_along
    """Returns why a branch must not be merged at this commit into another one: it would bring along
    work that nobody accepted."""
    is_needed: Callable[[str], Awaitable[bool]] = no_work_into
    """Returns whether unfinished work goes into this branch."""
    report: LogEvent = reported_nowhere
    """Tells the log what concerns all waits."""
