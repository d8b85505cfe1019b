"""Bringing the branch of a pull request up to date where its base demands that.

Owns by which means, and that only a merge of our commit with its base is taken for ours. When this
is wanted is decided in `ci.forge.auto_merge`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ci.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci.forge.git_sync import GitSync
    from ci.forge.memory import Memory
    from ci.forge.merge_rules import Rules
    from ci.forge.protocol import Forge, ForgePull
    from ci.interface import CIWatch

HINDRANCES = frozenset({"behind", "need_rebase"})
"""Words of forges for a branch that lacks commits of its base."""


@dataclass(frozen=True, slots=True)
class BehindBase:
    """The branches of one forge's repository that lack commits of their base."""

    forge: Forge
    memory: Memory
    git_sync: GitSync
    rules: Callable[[], Rules]
    _of_others: dict[str, str] = field(default_factory=dict)
    """By branch: the head that was found to be somebody else's work."""

    def is_meant(self, pull: ForgePull, reason: str = "") -> bool:
        """Return whether that is what stands against a merge."""
        return pull.hindrance in HINDRANCES or "behind" in reason.lower()

    async def current(self, watch: CIWatch, pull: ForgePull) -> str:
        """Return the commit that stands for ours: our own, or ours brought up to date."""
        sha = self.memory.updated(watch.branch, watch.sha)
        if pull.head_sha in {sha, watch.sha} or self.memory.ours(watch.branch, pull.head_sha):
            return sha
        if self._of_others.get(watch.branch) == pull.head_sha:
            return sha
        if not await self.git_sync.is_update(watch.branch, watch.sha, pull):
            self._of_others[watch.branch] = pull.head_sha
            return sha
        await self.memory.brought_up(watch.branch, watch.sha, pull.head_sha)
        return pull.head_sha

    async def bring_up(self, pull: ForgePull) -> str:
        """Bring it up to date, or return why not; its checks then begin anew."""
        how = self.rules().behind_base
        if how == "ask":
            return "it is behind its base: bring it up to date (behind_base = ask)"
        if how == "update":
            try:
                if await self.forge.update_pull(pull):
                    return f"it is being brought up to date with {pull.base}"
            except RefusedError as refusal:
                return f"it is behind its base, and the forge refused to update it: {refusal}"
        owed = await self.git_sync.merge_base_into(pull)
        return owed or f"it was brought up to date with {pull.base}, and is checked anew"
