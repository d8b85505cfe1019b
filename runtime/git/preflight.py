"""Checks before a git command: files that would block git or redirect its writes.

Looks at a few files by name, neither into files nor into deeper folders. It must not start a
process nor repair anything.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from runtime.errors import GitError
from runtime.git.safe_view import read_small

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from runtime.git.safe_view import RepositoryLocation

_OF_THE_CHECKOUT = (".gitignore", ".gitattributes")
OF_THE_WORKTREE = ("HEAD", "index", "gitdir", "info/sparse-checkout", "logs/HEAD")
_OF_THE_REPOSITORY = (
    "packed-refs", "shallow", "objects/info/alternates",
)  # fmt: skip
_RULES = frozenset({".gitignore", ".gitattributes", ".gitmodules"})
"""Files that git reads in any folder of a checkout."""
_WRITING = frozenset({
    "add", "commit", "commit-tree", "fetch", "hash-object", "merge", "merge-tree", "mktree",
    "update-index", "write-tree",
})  # fmt: skip
_FAN_OUT = 2
"""Letters in the name of a folder of objects."""
_PACKS = "pack"
"""Where packs of objects are written."""
HOLDS_UP = (
    "{file} is not a regular file, and git would block on it forever: remove it, and find out who "
    "created it"
)
LEADS_AWAY = (
    "{link} is a symbolic link, so git would write objects of this repository elsewhere: remove "
    "it, and find out who created it"
)


def require_passable(place: RepositoryLocation) -> None:
    """Raise GitError if git would block on a file that it reads here."""
    for file in _read_by_git(place):
        try:
            mode = os.stat(file).st_mode  # noqa: PTH116  # on the way of every git command
        except OSError:
            continue
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise GitError(HOLDS_UP.format(file=file))


def holding_up(place: RepositoryLocation) -> list[str]:
    """Find pipes in deeper folders that may block git."""
    return list(endless(_further_down(place)))


def endless(files: Iterable[str]) -> Iterator[str]:
    """Return those that are not files, folders or links: reading one may never end."""
    for file in files:
        try:
            mode = os.stat(file, follow_symlinks=False).st_mode  # noqa: PTH116  # of thousands
        except OSError:
            continue
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
            yield file


def _further_down(place: RepositoryLocation) -> Iterator[str]:
    for name in ("refs", "logs"):
        for at, _, files in os.walk(f"{place.common_dir}/{name}"):
            yield from (f"{at}/{file}" for file in files)
    if place.root is not None:
        yield from rules_in(place.root)


def rules_in(folder: Path) -> Iterator[str]:
    """Find the files that git reads anywhere in a checkout."""
    for at, _, files in os.walk(folder):
        yield from (f"{at}/{file}" for file in _RULES.intersection(files))


def require_own_objects(place: RepositoryLocation, command: str) -> None:
    """Raise GitError if a command that writes objects would write through a link."""
    if command not in _WRITING:
        return
    try:
        with os.scandir(place.common_dir / "objects") as entries:
            links = [
                each.path
                for each in entries
                if (len(each.name) == _FAN_OUT or (command == "fetch" and each.name == _PACKS))
                and each.is_symlink()
            ]
    except OSError:
        return  # git says it better
    if links:
        raise GitError(LEADS_AWAY.format(link=min(links)))


def _read_by_git(place: RepositoryLocation) -> Iterator[str]:
    if place.root is not None:
        yield from (f"{place.root}/{name}" for name in _OF_THE_CHECKOUT)
    yield from (f"{place.git_dir}/{name}" for name in OF_THE_WORKTREE)
    yield from (f"{place.common_dir}/{name}" for name in _OF_THE_REPOSITORY)
    head = read_small(f"{place.git_dir}/HEAD") or b""
    if head.startswith(b"ref: refs/") and b"\0" not in head:
        ref = os.fsdecode(head[5:].strip())
        yield f"{place.common_dir}/{ref}"
        yield f"{place.common_dir}/logs/{ref}"
