"""Workspaces for a folder without git: the agent works in the folder itself. For library use.

It gives the shape of a workspace and nothing of its safety: no branch, no commit, nothing saved and
nothing removed. Two agents in one folder get in each other's way. It must not touch any file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.errors import WorkspaceError
from runtime.ownership import checked_id
from runtime.tree import TreeStatus
from runtime.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from runtime.begun import BegunMerge
    from runtime.rebuild import Rebuilt
    from runtime.saving import SavedWork
    from runtime.tree import ChangedFile, Commit

_UNKNOWN = TreeStatus(head="", branch="", changed=(), untracked=(), fingerprint="")


class FolderWorkspaces:
    """Takes the place of `WorkspaceManager` where there is no repository.

    Nothing is known of the files, so a completed task is believed without a clean tree, and a loop
    that changes nothing is not noticed. Verify commands run in the folder; with some of them, set
    `baseline = false`: there is no untouched code to try them on.
    """

    def __init__(self, repo: Path) -> None:
        self._repo = repo.resolve()

    async def prepare(self, agent_id: str, *, base: str | None = None) -> Workspace:
        """Return the folder; a base means nothing here. WorkspaceError when there is no folder."""
        del base
        workspace = await self.open(agent_id)
        if workspace is None:
            raise WorkspaceError(f"there is no folder {self.folder(agent_id)}: make it")
        return workspace

    async def open(self, agent_id: str) -> Workspace | None:
        """Return the folder if it is there."""
        folder = self.folder(checked_id(agent_id))
        if not folder.is_dir():
            return None
        return Workspace(agent_id, folder, branch="", base_commit="", base_branch=None)

    async def is_whole(self, workspace: Workspace) -> bool:
        """Tell whether the folder is there; nothing else can be wrong with it."""
        return workspace.path.is_dir()

    def folder(self, agent_id: str) -> Path:
        """Say where an agent works; override it to give each its own folder."""
        del agent_id
        return self._repo

    async def status(self, workspace: Workspace) -> TreeStatus:
        """Say that nothing is known and nothing uncommitted."""
        del workspace
        return _UNKNOWN

    async def begin_merge(self, workspace: Workspace, commit: str) -> BegunMerge | None:
        """Have nothing to merge: without git there are no branches."""
        del workspace, commit
        return None

    async def move_on(self, workspace: Workspace, commit: str, base: str) -> Workspace | None:
        """Move nothing: without git there is nothing to move."""
        del commit, base
        return workspace

    async def unlock(self, workspace: Workspace) -> None:
        """Remove nothing: there is no git whose locks could stay."""
        del workspace

    async def recent_commits(
        self, workspace: Workspace, limit: int = 10, *, head: str | None = None
    ) -> tuple[Commit, ...]:
        """Return nothing: there are no commits."""
        del workspace, limit, head
        return ()

    async def changed_files(
        self, workspace: Workspace, *, head: str | None = None
    ) -> tuple[ChangedFile, ...]:
        """Return nothing: there is nothing to compare with."""
        del workspace, head
        return ()

    async def loose(
        self, workspace: Workspace, files: Sequence[ChangedFile]
    ) -> tuple[ChangedFile, ...]:
        """Return nothing: the folder stays, and all that is in it."""
        del workspace, files
        return ()

    async def save_dirty(
        self, workspace: Workspace, attempt: int, *, reason: str
    ) -> SavedWork | None:
        """Save nothing: the files stay where they are."""
        del workspace, attempt, reason
        return None

    async def rebuild(self, agent_id: str, attempt: int) -> Rebuilt | None:
        """Have nothing to mend: without git nothing can be unreadable to it."""
        del agent_id, attempt
        return None

    async def strip(self, workspace: Workspace, commit: str) -> bool:
        """Take nothing out: the folder is the user's."""
        del workspace, commit
        return False

    async def remove(self, agent_id: str, *, drop_branch: bool, attempt: int) -> SavedWork | None:
        """Remove nothing: the folder is the user's."""
        del agent_id, drop_branch, attempt
        return None
