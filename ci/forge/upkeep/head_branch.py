"""The branch of a merged pull request: removed at the forge once nothing needs it.

Owns what keeps it. Only branches that we pushed are ever removed, and only at the merged commit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci.errors import ProviderError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ci.forge.git_sync import GitSync
    from ci.forge.memory import Memory
    from ci.forge.merge_rules import Rules
    from ci.forge.protocol import Forge, ForgePull


@dataclass(frozen=True, slots=True)
class HeadBranches:
    """The head branches of one forge's repository."""

    forge: Forge
    memory: Memory
    git_sync: GitSync
    rules: Callable[[], Rules]
    is_needed: Callable[[str], Awaitable[bool]]
    """Returns whether unfinished work goes into this branch."""

    async def remove(self, pull: ForgePull) -> str:
        """Remove that of a merged pull request, unless something needs it; return a note."""
        branch = pull.branch
        if not (self.rules().delete_head_branch and pull.ours and self.memory.wanted(branch)):
            return ""
        try:
            return await self._remove(pull)
        except ProviderError as error:
            return f"; its branch {branch} was not removed there: {error}"

    async def _remove(self, pull: ForgePull) -> str:
        branch = pull.branch
        head = await self.git_sync.remote_head(branch)
        if head is None:
            return ""
        if not await self.git_sync.is_merged(head, pull.merge_commit, pull.base):
            return f"; its branch {branch} stays there: it has commits that are not merged"
        others = await self.forge.open_pulls()
        if any(branch in {other.base, other.branch} for other in others):
            return f"; its branch {branch} stays there: an open pull request needs it"
        if await self.is_needed(branch):
            return f"; its branch {branch} stays there: unfinished work goes into it"
        return await self.git_sync.remove(branch, head)
