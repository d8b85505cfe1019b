"""Repositories inside a workspace, of which its own commits hold no more than the id of a commit.

Owns the question whether that commit outlives the workspace. It changes nothing, follows no link
out of the workspace, and starts git only for links that it is asked about.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.errors import GitError, RepositoryError
from runtime.gitview import locate, pinned, read_small
from runtime.tree import SHA, Link

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runtime.git import Git
    from runtime.gitview import Place
    from runtime.status import Checkout

_MODE_OF_LINK = b"\0\0\xe0\0"
_FETCHED = 64
"""Commits of one fetch that are looked at: the names of a whole fetch are no command line."""


def may_have_links(index: Path) -> bool:
    """Tell whether an index may name such repositories; only ever wrong in saying so."""
    try:
        return _MODE_OF_LINK in index.read_bytes()
    except OSError:
        return True


async def loose_links(git: Git, checkout: Checkout, links: Iterable[Link]) -> tuple[Link, ...]:
    """Return those of the links whose files would be gone with the workspace."""
    return tuple([link for link in links if await _is_loose(git, checkout, link)])


async def _is_loose(git: Git, checkout: Checkout, link: Link) -> bool:
    folder = checkout.folder / link.name
    place = _place_of(checkout, folder, link)
    commit = link.commit
    if place is None and not has_files(folder):
        return False
    if place is not None:
        if not _is_inside(place, checkout):
            return False
        try:
            unpushed = await _unpushed(git, place, link.commit)
        except (GitError, RepositoryError):  # it cannot say, so that it is kept is not known
            unpushed = link.commit
        if not unpushed and _is_submodule(checkout, link):
            return False
        commit = unpushed or link.commit
    asked = ("cat-file", "-e", f"{commit}^{{commit}}")
    kept = await git.run(*asked, cwd=checkout.folder, env=checkout.env, check=False)
    return kept.code != 0


def _place_of(checkout: Checkout, folder: Path, link: Link) -> Place | None:
    """Find the repository by its folder, else where git keeps one that is not checked out."""
    if has_files(folder):
        place = locate(folder)
        return place if place is not None and place.root == folder else None
    module = checkout.git_dir / "modules" / link.name
    there = _is_worktree(checkout) and (module / "HEAD").is_file()
    return pinned(module, None) if there else None


def _is_worktree(checkout: Checkout) -> bool:
    """Tell whether its git folder is its own and goes with it, as long as it is registered."""
    return pinned(checkout.git_dir, None).common_dir != checkout.git_dir


def _is_submodule(checkout: Checkout, link: Link) -> bool:
    """Tell whether it is written down where its commits can be had again."""
    told = read_small(checkout.folder / ".gitmodules") or b""
    name = re.escape(os.fsencode(link.name))
    return re.search(rb'^\s*path\s*=\s*"?' + name + rb'"?\s*$', told, re.MULTILINE) is not None


def has_files(folder: Path) -> bool:
    """Tell whether something is in this folder; what is behind a link is not in it."""
    if os.path.realpath(folder) != str(folder):
        return False
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is not None
    except OSError:
        return False


def _is_inside(place: Place, checkout: Checkout) -> bool:
    """Tell whether its objects go with the workspace: they are in it, or in its git folder."""
    where = Path(os.path.realpath(place.common_dir))
    going = [checkout.folder, *([checkout.git_dir] if _is_worktree(checkout) else [])]
    return any(where.is_relative_to(os.path.realpath(each)) for each in going)


async def _unpushed(git: Git, place: Place, commit: str) -> str:
    """Return the newest commit that no other repository is known to have; empty if all have."""
    env = {"GIT_DIR": str(place.git_dir)}
    fetched = [f"^{sha}" for sha in _fetched(place)]
    asked = ("rev-list", "--max-count=1", "--ignore-missing", "HEAD", commit)
    told = await git.run(*asked, *fetched, "--not", "--remotes", cwd=place.git_dir, env=env)
    return told.text


def _fetched(place: Place) -> list[str]:
    """Return what came by the last fetch: a pinned commit may be on no branch of its remote."""
    lines = (read_small(place.git_dir / "FETCH_HEAD") or b"").decode(errors="replace").splitlines()
    return [word for line in lines[:_FETCHED] if SHA.fullmatch(word := line.partition("\t")[0])]
