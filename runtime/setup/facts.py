"""What git says about commits and folders to set up.

The only module here that runs git. It must not change anything.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from runtime.errors import WorkspaceError
from runtime.git.git import SLOW, Git, pinned_env
from runtime.git.ownership import OWN_FILES_OUT, STATE_FOLDER, registration
from runtime.git.porcelain import names_in
from runtime.git.safe_view import locate
from runtime.setup.copies import INSTALLED, included, only_files
from runtime.setup.globs import INCLUDE_FILE
from runtime.setup.inputs import LIST_TREE, Tree, parse_tree

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

REMEMBERED = 16
_LINK = b"120000 "
"""How git lists a link."""
MANY = 200
"""A folder with more files is named as one; of others each file is named."""


class GitSetupFacts:
    """Answers for one repository."""

    def __init__(self, repo: Path, git: Git | None = None) -> None:
        self._repo = repo.resolve()
        self._git = git or Git(home=self._repo / STATE_FOLDER / "git")
        self._trees: dict[str, Tree] = {}

    async def tree(self, commit: str) -> Tree:
        """Return the files of a commit; cached."""
        found = self._trees.get(commit)
        if found is None:
            listed = await self._git.run(*LIST_TREE, commit, cwd=self._repo, timeout=SLOW)
            found = self._trees[commit] = parse_tree(commit, listed.stdout)
            if len(self._trees) > REMEMBERED:
                del self._trees[next(iter(self._trees))]
        return found

    async def shared(self, commit: str, other: str) -> str | None:
        """Return the merge base of two commits; None without one."""
        asked = ("merge-base", "--end-of-options", commit, other)
        found = await self._git.run(*asked, cwd=self._repo, check=False)
        return found.text or None

    async def included(self) -> tuple[str, ...]:
        """Return the uncommitted files that INCLUDE_FILE of the user's checkout names."""
        if not (self._repo / INCLUDE_FILE).is_file():
            return ()
        listed = await self._git.run(
            "ls-files", "--others", "--ignored", f"--exclude-from={INCLUDE_FILE}", "-z",
            "--", ".", *OWN_FILES_OUT,
            cwd=self._repo, timeout=SLOW,
        )  # fmt: skip
        return tuple(only_files(self._repo, included(listed.stdout)))

    async def links(self) -> frozenset[str]:
        """Return the links in the user's checkout that git tracks."""
        listed = await self._git.run("ls-files", "--stage", "-z", cwd=self._repo, timeout=SLOW)
        entries = (entry for entry in listed.stdout.split(b"\0") if entry.startswith(_LINK))
        return frozenset(os.fsdecode(entry.partition(b"\t")[2]) for entry in entries)

    async def others(self, folder: Path) -> frozenset[str]:
        """Return the untracked paths of a workspace, ignored or not; folders end in /."""
        git_dir = self._git_dir(folder)
        if git_dir is None:
            raise WorkspaceError(f"{folder} is no longer a workspace of {self._repo}")
        listed = await self._git.run(
            "ls-files", "--others", "--directory", "-z", "--", ".", *OWN_FILES_OUT,
            cwd=folder, env=pinned_env(git_dir, folder), timeout=SLOW,
        )  # fmt: skip
        return frozenset(names_in(listed.stdout))

    def _git_dir(self, folder: Path) -> Path | None:
        """Return the git folder of a workspace, whatever its `.git` says."""
        place = locate(self._repo)
        return None if place is None else registration(place.common_dir.resolve(), folder)


def name_made(folder: Path, made: Iterable[str]) -> tuple[str, ...]:
    """Name what a set-up made in a workspace.

    Files that an agent adds next to a few made files are its work, so these are named one by one;
    a folder full of packages is named as one.
    """
    names: list[str] = []
    for name in sorted(made):
        packages = not INSTALLED.isdisjoint(name.split("/"))
        names += (name,) if packages or not name.endswith("/") else _few(folder, name)
    return tuple(names)


def _few(folder: Path, name: str) -> tuple[str, ...]:
    found: list[str] = []
    top = folder / name
    for at, _, files in os.walk(top):
        found += map(partial(os.path.join, os.path.relpath(at, folder)), files)
        if len(found) > MANY:
            return (name,)
    return tuple(sorted(found))
