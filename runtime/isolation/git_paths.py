"""Which parts of a repository a git worktree needs, so that commits work and nothing else changes.

Reads small files and creates a few missing ones, empty. It must not start git, nor trust anything
in the workspace; it trusts the given repository.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.errors import IsolationError, PlantedPointerError
from runtime.git import ownership
from runtime.workspaces.locations import MARK

if TYPE_CHECKING:
    from pathlib import Path

_BRANCHES = ("refs/heads/agent", "logs/refs/heads/agent")
_POINTERS = ("commondir", "gitdir")
_SETTINGS = "config.worktree"
"""Every git outside obeys this file of the workspace, so an agent must not create it."""
_KEPT = ("objects/pack", "objects/info")
"""Packed objects and the list of object folders, which an agent must not change."""


@dataclass(frozen=True, slots=True)
class GitPaths:
    """The paths of a repository, by what a worktree may do with them."""

    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()


def git_paths(workspace: Path, common_dir: Path) -> GitPaths:
    """Find what the worktree at `workspace` needs of the repository with this git folder.

    Configuration, hooks, attributes, other branches and packed history can be read; other worktrees
    cannot be seen. PlantedPointerError when the workspace does not lead to its own registration.
    """
    common = common_dir.resolve()
    if (common / "reftable").exists():
        raise IsolationError(
            f"{common} keeps its refs in one table for all branches, so none can be made writable "
            "alone. Use level process, or convert it: `git refs migrate --ref-format=files`."
        )
    git_dir = _registration(workspace, common)
    for name in _BRANCHES:
        # Packing refs removes an empty folder; git inside could not create it again.
        (common / name).mkdir(parents=True, exist_ok=True)
    for name in (_SETTINGS, MARK):
        (git_dir / name).touch(mode=0o600)
    return GitPaths(
        readable=(
            common,
            workspace / ".git",
            *(path for name in _KEPT if (path := common / name).is_dir()),
            *(git_dir / name for name in (*_POINTERS, _SETTINGS, MARK)),
            *_borrowed(common / "objects"),
        ),
        writable=(
            common / "objects",
            *(common / name for name in _BRANCHES),
            git_dir,
        ),
        hidden=(common / "worktrees",),
    )


def readable_objects(objects: Path) -> tuple[Path, ...]:
    """Return these objects and those they borrow from, for reading."""
    return (objects, *_borrowed(objects))


def _borrowed(objects: Path) -> tuple[Path, ...]:
    """Find the object folders of other repositories that this one borrows from."""
    try:
        lines = (objects / "info" / "alternates").read_text().splitlines()
    except (OSError, ValueError):
        return ()
    return tuple(path for line in lines if line and (path := (objects / line).resolve()).is_dir())


def _registration(workspace: Path, common: Path) -> Path:
    """Return the git folder of the worktree, after checking that both point to each other."""
    git_dir = ownership.registration(common, workspace)
    if git_dir is None or not ownership.points_to(workspace, git_dir):
        raise PlantedPointerError(
            f"{workspace / '.git'} does not lead to the worktree that {common} has registered for "
            "it. Prepare the workspace again; its commits are on its branch."
        )
    try:
        strangers = [
            path
            for path in (git_dir, *(git_dir / name for name in _POINTERS))
            if path.is_symlink() or not path.exists()
        ]
        said = (git_dir / "commondir").read_text().strip()
    except (OSError, ValueError) as error:
        raise PlantedPointerError(
            f"{git_dir} cannot be read: {error}. Repair or remove it."
        ) from error
    if strangers or git_dir.parent != common / "worktrees" or (git_dir / said).resolve() != common:
        what = ", ".join(map(str, strangers)) or git_dir / "commondir"
        raise PlantedPointerError(
            f"{what} was not written by git for {workspace}. Remove the worktree and prepare it "
            "again; its commits are on its branch."
        )
    return git_dir
