"""Bringing the branch of a pull request up to date where its base demands that.

Owns by which means, and that only a merge of our commit with its base is taken for ours. Whether
that is demanded is told by each forge, when it is wanted is decided in `ci.forge.auto_merge`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ci.errors import ForbiddenError, MissingError, RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci.forge.git_sync import GitSync
    from ci.forge.memory import Memory
    from ci.forge.merge_rules import Rules
    from ci.forge.protocol import Forge, ForgePull


@dataclass(frozen=True, slots=True)
class BehindBase:
    """The branches of one forge's repository that lack commits of their base."""

    forge: Forge
    memory: Memory
    git_sync: GitSync
    rules: Callable[[], Rules]
    _of_others: dict[str, str] = field(default_factory=dict)
    """By branch: the head that was found to be somebody else's work."""

    async def current(self, branch: str, ours: str, pull: ForgePull) -> str:
        """Return the commit that stands for ours: our own, or ours brought up to date."""
        sha, head = self.memory.updated(branch, ours), pull.head_sha
        if head in {sha, ours, self._of_others.get(branch)} or self.memory.ours(branch, head):
            return sha
        if not await self.git_sync.is_update(branch, ours, pull):
            self._of_others[branch] = head
            return sha
        await self.memory.brought_up(branch, ours, head)
        return head

    async def bring_up(self, pull: ForgePull) -> str:
        """Bring it up to date, or return why not; its checks then begin anew."""
        how = self.rules().behind_base
        if how == "ask":
            return "it is behind its base: bring it up to date (behind_base = ask)"
        if how == "update":
            try:
                if await self.forge.update_pull(pull):
                    return f"it is being brought up to date with {pull.base}"
            except MissingError:
                pass  # too old a server: it is done as where a forge has no update
            except (RefusedError, ForbiddenError) as refusal:
                return f"it is behind its base, and the forge refused to update it: {refusal}"
        owed = await self.git_sync.merge_base_into(pull)
        return owed or f"it was brought up to date with {pull.base}, and is checked anew"
