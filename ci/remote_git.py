"""Brings our commits to the forge and the base's commits here.

Owns what is owed to the forge and where a push may replace something. How git does it is the
business of the `Remote` port.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ci.errors import ProviderError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from ci.interface import Remote, Repository
    from ci.remote_memory import Memory


class Shipping:
    """The way between the repository here and the one there."""

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
        self._doors: dict[str, asyncio.Lock] = {}

    async def ship(self, branch: str) -> str:
        """Push the branch if its newest commit is not there yet; return why that failed."""
        sha = self._memory.wanted(branch)
        if not sha or self._memory.there(branch) == sha:
            return ""
        async with self._doors.setdefault(branch, asyncio.Lock()):
            if self._memory.there(branch) == sha:
                return ""
            return await self._push(branch, sha)

    async def _push(self, branch: str, sha: str) -> str:
        header, there = await self._header(), self._memory.there(branch)
        pushed = await self._remote.push(branch, sha, expected=there, header=header)
        if not pushed.done:
            # A push of an earlier runner that we did not hear the end of, somebody else's work
            # that the agent has taken up meanwhile, or a branch that was removed there after a
            # merge: none of these loses anything.
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
        """Return whether it is known where the branch is there, and where."""
        try:
            return True, await self._remote.fetch(branch, header=header)
        except ProviderError:
            return False, None  # why the push failed is told already

    async def foreign(self, branch: str) -> str:
        """Return the commit of somebody else that is in the way of a push, if one is."""
        known, theirs = await self._there(branch, await self._header())
        sha = self._memory.wanted(branch)
        if not known or theirs is None or await self._may_replace(branch, theirs, sha):
            return ""
        return theirs

    async def look_again(self, branch: str) -> None:
        """Take note of where the branch is there, which may have been set back."""
        known, theirs = await self._there(branch, await self._header())
        if known and theirs is not None and self._memory.ours(branch, theirs):
            await self._memory.pushed(branch, theirs)

    async def _may_replace(self, branch: str, theirs: str, sha: str) -> bool:
        return self._memory.ours(branch, theirs) or await self._remote.holds(sha, theirs)

    async def follow_base(self, base: str) -> str:
        """Bring the base's newest commits here; return what a person has to know of it."""
        try:
            head = await self._remote.fetch(base, header=await self._header())
        except ProviderError as error:
            return f" (its commits could not be fetched: {error})"
        if head is None or await self._remote.follow(base, head):
            return ""
        return f" ({base} here is not moved: it has commits or changes of its own)"

    async def is_behind(self, branch: str, here: str, there: str) -> bool:
        """Tell whether everything that is here is in the branch there, too."""
        fetched = await self._remote.fetch(branch, header=await self._header())
        return fetched == there and await self._remote.holds(there, here)

    async def conflicts(self, branch: str, base: str) -> tuple[str, ...]:
        """Name the files in which a branch conflicts with the base as it is there."""
        head = await self._remote.fetch(base, header=await self._header())
        found = await self._repository.conflicts(branch, head) if head is not None else ()
        return found or ("(the forge does not say where)",)

    async def base_for_merging(self, base: str) -> str:
        """Bring the base here and say under which name an agent finds it."""
        note = await self.follow_base(base)
        return f"{note}; its newest commits are here as refs/loopwright/remote/{base}"
