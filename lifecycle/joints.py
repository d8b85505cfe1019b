"""Small adapters where what a lower room offers and what a port asks for differ in form."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ci.errors import UnreachableError
from ci.interface import Surroundings
from lifecycle.judging.along import ComesAlong, refusal
from lifecycle.masking import masked
from runtime.branches import PreparedMerge
from runtime.errors import OtherCodeError, RuntimeFault, ShortageError
from runtime.right_code.findings import told

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping
    from pathlib import Path

    from ci.interface import Pushed, Remote, Timer
    from lifecycle.ports import Branches, Checkouts, Commands, Terminals
    from lifecycle.setting_up.builds import BuildSetups
    from lifecycle.store.port import LifecycleStore
    from runtime.branches import MergeOutcome
    from runtime.commands import CommandResult
    from runtime.masking import Masker
    from runtime.right_code.findings import Finding

AGENTS = "agent/"
"""How the branches of agents begin."""


def surroundings(  # noqa: PLR0913  # all by name
    *,
    branches: Branches,
    checkouts: Checkouts,
    commands: Commands,
    store: LifecycleStore,
    now: Callable[[], float],
    folder: Path,
    terminals: Terminals,
    other_code: Callable[[Path, tuple[str, ...]], tuple[Finding, ...]],
    made: Callable[[Path], tuple[str, ...]],
    call_at: Callable[[float, Callable[[], None]], Timer],
    remote: Remote | None,
    masker: Masker,
    against_unasked: Callable[[str, str], Awaitable[str]] | None = None,
    builds: BuildSetups | None = None,
) -> Surroundings:
    """Join what a CI provider works with."""
    return Surroundings(
        repository=_Repository(branches, checkouts, builds),
        commands=_Commands(commands, terminals, other_code, made),
        documents=_Documents(store, masker),
        now=now,
        folder=folder,
        call_at=call_at,
        remote=None if remote is None else _Remote(remote),
        deliveries=store.deliveries,
        against_unasked=None if against_unasked is None else _Against(against_unasked).why_not,
        comes_along=_Guard(ComesAlong(store, branches)).why_not,
    )


@dataclass(frozen=True, slots=True)
class _Repository:
    branches: Branches
    checkouts: Checkouts
    builds: BuildSetups | None = None

    async def head(self, branch: str) -> str | None:
        return await self.branches.head(branch)

    async def lay_out(self, commit: str, name: str) -> Path:
        return await (self.builds or self.checkouts).lay_out(name, commit)

    async def set_up(self, commit: str, name: str) -> None:
        if self.builds is not None:
            await self.builds.set_up(name, commit)

    async def merge(
        self, branch: str, into: str, *, message: str, expected_head: str | None = None
    ) -> MergeOutcome:
        return await self.branches.merge(branch, into, message=message, expected_head=expected_head)

    async def prepare(
        self, branch: str, into: str, *, message: str, expected_head: str | None = None
    ) -> PreparedMerge:
        return await self.branches.prepare(
            branch, into, message=message, expected_head=expected_head
        )

    async def advance(self, branch: str, into: str, *, target: str, commit: str) -> MergeOutcome:
        return await self.branches.carry_out(PreparedMerge(branch, into, "", target, commit=commit))

    async def same_files(self, one: str, other: str) -> bool:
        tree_of = self.branches.history.tree_of
        return await tree_of(one) == await tree_of(other)

    async def conflicts(self, branch: str, into: str) -> tuple[str, ...]:
        return await self.branches.is_conflicted(branch, into)


@dataclass(frozen=True, slots=True)
class _Guard:
    """Keeps pull requests to the rule that `accept` goes by."""

    comes_along: ComesAlong

    async def why_not(self, branch: str, sha: str, into: str) -> str:
        agent_id = branch.removeprefix(AGENTS)
        try:
            along = await self.comes_along.of_branch(agent_id, sha, into)
        except ShortageError as short:
            raise UnreachableError(str(short)) from short
        except RuntimeFault as fault:
            return str(fault)
        return refusal(branch, along) if along else ""


@dataclass(frozen=True, slots=True)
class _Against:
    """Asks the runner why nobody merges unasked; what it cannot look at now is no answer."""

    ask: Callable[[str, str], Awaitable[str]]

    async def why_not(self, base: str, head: str) -> str:
        with _in_words_of_ci():
            return await self.ask(base, head)


@dataclass(frozen=True, slots=True)
class _Commands:
    """Ends what a killed runner left of the same command before it runs again.

    In a checkout it judges the code of that checkout, or is refused.
    """

    commands: Commands
    terminals: Terminals
    other_code: Callable[[Path, tuple[str, ...]], tuple[Finding, ...]]
    made: Callable[[Path], tuple[str, ...]]

    async def run(
        self,
        command: str,
        *,
        cwd: Path,
        log: Path,
        timeout: float,  # noqa: ASYNC109  # the limit is the process tree's, not the caller's
        mark: str,
    ) -> CommandResult:
        for identity in self.terminals.find_marked(mark):
            await self.terminals.stop_identity(identity, 1.0)
        if (cwd / ".git").is_dir():
            found = self.other_code(cwd, (command,))
            if found:
                raise OtherCodeError(told(found))
        return await self.commands.run(
            command, cwd=cwd, log=log, timeout=timeout, mark=mark, made=self.made(cwd)
        )


@dataclass(frozen=True, slots=True)
class _Remote:
    """Says in the words of CI what goes wrong on the way to the forge."""

    remote: Remote

    async def push(
        self, branch: str, sha: str, *, expected: str | None, header: Mapping[str, str]
    ) -> Pushed:
        with _in_words_of_ci():
            return await self.remote.push(branch, sha, expected=expected, header=header)

    async def fetch(self, branch: str, *, header: Mapping[str, str]) -> str | None:
        with _in_words_of_ci():
            return await self.remote.fetch(branch, header=header)

    async def holds(self, commit: str, other: str) -> bool:
        with _in_words_of_ci():
            return await self.remote.holds(commit, other)

    async def follow(self, branch: str, sha: str) -> bool:
        with _in_words_of_ci():
            return await self.remote.follow(branch, sha)


@contextmanager
def _in_words_of_ci() -> Iterator[None]:
    try:
        yield
    except RuntimeFault as fault:
        raise UnreachableError(str(fault)) from fault


@dataclass(frozen=True, slots=True)
class _Documents:
    store: LifecycleStore
    masker: Masker

    async def put(self, collection: str, key: str, body: dict[str, Any]) -> None:
        # What a forge, a build or a reviewer said: it is kept before a lifecycle hears of it.
        await self.store.put(collection, key, masked(body, self.masker))

    async def all(self, collection: str) -> Mapping[str, dict[str, Any]]:
        return await self.store.all(collection)

    async def delete(self, collection: str, key: str) -> None:
        await self.store.remove(collection, key)
