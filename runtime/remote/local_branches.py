"""Branches here, as they follow those of a remote.

Must not lose a commit: what a branch leaves behind is kept under a saved ref.
"""

from __future__ import annotations

import os
from functools import partial

from runtime.branches import BranchManager
from runtime.errors import BranchError
from runtime.git.ownership import SAVED_REFS
from runtime.workspaces.status import Checkout

_CHANGED = b" M "
"""Of a file that was changed and not staged, in git's status."""
_HEADS, _AGENT = "refs/heads/", "agent/"
IN_USE = (
    "{branch} is checked out at {folder} with changes of its own, so it was not moved to {commit}, "
    "which was pushed: commit or stash these changes, or switch that checkout to another branch"
)


class LocalBranches(BranchManager):
    """Moves branches to what somebody else pushed."""

    async def forward(self, branch: str, sha: str) -> bool:
        """Fast-forward it to a commit; whether it contains the commit now."""
        async with self._merging:
            head = await self.head(branch)
            if head is None or not await self.commit_exists(sha):
                return False
            if await self._contains(head, sha):
                return True
            if not await self._contains(sha, head) or await self._is_dirty(branch):
                return False
            return not await self._advance(branch, head, sha)

    async def take(self, branch: str, commit: str) -> None:
        """Move it to a commit that is here, unless it is beyond that; BranchError if it cannot."""
        async with self._merging:
            head, ref = await self.head(branch), _HEADS + branch
            if head is None:
                await self._ask("update-ref", ref, commit, "0" * len(commit))
                return
            if await self._contains(head, commit):
                return
            forward, place = await self._contains(commit, head), self._checked_out_at(branch)
            if place is not None and (not forward or await self._is_dirty(branch)):
                raise BranchError(IN_USE.format(branch=branch, folder=place.root, commit=commit))
            if forward:
                if refusal := await self._advance(branch, head, commit):
                    raise BranchError(refusal)
                return
            kept = f"{SAVED_REFS}{branch.removeprefix(_AGENT)}/here-{head[:12]}"
            steps = f"update {kept} {head}\nupdate {ref} {commit} {head}\n"
            await self._git.run("update-ref", "--stdin", cwd=self._repo, input=steps.encode())

    async def holds(self, commit: str, other: str) -> bool:
        """Tell whether a commit has the other among its ancestors."""
        both = await self.commit_exists(commit) and await self.commit_exists(other)
        return both and await self._contains(commit, other)

    async def _is_dirty(self, branch: str) -> bool:
        """Tell whether its checkout has changes of the user's."""
        place = self._checked_out_at(branch)
        if place is None or place.root is None:
            return False
        asked = ("status", "--porcelain", "-z", "--no-renames", "--untracked-files=no")
        env = Checkout(place.git_dir, place.root).env
        told = (await self._git.run(*asked, cwd=place.root, env=env)).stdout.split(b"\0")[:-1]
        if not told or any(not line.startswith(_CHANGED) for line in told):
            return bool(told)
        names = [os.fsdecode(line.removeprefix(_CHANGED)) for line in told]
        head = await self.head(branch) or ""
        return not await self._own_edits.are_all(place.root, names, partial(self._content, head))
