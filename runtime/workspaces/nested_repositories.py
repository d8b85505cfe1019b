"""Repositories inside a workspace: its own commits hold only the id of one of their commits.

Owns the question whether that commit outlives the workspace. It must not change anything, nor
follow a link out of the workspace, and runs git only for links that it is asked about.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.errors import GitError, RepositoryError
from runtime.git.porcelain import SHA, Link
from runtime.git.safe_view import locate, pinned, read_small

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runtime.git.git import Git
    from runtime.git.safe_view import RepositoryLocation
    from runtime.workspaces.status import Checkout

_MODE_OF_LINK = b"\0\0\xe0\0"
_FETCHED = 64
"""Commits of one fetch that are considered: all of them would not fit a command line."""


def may_have_links(index: Path) -> bool:
    """Tell whether an index may name such repositories; False is certain."""
    try:
        return _MODE_OF_LINK in index.read_bytes()
    except OSError:
        return True


async def loose_links(git: Git, checkout: Checkout, links: Iterable[Link]) -> tuple[Link, ...]:
    """Return those of the links whose commits would be lost with the workspace."""
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
        except (GitError, RepositoryError):  # unknown, so it counts as not pushed
            unpushed = link.commit
        if not unpushed and _is_submodule(checkout, link):
            return False
        commit = unpushed or link.commit
    asked = ("cat-file", "-e", f"{commit}^{{commit}}")
    kept = await git.run(*asked, cwd=checkout.folder, env=checkout.env, check=False)
    return kept.code != 0


def _place_of(checkout: Checkout, folder: Path, link: Link) -> RepositoryLocation | None:
    """Find the repository in its folder, else among those git keeps without a checkout."""
    if has_files(folder):
        place = locate(folder)
        return place if place is not None and place.root == folder else None
    module = checkout.git_dir / "modules" / link.name
    there = _is_worktree(checkout) and (module / "HEAD").is_file()
    return pinned(module, None) if there else None


def _is_worktree(checkout: Checkout) -> bool:
    """Tell whether the checkout is a worktree, whose git folder is removed with it."""
    return pinned(checkout.git_dir, None).common_dir != checkout.git_dir


def _is_submodule(checkout: Checkout, link: Link) -> bool:
    """Tell whether `.gitmodules` says where its commits can be fetched from."""
    told = read_small(checkout.folder / ".gitmodules") or b""
    name = re.escape(os.fsencode(link.name))
    return re.search(rb'^\s*path\s*=\s*"?' + name + rb'"?\s*$', told, re.MULTILINE) is not None


def has_files(folder: Path) -> bool:
    """Tell whether this folder holds anything; what is behind a link does not count."""
    if os.path.realpath(folder) != str(folder):
        return False
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is not None
    except OSError:
        return False


def _is_inside(place: RepositoryLocation, checkout: Checkout) -> bool:
    """Tell whether its objects are removed with the workspace: in it, or in its git folder."""
    where = Path(os.path.realpath(place.common_dir))
    going = [checkout.folder, *([checkout.git_dir] if _is_worktree(checkout) else [])]
    return any(where.is_relative_to(os.path.realpath(each)) for each in going)


async def _unpushed(git: Git, place: RepositoryLocation, commit: str) -> str:
    """Return the newest commit that is known in no other repository; empty if there is none."""
    env = {"GIT_DIR": str(place.git_dir)}
    fetched = [f"^{sha}" for sha in _fetched(place)]
    asked = ("rev-list", "--max-count=1", "--ignore-missing", "HEAD", commit)
    told = await git.run(*asked, *fetched, "--not", "--remotes", cwd=place.git_dir, env=env)
    return told.text


def _fetched(place: RepositoryLocation) -> list[str]:
    """Return the commits of the last fetch: a pinned commit may be on no remote branch."""
    lines = (read_small(place.git_dir / "FETCH_HEAD") or b"").decode(errors="replace").splitlines()
    return [word for line in lines[:_FETCHED] if SHA.fullmatch(word := line.partition("\t")[0])]
