"""Pushes our commits to the forge and fetches the base's commits.

Owns which pushes are missing and what a push may replace. How git does it is the `Remote` port's
matter.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ci.errors import ProviderError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from ci.forge.memory import Memory
    from ci.forge.protocol import ForgePull
    from ci.ports import Remote, Repository


class GitSync:
    """Synchronises the local repository with the forge."""

    def __init__(
        self,
        remote: Remote,
        repository: Repository,
        memory: Memory,
        *,
        header: Callable[[], Awaitable[Mapping[str, str]]],
        place: str,
    ) -> None:
        self._remote = remote
        self._repository = repository
        self._memory = memory
        self._header = header
        self._place = place
        self._locks: dict[str, asyncio.Lock] = {}

    async def push_missing(self, branch: str) -> str:
        """Push the branch if its newest commit is not there yet; return why that failed."""
        sha = self._memory.wanted(branch)
        if not sha or self._memory.is_there(branch, sha):
            return ""
        async with self._locks.setdefault(branch, asyncio.Lock()):
            if self._memory.is_there(branch, sha):
                return ""
            return await self._push(branch, sha)

    async def _push(self, branch: str, sha: str) -> str:
        header, there = await self._header(), self._memory.there(branch)
        pushed = await self._remote.push(branch, sha, expected=there, header=header)
        if not pushed.done:
            # An earlier runner's push without a recorded end, somebody else's work that the agent
            # has merged meanwhile, or a branch removed there after a merge: replacing these loses
            # nothing.
            known, theirs = await self._there(branch, header)
            if known and theirs is None and there is not None:
                pushed = await self._remote.push(branch, sha, expected=None, header=header)
            elif (
                theirs is not None
                and theirs != there
                and await self._may_replace(branch, theirs, sha)
            ):
                pushed = await self._remote.push(branch, sha, expected=theirs, header=header)
        if pushed.done:
            await self._memory.pushed(branch, sha)
            return ""
        return f"{branch} could not be pushed to {self._place}: {pushed.reason}"

    async def _there(self, branch: str, header: Mapping[str, str]) -> tuple[bool, str | None]:
        """Return whether the remote head of the branch is known, and which it is."""
        try:
            return True, await self._remote.fetch(branch, header=header)
        except ProviderError:
            return False, None  # the failed push was reported already

    async def foreign(self, branch: str) -> str:
        """Return the commit of somebody else that blocks a push, if there is one."""
        known, theirs = await self._there(branch, await self._header())
        sha = self._memory.wanted(branch)
        if not known or theirs is None or await self._may_replace(branch, theirs, sha):
            return ""
        return theirs

    async def look_again(self, branch: str) -> None:
        """Record the remote head of the branch, which may have been reset."""
        known, theirs = await self._there(branch, await self._header())
        if known and theirs is not None and self._memory.ours(branch, theirs):
            await self._memory.pushed(branch, theirs)

    async def _may_replace(self, branch: str, theirs: str, sha: str) -> bool:
        return self._memory.ours(branch, theirs) or await self._remote.holds(sha, theirs)

    async def follow_base(self, base: str) -> str:
        """Fetch the base and fast-forward it; return a note for people."""
        try:
            head = await self._remote.fetch(base, header=await self._header())
        except ProviderError as error:
            return f" (its commits could not be fetched: {error})"
        if head is None or await self._remote.follow(base, head):
            return ""
        return f" (the local {base} was not moved: it has commits or changes of its own)"

    async def remote_head(self, branch: str) -> str | None:
        """Fetch the remote head of a branch; None if there is no such branch."""
        return await self._remote.fetch(branch, header=await self._header())

    async def remove(self, branch: str, head: str) -> str:
        """Remove a merged branch there, if it is at this head; return why that is refused."""
        header = await self._header()
        removed = await self._remote.remove(branch, expected=head, header=header)
        if not removed.done:
            return removed.reason
        await self._memory.removed(branch)
        return ""

    async def is_update(self, branch: str, sha: str, pull: ForgePull) -> bool:
        """Return whether the remote head is our commit merged with its base, and nothing else."""
        header = await self._header()
        theirs = await self._remote.fetch(branch, header=header)
        base = await self._remote.fetch(pull.base, header=header)
        if theirs is None or theirs != pull.head_sha or base is None:
            return False
        if not await self._remote.holds(theirs, sha):
            return False
        joined = await self._repository.joined(sha, base, message="what an update would be")
        return joined is not None and await self._repository.same_files(joined, theirs)

    async def merge_base_into(self, pull: ForgePull) -> str:
        """Push its head, whoever made it, merged with its base; return why that failed."""
        branch, head, header = pull.branch, pull.head_sha, await self._header()
        base = await self._remote.fetch(pull.base, header=header)
        if base is None or await self._remote.fetch(branch, header=header) != head:
            return f"{branch} or {pull.base} has moved at {self._place}: look at it again"
        message = f"Merge branch '{pull.base}' into {branch}"
        joined = await self._repository.joined(head, base, message=message)
        if joined is None or joined == head:
            return f"{branch} cannot be merged with {pull.base}"
        pushed = await self._remote.push(branch, joined, expected=head, header=header)
        if not pushed.done:
            return f"{branch} could not be pushed to {self._place}: {pushed.reason}"
        ours = self._memory.wanted(branch)
        if head in {ours, self._memory.updated(branch, ours)}:
            await self._memory.brought_up(branch, ours, joined)
        return ""

    async def is_merged(self, sha: str, merge_commit: str | None, base: str) -> bool:
        """Return whether a merge brought a commit into the base, whatever the forge shows.

        Some show as the head of a merged pull request what was pushed to its branch later.
        """
        if merge_commit is None or not await self._remote.holds(merge_commit, merge_commit):
            head = await self._remote.fetch(base, header=await self._header())
            merge_commit = merge_commit or head
        return merge_commit is not None and await self._repository.is_merged(sha, merge_commit)

    async def is_behind(self, branch: str, here: str, there: str) -> bool:
        """Return whether the remote branch contains all local commits."""
        fetched = await self._remote.fetch(branch, header=await self._header())
        return fetched == there and await self._remote.holds(there, here)

    async def conflicts(self, branch: str, base: str) -> tuple[str, ...]:
        """Return the files in which a branch conflicts with the remote base."""
        header, found = await self._header(), tuple[str, ...]()
        ours: str | None = branch
        if await self._repository.head(branch) is None:
            ours = await self._remote.fetch(branch, header=header)
        head = await self._remote.fetch(base, header=header)
        if ours is not None and head is not None:
            found = await self._repository.conflicts(ours, head)
        return found or ("(the forge does not say where)",)

    async def base_for_merging(self, base: str) -> str:
        """Fetch the base and return a note with the name under which an agent finds it."""
        note = await self.follow_base(base)
        return f"{note}; its newest commits are here as refs/loopwright/remote/{base}"
