"""The working trees of one repository, and which paths lead into them.

Reads git's list of worktrees and resolves links. It must not start git.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.git.safe_view import locate, read_small

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Trees:
    """Folders with files of the same repository: the user's, and those of all agents."""

    def __init__(self, users: Iterable[Path | str], others: Iterable[Path | str] = ()) -> None:
        self.users = tuple(dict.fromkeys(os.path.realpath(root) for root in users))
        """The user's own working trees."""
        self._others = tuple(
            dict.fromkeys(each for root in others if (each := os.path.realpath(root)) not in users)
        )
        self.roots = (*self.users, *self._others)

    @classmethod
    def of(cls, repo: Path, *more: Path) -> Trees:
        """Return all working trees of the repository; a plain folder is its own tree."""
        place = locate(repo)
        if place is None:
            return cls((repo,), more)
        common = place.common_dir
        main = (common.parent,) if common.name == ".git" else ()
        return cls((place.root or repo, *main), (*_worktrees(common), *more))

    def leads(self, path: str | Path, *, apart: Path | None = None) -> bool:
        """Tell whether a path, or its resolved form, is in one of them, except in `apart`.

        A separate clone inside of a user's tree belongs to another repository.
        """
        real = os.path.realpath(path)
        if apart is not None and is_below(real, os.path.realpath(apart)):
            return False
        plain = os.path.abspath(path)  # noqa: PTH100  # links kept on purpose
        ways = tuple(dict.fromkeys((real, plain)))
        if any(is_below(each, root) for root in self._others for each in ways):
            return True
        return any(
            is_below(each, root) and not _in_other_clone(each, root)
            for root in self.users
            for each in ways
        )

    def is_around(self, path: str | Path) -> bool:
        """Tell whether a tree of the user's is this folder or in it."""
        real = os.path.realpath(path)
        return any(is_below(root, real) for root in self.users)


def is_below(path: str, root: str) -> bool:
    """Tell whether a path is the folder or in it; both absolute and normalized."""
    return path == root or path.startswith(root.rstrip(os.sep) + os.sep)


def _worktrees(common: Path) -> Iterator[Path]:
    try:
        entries = sorted((common / "worktrees").iterdir())
    except OSError:
        return
    for entry in entries:
        pointer = os.fsdecode((read_small(entry / "gitdir") or b"").strip())
        if pointer.endswith("/.git"):
            yield Path(pointer).parent


def _in_other_clone(path: str, root: str) -> bool:
    folder = path
    while folder != root:
        if os.path.isdir(f"{folder}/.git"):  # noqa: PTH112  # asked of many paths
            return True
        folder = os.path.dirname(folder)  # noqa: PTH120  # as above
    return False
