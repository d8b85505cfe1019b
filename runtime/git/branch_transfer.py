"""Takes the branches and saved work of agents from one clone to another.

Owns which refs belong to an agent, and the git bundle that brings their commits. It must not move
a branch that is checked out, nor one that has commits which the other clone does not know.
"""

from __future__ import annotations

import os
from collections import defaultdict
from typing import TYPE_CHECKING

from runtime.errors import BranchError
from runtime.git.git import SLOW, Git
from runtime.git.ownership import BASE_REFS, BRANCH_REFS, SAVED_REFS, STATE_FOLDER
from runtime.git.porcelain import SHA

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

_KINDS = (BRANCH_REFS, BASE_REFS, SAVED_REFS)


class BranchTransfer:
    """The refs of agents in one clone."""

    def __init__(self, repo: Path, *, git: Git | None = None) -> None:
        self._repo = repo
        self._git = git or Git(home=repo / STATE_FOLDER / "git")

    async def refs(self) -> dict[str, dict[str, str]]:
        """Return each agent's branch, where that began and its saved work: the commit of each."""
        listed = await self._git.run(
            *("for-each-ref", "--format=%(refname) %(objectname)", *_KINDS), cwd=self._repo
        )
        found = defaultdict[str, dict[str, str]](dict)
        for line in listed.text.splitlines():
            ref, commit = line.split(" ")
            kind = next(each for each in _KINDS if ref.startswith(each))
            found[ref.removeprefix(kind).partition("/")[0]][ref] = commit
        return dict(found)

    async def checked_out(self, agent_id: str) -> str:
        """Return the folder where the agent's branch is checked out; empty if nowhere."""
        asked = ("for-each-ref", "--format=%(worktreepath)", BRANCH_REFS + agent_id)
        return (await self._git.run(*asked, cwd=self._repo)).text.strip()

    async def pack(self, refs: Collection[str], file: Path) -> bool:
        """Write the commits of these refs that no remote was seen to have; False if none."""
        if not refs:
            return False
        asked = ("--stdin", "--not", "--remotes")
        names = "".join(f"{ref}\n" for ref in refs).encode()
        counted = await self._git.run(
            "rev-list", "--count", *asked, cwd=self._repo, input=names, timeout=SLOW
        )
        if counted.text.strip() == "0":
            return False
        await self._git.run(
            *("bundle", "create", "--quiet", str(file), *asked),
            cwd=self._repo, input=names, timeout=SLOW,
        )  # fmt: skip
        os.chmod(file, 0o600)  # noqa: PTH101  # no path is resolved
        return True

    async def brings(self, file: Path) -> frozenset[str]:
        """Return the commits that a bundle brings; BranchError if this clone cannot take it."""
        checked = await self._git.run(
            "bundle", "verify", "--quiet", str(file), cwd=self._repo, check=False, timeout=SLOW
        )
        if checked.code != 0:
            raise BranchError(
                f"{file} cannot be used here ({' '.join(checked.stderr.split())}): run `git fetch` "
                "here, so that what its commits build on is there; or export once more"
            )
        heads = await self._git.run("bundle", "list-heads", str(file), cwd=self._repo)
        return frozenset(line.split(" ")[0] for line in heads.text.splitlines())

    async def unpack(self, file: Path) -> None:
        """Bring the commits of a bundle into the repository; no ref changes."""
        await self._git.run("bundle", "unbundle", str(file), cwd=self._repo, timeout=SLOW)

    async def lacking(self, commits: Collection[str]) -> frozenset[str]:
        """Return those that are not in the repository."""
        known = [commit for commit in commits if SHA.fullmatch(commit)]
        lines = "".join(f"{commit}\n" for commit in known).encode()
        found = await self._git.run("cat-file", "--batch-check", cwd=self._repo, input=lines)
        there = {line.split(" ")[0] for line in found.text.splitlines() if " commit " in line}
        return frozenset(commits) - there

    async def holds(self, commit: str, other: str) -> bool:
        """Tell whether a commit is the other one or builds on it."""
        asked = ("merge-base", "--is-ancestor", other, commit)
        return (await self._git.run(*asked, cwd=self._repo, check=False)).code == 0

    async def place(self, changes: Mapping[str, tuple[str, str]]) -> None:
        """Set refs, each from what it was (empty: none) to what it is to be: all or none."""
        if not changes:
            return
        lines = "".join(_order(ref, *change) for ref, change in changes.items())
        await self._git.run("update-ref", "--stdin", cwd=self._repo, input=lines.encode())


def _order(ref: str, old: str, new: str) -> str:
    if not old:
        return f"create {ref} {new}\n"
    return f"update {ref} {new} {old}\n" if new else f"delete {ref} {old}\n"
