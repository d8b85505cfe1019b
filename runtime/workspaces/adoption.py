"""Takes over a branch that another machine worked on: branch and workspace go to where it is there.

Owns which of the two counts where they differ. What is only here is saved under a ref before
anything here is changed. It must not connect to anything: the commits are here already.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.errors import WorkspaceError
from runtime.git import ownership
from runtime.git.ownership import BASE_REFS, BRANCH_REFS, SAVED_REFS, Record
from runtime.workspaces.status import head_of, status_of
from runtime.workspaces.worktrees import occupied, refuse_foreign

if TYPE_CHECKING:
    from pathlib import Path

    from runtime.git.git import Git
    from runtime.workspaces.workspace_saver import WorkspaceSaver
    from runtime.workspaces.worktrees import FoundWorktree, Worktrees

_REASON = "another machine worked on its branch"


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchLine:
    """An agent's branch, as it is where all machines look."""

    head: str
    base_commit: str
    """Where its own work begins."""
    base_branch: str | None
    """The branch that it goes into."""


class Adopter:
    """Takes over the branches of one repository's agents."""

    def __init__(self, git: Git, trees: Worktrees, saver: WorkspaceSaver) -> None:
        self._git = git
        self._trees = trees
        self._saver = saver

    async def adopt(
        self, agent_id: str, line: BranchLine, name: str, *, latest: bool
    ) -> tuple[str, ...]:
        """Bring branch and refs to where they are elsewhere; returns what was saved for that.

        The workspace stays if it is there already, or if `latest` and its branch is ahead of that:
        then this machine has the newest work. Else it is removed, to be made again.
        """
        found = await self._trees.find(agent_id)
        if found.base_commit is None:
            if found.head is None and not found.vacant:
                raise WorkspaceError(occupied(found.path))
            if found.head is None:
                await self._point(found, line)
            return ()  # a branch that is not ours is refused where the workspace is made
        refuse_foreign(found)
        if await self._stays(found, line, latest=latest):
            await self._trees.point(BASE_REFS + agent_id, line.base_commit)
            return ()
        notes = await self._saved(found, line, name)
        await self._trees.forget(found)
        await self._trees.take_down(found.path)
        await self._point(found, line)
        return notes

    async def _stays(self, found: FoundWorktree, line: BranchLine, *, latest: bool) -> bool:
        checkout = found.checkout
        if checkout is None or found.head is None or found.half_made:
            return False
        if latest:
            return await self._holds(found.head, line.head)
        if found.head != line.head:
            return False
        ownership.straighten(checkout.git_dir)
        base = found.base_commit or line.base_commit
        status = await status_of(
            self._git, await self._saver.with_rules(found.agent_id, base, checkout)
        )
        clean = not (status.dirty or status.hidden or status.unreadable)
        return clean and status.branch == found.branch

    async def _saved(self, found: FoundWorktree, line: BranchLine, name: str) -> tuple[str, ...]:
        notes: tuple[str, ...] = ()
        at = found.head
        if found.checkout is not None:
            at = await head_of(self._git, found.checkout) or at
        for commit in dict.fromkeys(filter(None, (found.head, at))):
            if not await self._holds(line.head, commit):
                ref = f"{SAVED_REFS}{found.agent_id}/head-{commit[:12]}"
                await self._trees.point(ref, commit)
                note = (
                    f"{found.branch} was at {commit[:12]} on this machine, which is not part of "
                    f"what it is elsewhere ({line.head[:12]}): that counts, ours is saved in {ref}"
                )
                notes += (note,)
        saved = await self._saver.all_of(found, name, _REASON)
        if saved is not None and saved.ref:
            notes += (f"what was not committed in {found.path} is saved in {saved.ref}",)
        return notes

    async def _point(self, found: FoundWorktree, line: BranchLine) -> None:
        """Set branch and base, and note that the workspace is still to be made."""
        record = Record(line.base_branch, ready=False)
        ownership.write_record(found.path.parent, found.agent_id, record)
        await self._trees.point(BASE_REFS + found.agent_id, line.base_commit)
        await self._trees.point(BRANCH_REFS + found.agent_id, line.head)

    async def _holds(self, commit: str, other: str) -> bool:
        asked = ("merge-base", "--is-ancestor", other, commit)
        return (await self._git.run(*asked, cwd=await self._repo(), check=False)).code == 0

    async def _repo(self) -> Path:
        here = await self._trees.here()
        return here.root or here.common_dir
