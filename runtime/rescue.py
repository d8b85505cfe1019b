"""Saves all that would be lost with the folder of a workspace, or refuses to lose it.

Owns which rules tell an agent's files from what was ignored before it came. Removes nothing.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from runtime import ownership
from runtime.errors import GitError, WorkspaceError
from runtime.gitview import pinned
from runtime.ignoring import rules_of, user_rules
from runtime.ownership import SAVED_REFS
from runtime.rawsaving import RawSaver
from runtime.saving import SavedWork, Saver, keep_work, save_work, saved_message
from runtime.setup.made import made_in
from runtime.status import Checkout, head_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runtime.git import Git
    from runtime.worktrees import Found, Worktrees

RULES_REMEMBERED = 64


class Rescue:
    """Saves the work of one repository's workspaces."""

    def __init__(
        self, git: Git, trees: Worktrees, state: Path, save_limit: Callable[[], int]
    ) -> None:
        self._git = git
        self._trees = trees
        self._state = state
        self._save_limit = save_limit
        self._ignored: dict[tuple[str, str], bytes] = {}

    async def with_rules(self, agent_id: str, base: str, checkout: Checkout) -> Checkout:
        """Tell a checkout which ignore rules were there before the agent."""
        record = ownership.read_record(checkout.folder.parent, agent_id)
        exclude = record.exclude if record is not None else None
        if exclude is None:  # made by an earlier version
            exclude = ownership.excluded(await self._trees.common_dir())
        key = base, exclude
        if key not in self._ignored:
            view = await self._git.view(pinned(checkout.git_dir, checkout.folder))
            others = (user_rules(view.ignores, os.environ), os.fsencode(exclude))
            rules = await rules_of(
                self._git, base, cwd=checkout.folder, env=checkout.env, others=others
            )
            while len(self._ignored) >= RULES_REMEMBERED:
                self._ignored.pop(next(iter(self._ignored)))
            self._ignored[key] = rules
        made = made_in(self._state / "setup" / agent_id)
        return replace(checkout, ignored=self._ignored[key], made=made)

    async def keep(
        self, agent_id: str, checkout: Checkout, name: str, reason: str, *, for_good: bool = False
    ) -> SavedWork | None:
        """Save what is uncommitted; before it goes for good, whatever git makes of the files."""
        limit = self._save_limit()
        try:
            return await keep_work(
                self._git, checkout, agent_id, name, reason, for_good=for_good, limit=limit
            )
        except GitError as error:
            if error.code is None or not for_good:
                raise
            head = await head_of(self._git, checkout)
            saver = RawSaver(self._git, checkout, for_good=for_good, limit=limit)
            return await self._by(saver, agent_id, head, name, reason)

    async def all_of(self, found: Found, name: str, reason: str) -> SavedWork | None:
        """Save all that would be lost with the folder; WorkspaceError where that cannot be."""
        if found.half_made or not found.path.is_dir():
            return None
        if found.checkout is None:
            checkout = Checkout(await self._trees.common_dir(), found.path)
            saver = Saver(self._git, checkout, for_good=True, limit=self._save_limit())
            head = found.head or found.base_commit or ""
            saved = await self._by(saver, found.agent_id, head, name, reason)
        else:
            ownership.straighten(found.checkout.git_dir)
            base = found.base_commit or ""
            checkout = await self.with_rules(found.agent_id, base, found.checkout)
            saved = await self.keep(found.agent_id, checkout, name, reason, for_good=True)
        if saved and saved.problems:
            raise WorkspaceError(
                f"{found.path} was not removed, because not all of it could be saved: "
                f"{saved.problems}Make these files readable, move them away or remove them, and "
                f"try again (the rest is in {saved.ref})"
            )
        return saved

    async def as_they_are(
        self, found: Found, head: str, name: str, reason: str
    ) -> SavedWork | None:
        """Save how the files differ from a commit, whatever git can read of the checkout."""
        base = found.base_commit or head
        checkout = Checkout(await self._trees.common_dir(), found.path)
        checkout = await self.with_rules(found.agent_id, base, checkout)
        saver = RawSaver(self._git, checkout, for_good=True, limit=self._save_limit())
        return await self._by(saver, found.agent_id, head, name, reason)

    @staticmethod
    async def _by(
        saver: Saver, agent_id: str, head: str, name: str, reason: str
    ) -> SavedWork | None:
        ref = f"{SAVED_REFS}{agent_id}/{name}"
        message = saved_message(agent_id, name, reason)
        return await save_work(saver, head=head, ref=ref, message=message)
