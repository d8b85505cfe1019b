"""Where the workspace of an agent is: found by git's list of worktrees and by a marker file in it.

Owns that search, also after the repository was moved or copied, or the setting changed. What a copy
of a repository inherited from its original is dropped there and never touched in the original.
It must not touch the content of a workspace, nor start a process.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from runtime.git.ownership import (
    STATE_FOLDER,
    checkout_of,
    checkouts_named,
    points_to,
    read_record,
    register_at,
)
from runtime.git.safe_view import is_same, locate, read_small
from runtime.workspaces import worktrees_dir

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runtime.git.ownership import Record

MARK = "loopwright"
"""The file in the git folder of a workspace with the checkout whose agent works there."""
EARLIER = "worktrees"
"""Where earlier versions had the workspaces, below the state folder."""


class WorkspaceLocation(NamedTuple):
    """Where the workspace of one agent is, or is to be."""

    folder: Path
    git_dir: Path | None
    """Its own git folder, if it is registered."""
    record: Record | None
    stale: tuple[tuple[Path, Path], ...] = ()
    """Registrations inherited from another repository, or whose folder is gone: folder, git folder.

    To be removed before a new one is made."""


class WorkspaceLocations:
    """The workspaces of one checkout: its own folder for them, and other places they may be in."""

    def __init__(self, repo: Path, root: Path) -> None:
        self._repo = repo
        self.root = root
        earlier = (repo / STATE_FOLDER / EARLIER).resolve()
        self.roots = tuple(dict.fromkeys((root, earlier)))

    def find(self, common: Path, agent_id: str) -> WorkspaceLocation:
        """Return where the agent's workspace is, or where it belongs if there is none yet."""
        wanted = [root / agent_id for root in self.roots]
        beside = list(self.roots)
        stale: list[tuple[Path, Path]] = []
        for folder, git_dir in checkouts_named(common, agent_id, first=wanted):
            if folder in wanted:
                return self._location(folder, git_dir, (folder.parent, *beside))
            if not self._is_ours(folder, git_dir, common):
                continue
            beside.append(folder.parent)
            if (along := self._moved_along(wanted)) is not None:
                register_at(git_dir, along)
                return self._location(along, git_dir, (along.parent, *beside))
            if not os.path.lexists(folder) or belongs_elsewhere(folder, git_dir):
                stale.append((folder, git_dir))
                continue
            mark(git_dir, self._repo)
            worktrees_dir.share(folder.parent, self._repo)
            return self._location(folder, git_dir, (folder.parent, *beside))
        left = next((each for each in wanted if os.path.lexists(each)), wanted[0])
        return self._location(left, None, (left.parent, *beside))._replace(stale=tuple(stale))

    def without_link(self, common: Path, agent_id: str) -> tuple[str, ...]:
        """Move a workspace back that was replaced by a link to it; remove any other link."""
        notes = []
        for link in (root / agent_id for root in self.roots):
            if not link.is_symlink():
                continue
            there = Path(os.path.realpath(link))
            link.unlink()
            moved = points_to(there, common / "worktrees" / agent_id)
            if moved and there.parent == link.parent and not there.is_symlink():
                there.rename(link)
                notes.append(f"{link} had been moved to {there} and was moved back")
            else:
                notes.append(f"{link} was a link to {there}; only the link was removed")
        return tuple(notes)

    def set_aside(self, folder: Path) -> Path | None:
        """Move away a workspace left by an earlier repository; None if it is something else."""
        if folder.parent not in self.roots or not _leads_nowhere(folder):
            return None
        return self.put_aside(folder)

    def put_aside(self, folder: Path) -> Path:
        """Move a workspace away with all its content; return the new place."""
        there = folder.parent / worktrees_dir.SET_ASIDE
        there.mkdir(mode=0o700, exist_ok=True)
        number = len(list(there.glob(f"{folder.name}-*"))) + 1
        return folder.rename(there / f"{folder.name}-{number}")

    def _location(
        self, folder: Path, git_dir: Path | None, beside: Iterable[Path]
    ) -> WorkspaceLocation:
        known = (read_record(root, folder.name) for root in dict.fromkeys(beside))
        return WorkspaceLocation(folder, git_dir, next(filter(None, known), None))

    def _is_ours(self, folder: Path, git_dir: Path, common: Path) -> bool:
        """Tell whether this checkout made it, or the one that it was moved or copied from."""
        owner = owner_of(folder, git_dir)
        if owner is None:
            return False
        if is_same(str(owner), self._repo):
            return True
        place = locate(owner) if worktrees_dir.is_repository(owner) else None
        return place is None or place.root != owner or not is_same(str(place.common_dir), common)

    def _moved_along(self, wanted: Iterable[Path]) -> Path | None:
        """Return the folder inside the repository itself, which moved together with it."""
        return next(
            (
                folder
                for folder in wanted
                if folder.is_relative_to(self._repo) and (folder / ".git").is_file()
            ),
            None,
        )


def mark(git_dir: Path, repo: Path) -> None:
    """Record whose agent works in the workspace with this git folder."""
    file = git_dir / MARK
    if read_small(file) != os.fsencode(repo) + b"\n":
        file.unlink(missing_ok=True)
        file.write_bytes(os.fsencode(repo) + b"\n")


def owner_of(folder: Path, git_dir: Path) -> Path | None:
    """Return the checkout whose agent works in a worktree; None for one that a person made."""
    said = read_small(git_dir / MARK)
    if said and said.startswith(b"/"):
        return Path(os.fsdecode(said.removesuffix(b"\n")))
    earlier = folder.parts[-3:-1] == (STATE_FOLDER, EARLIER)
    return folder.parents[2] if earlier else None


def user_checkout(folder: Path) -> Path | None:
    """Return the checkout of the user for whom an agent works in a workspace; None elsewhere."""
    place = locate(folder)
    if place is None or place.root is None or place.git_dir == place.common_dir:
        return None
    owner = owner_of(place.root, place.git_dir)
    if owner is None:
        return None
    there = locate(owner) if worktrees_dir.is_repository(owner) else None
    if there is not None and is_same(str(there.common_dir), place.common_dir):
        return owner
    return place.common_dir.parent if place.common_dir.name == ".git" else None


def belongs_elsewhere(folder: Path, git_dir: Path) -> bool:
    """Tell whether a workspace belongs to another existing repository that has registered it."""
    there = _led_to(folder)
    return there is not None and not is_same(str(there), git_dir) and checkout_of(there) == folder


def repository_of(folder: Path) -> Path | None:
    """Return the repository that has this folder registered as a worktree, if any."""
    there = _led_to(folder)
    if there is None or checkout_of(there) != folder:
        return None
    common = Path(os.path.realpath(there)).parents[1]
    return common.parent if common.name == ".git" else common


def _leads_nowhere(folder: Path) -> bool:
    there = _led_to(folder)
    return there is not None and checkout_of(there) != folder


def _led_to(folder: Path) -> Path | None:
    """Return the git folder that the workspace itself points to, existing or not."""
    pointer = f"{folder}/.git"
    said = None if os.path.islink(pointer) else read_small(pointer)  # noqa: PTH114  # as text
    if said is None or not said.startswith(b"gitdir: ") or b"\0" in said:
        return None
    return folder / os.fsdecode(said.removeprefix(b"gitdir: ").rstrip(b"\n"))
