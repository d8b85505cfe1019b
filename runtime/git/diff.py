"""The difference between two commits, as git tells it.

Owns the questions to git. It must not change the repository, use a checkout, nor decide what a
reader is shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.git.diff_parsing import FileChange, parse_files, with_hunks
from runtime.git.git import SLOW

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path

    from runtime.git.git import Git

_LITERAL = {"GIT_LITERAL_PATHSPECS": "1"}
"""A file may be called `*` or `:(top)`."""
_COMPARED = ("-r", "-M", "--no-abbrev", "--no-color")


class CommitDiff:
    """Compares commits of one repository."""

    def __init__(self, repo: Path, git: Git) -> None:
        self._repo = repo
        self._git = git

    async def files(self, old: str, new: str) -> tuple[FileChange, ...]:
        """Return the files that differ, by path and without their lines."""
        asked = ("diff-tree", *_COMPARED, "-z", "--raw", "--numstat", old, new)
        listed = await self._git.run(*asked, cwd=self._repo, timeout=SLOW)
        return parse_files(listed.stdout)

    async def hunks(  # the last by name
        self,
        old: str,
        new: str,
        files: Sequence[FileChange],
        *,
        words: bool = False,
        cleaned: Callable[[bytes], bytes] = bytes,
    ) -> tuple[FileChange, ...]:
        """Return these files, as `files` listed them, with their lines.

        `cleaned` takes out of git's text what nobody may read.
        """
        if not files:
            return ()
        names = dict.fromkeys(name for file in files for name in (file.old_name, file.name) if name)
        how = ("--word-diff=porcelain",) if words else ()
        asked = ("diff-tree", *_COMPARED, "--raw", "-p", *how, old, new, "--", *names)
        patch = await self._git.run(*asked, cwd=self._repo, env=_LITERAL, timeout=SLOW)
        return with_hunks(files, cleaned(patch.stdout), words=words)

    async def sizes(self, blobs: Collection[str]) -> Mapping[str, int]:
        """Return the size of each of these contents; of what is not there, nothing."""
        wanted = [blob for blob in dict.fromkeys(blobs) if blob.strip("0")]
        if not wanted:
            return {}
        told = await self._git.run(
            "cat-file", "--batch-check=%(objectname) %(objectsize)", cwd=self._repo,
            input="\n".join([*wanted, ""]).encode(),
        )  # fmt: skip
        rows = [line.split(" ") for line in told.text.splitlines()]
        return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}  # noqa: PLR2004  # id and size

    async def fork(self, one: str, other: str) -> tuple[str, ...]:
        """Return the newest commits that both have; none where they have nothing in common."""
        asked = ("merge-base", "--all", one, other)
        found = await self._git.run(*asked, cwd=self._repo, check=False)
        return tuple(found.text.split()) if found.code == 0 else ()

    async def taken_over(self, began: str, head: str, bases: Sequence[str]) -> tuple[str, ...]:
        """Return the newest commits that a work has from elsewhere.

        That is where it began, unless it merged a newer commit of one of these bases since. A base
        that has all of the work took that over, and not the other way round.
        """
        found = {began: None}
        for each in dict.fromkeys(bases):
            if each != began:
                found |= dict.fromkeys(fork for fork in await self.fork(each, head) if fork != head)
        return await self.independent([*found])

    async def independent(self, commits: Sequence[str]) -> tuple[str, ...]:
        """Return those commits that none of the others has among its ancestors."""
        if len(commits) < 2:  # noqa: PLR2004  # there is nothing to compare
            return tuple(commits)
        asked = ("merge-base", "--independent", *commits)
        return tuple((await self._git.run(*asked, cwd=self._repo)).text.split())
