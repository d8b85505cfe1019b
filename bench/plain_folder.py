"""Workspaces without git, to measure what git costs: a folder for each agent.

They have the interface of a workspace and none of its safety: no branch, no commit, nothing saved
or removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.git.porcelain import TreeStatus
from runtime.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from runtime.git.porcelain import ChangedFile, GitCommit
    from runtime.workspaces.begun_merge import BegunMerge
    from runtime.workspaces.rebuild import Rebuilt
    from runtime.workspaces.saved_work import SavedCommit

_UNKNOWN = TreeStatus(head="", branch="", changed=(), untracked=(), fingerprint="")


class FolderWorkspaces:
    """Replaces `WorkspaceManager` where there is no repository."""

    def __init__(self, root: Path) -> None:
        self._root = root

    async def prepare(self, agent_id: str, *, base: str | None = None) -> Workspace:
        """Make the agent's own folder, so that each has its own communications.json."""
        del base
        folder = self._root / "folders" / agent_id
        folder.mkdir(parents=True, exist_ok=True)
        return Workspace(agent_id, folder, branch="", base_commit="", base_branch=None)

    async def open(self, agent_id: str) -> Workspace:
        """Return the folder."""
        return await self.prepare(agent_id)

    async def is_whole(self, workspace: Workspace) -> bool:
        """Tell whether the folder exists; nothing else can be wrong with it."""
        return workspace.path.is_dir()

    async def status(self, workspace: Workspace) -> TreeStatus:
        """Return an empty status."""
        del workspace
        return _UNKNOWN

    async def begin_merge(self, workspace: Workspace, commit: str) -> BegunMerge | None:
        """Return None: without git there is nothing to merge."""
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
    ) -> tuple[GitCommit, ...]:
        """Return nothing: there are no commits."""
        del workspace, limit, head
        return ()

    async def changed_files(
        self, workspace: Workspace, *, head: str | None = None, bases: Sequence[str] = ()
    ) -> tuple[ChangedFile, ...]:
        """Return nothing: there is nothing to compare with."""
        del workspace, head, bases
        return ()

    async def loose(
        self, workspace: Workspace, files: Sequence[ChangedFile]
    ) -> tuple[ChangedFile, ...]:
        """Return nothing: the folder stays, and all that is in it."""
        del workspace, files
        return ()

    async def save_dirty(
        self, workspace: Workspace, attempt: int, *, reason: str
    ) -> SavedCommit | None:
        """Save nothing: the files stay where they are."""
        del workspace, attempt, reason
        return None

    async def rebuild(self, agent_id: str, attempt: int) -> Rebuilt | None:
        """Return None: without git there is nothing to repair."""
        del agent_id, attempt
        return None

    async def strip(self, workspace: Workspace, commit: str) -> bool:
        """Remove nothing: the folder is the user's."""
        del workspace, commit
        return False

    async def remove(self, agent_id: str, *, drop_branch: bool, attempt: int) -> SavedCommit | None:
        """Remove nothing: the folder is the user's."""
        del agent_id, drop_branch, attempt
        return None
