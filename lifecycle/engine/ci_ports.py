"""Gives a CI provider what it asks for (`ci.ports`) from what this machine has."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ci.errors import UnreachableError
from ci.ports import ProviderPorts
from lifecycle.judging.code_origin import made_in
from lifecycle.judging.unaccepted_work import UnacceptedWork, refusal
from lifecycle.machine.states import Accepted, Rejected
from lifecycle.mask_values import masked
from lifecycle.setup.builds import BuildSetups
from runtime.branches import PreparedMerge
from runtime.code_origin.findings import told
from runtime.errors import OtherCodeError, RuntimeFault, ShortageError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping
    from pathlib import Path

    from ci.ports import Pushed, Remote
    from lifecycle.ports import Branches
    from lifecycle.services import MachineServices
    from lifecycle.store.sqlite.store import SqliteStore
    from runtime.branches import BranchMerge
    from runtime.commands import CommandResult
    from runtime.masking.masker import Masker

AGENTS = "agent/"
"""How the branches of agents begin."""


def provider_ports(machine: MachineServices, *, remote: Remote | None) -> ProviderPorts:
    """Join what a CI provider works with."""
    shared, watch = machine.shared, machine.work_watch
    store = shared.store
    against = None if watch is None else _Against(partial(watch.against, store)).why_not
    return ProviderPorts(
        repository=_Repository(machine.branches, BuildSetups(machine)),
        commands=_Commands(machine),
        documents=_Documents(store, shared.masker),
        now=shared.clock.now,
        folder=machine.paths.ci,
        call_at=shared.clock.call_at,
        remote=None if remote is None else _Remote(remote),
        deliveries=store.deliveries,
        auto_merge_objection=against,
        comes_along=_Guard(UnacceptedWork(store, machine.branches)).why_not,
        is_needed=partial(_is_needed, store),
        report=shared.report,
    )


async def _is_needed(store: SqliteStore, branch: str) -> bool:
    async for record in store.every():
        ended = isinstance(record.work, (Accepted, Rejected))
        if not ended and record.facts.get("base_branch") == branch:
            return True
    return False


@dataclass(frozen=True, slots=True)
class _Repository:
    branches: Branches
    builds: BuildSetups

    async def head(self, branch: str) -> str | None:
        return await self.branches.head(branch)

    async def lay_out(self, commit: str, name: str) -> Path:
        return await self.builds.lay_out(name, commit)

    async def set_up(self, commit: str, name: str) -> None:
        await self.builds.set_up(name, commit)

    async def merge(
        self, branch: str, into: str, *, message: str, expected_head: str | None = None
    ) -> BranchMerge:
        return await self.branches.merge(branch, into, message=message, expected_head=expected_head)

    async def prepare(
        self, branch: str, into: str, *, message: str, expected_head: str | None = None
    ) -> tuple[str, str]:
        prepared = await self.branches.prepare(
            branch, into, message=message, expected_head=expected_head
        )
        return prepared.target, prepared.commit

    async def advance(self, branch: str, into: str, *, target: str, commit: str) -> BranchMerge:
        return await self.branches.carry_out(PreparedMerge(branch, into, "", target, commit=commit))

    async def same_files(self, one: str, other: str) -> bool:
        tree_of = self.branches.history.tree_of
        return await tree_of(one) == await tree_of(other)

    async def is_merged(self, commit: str, into: str) -> bool:
        if not await self.branches.commit_exists(into):
            return False
        if not await self.branches.commit_exists(commit):
            return True
        joined = await self.joined(into, commit, message="would it change anything?")
        with _in_words_of_ci():
            return joined is not None and await self.same_files(joined, into)

    async def joined(self, commit: str, other: str, *, message: str) -> str | None:
        with _in_words_of_ci():
            return (await self.branches.join((commit, other), message=message)).commit

    async def conflicts(self, branch: str, into: str) -> tuple[str, ...]:
        return await self.branches.is_conflicted(branch, into)


@dataclass(frozen=True, slots=True)
class _Guard:
    """Keeps pull requests to the rule that `accept` goes by."""

    comes_along: UnacceptedWork

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
    """Asks the runner why nothing merges automatically; no answer if it cannot look now."""

    ask: Callable[[str, str], Awaitable[str]]

    async def why_not(self, base: str, head: str) -> str:
        with _in_words_of_ci():
            return await self.ask(base, head)


@dataclass(frozen=True, slots=True)
class _Commands:
    """Ends what a killed runner left of the same command before it runs again.

    In a checkout it judges the code of that checkout, or is refused.
    """

    machine: MachineServices

    async def run(
        self,
        command: str,
        *,
        cwd: Path,
        log: Path,
        timeout: float,  # noqa: ASYNC109  # the limit is the process tree's, not the caller's
        mark: str,
    ) -> CommandResult:
        for identity in self.machine.terminals.find_marked(mark):
            await self.machine.terminals.stop_identity(identity, 1.0)
        if (cwd / ".git").is_dir():
            found = self.machine.other_code(cwd, (command,))
            if found:
                raise OtherCodeError(told(found))
        made = made_in(self.machine.paths, cwd)
        return await self.machine.commands.run(
            command, cwd=cwd, log=log, timeout=timeout, mark=mark, made=made
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

    async def remove(self, branch: str, *, expected: str, header: Mapping[str, str]) -> Pushed:
        with _in_words_of_ci():
            return await self.remote.remove(branch, expected=expected, header=header)

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
    store: SqliteStore
    masker: Masker

    async def put(self, collection: str, key: str, body: dict[str, Any]) -> None:
        # What a forge, a build or a reviewer said: it is kept before a lifecycle hears of it.
        await self.store.put(collection, key, masked(body, self.masker))

    async def all(self, collection: str) -> Mapping[str, dict[str, Any]]:
        return await self.store.all(collection)

    async def delete(self, collection: str, key: str) -> None:
        await self.store.remove(collection, key)
