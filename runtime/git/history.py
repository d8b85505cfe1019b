"""The ancestry of commits, read from git without using any checkout.

Owns the queries, not what follows from the answers. It must not change the repository.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.git.ownership import BRANCH_REFS, SAVED_REFS
from runtime.git.porcelain import SHA

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

    from runtime.git.git import Git

HEAD_REF = "head"
"""Under the saved refs of an agent: where its branch was when it was removed."""


@dataclass(frozen=True, slots=True)
class Unmerged:
    """Commits that a branch does not contain, with the parents of each."""

    parents: Mapping[str, tuple[str, ...]]

    def reach(self, tip: str) -> frozenset[str]:
        """Return the unmerged commits that a merge of this one would bring in."""
        found: set[str] = set()
        ways = [tip]
        while ways:
            commit = ways.pop()
            if commit in self.parents and commit not in found:
                found.add(commit)
                ways += self.parents[commit]
        return frozenset(found)

    def line(self, tip: str, stop: Collection[str]) -> Iterator[str]:
        """Follow the first parents of a commit, within the unmerged commits."""
        while tip in self.parents and tip not in stop:
            yield tip
            tip = next(iter(self.parents[tip]), "")


class CommitHistory:
    """The commits of one repository."""

    def __init__(self, repo: Path, git: Git) -> None:
        self._repo = repo
        self._git = git

    async def unmerged(self, tips: Collection[str], base: str) -> Unmerged:
        """Return the ancestors of these commits that the base lacks; ignores missing commits."""
        known = [tip for tip in dict.fromkeys(tips) if SHA.fullmatch(tip)]
        asked = ("rev-list", "--parents", "--ignore-missing", "--stdin")
        result = await self._git.run(
            *asked, cwd=self._repo, input="\n".join([*known, f"^{base}", ""]).encode()
        )
        rows = [line.split(" ") for line in result.text.splitlines()]
        return Unmerged({commit: tuple(parents) for commit, *parents in rows})

    async def agent_tips(self) -> Mapping[str, tuple[str, ...]]:
        """Return the heads of the branches of agents, also of removed branches."""
        listing = await self._git.run(
            "for-each-ref", "--format=%(objectname) %(refname)", BRANCH_REFS, SAVED_REFS,
            cwd=self._repo,
        )  # fmt: skip
        found: dict[str, tuple[str, ...]] = {}
        for row in listing.text.splitlines():
            commit, _, ref = row.partition(" ")
            agent_id = ref.removeprefix(BRANCH_REFS)
            if ref.startswith(SAVED_REFS):
                agent_id, _, name = ref.removeprefix(SAVED_REFS).partition("/")
                if name.partition("-")[0] != HEAD_REF:
                    continue
            found[agent_id] = (*found.get(agent_id, ()), commit)
        return found

    async def merged_as(self, commit: str, into: str) -> str | None:
        """Return the commit that merged another into a branch; None if it is not merged."""
        if not await self.holds(into, commit):
            return None
        since = f"{commit}..{into}"
        line, holding = [
            (await self._git.run("rev-list", how, since, cwd=self._repo)).text.split()
            for how in ("--first-parent", "--ancestry-path")
        ]
        on_top = set(holding)
        return next((each for each in reversed(line) if each in on_top), commit)

    async def between(self, old: str, new: str, limit: int) -> tuple[tuple[str, str], ...]:
        """Return the commits added to a branch since a commit: ids and subjects, newest first."""
        asked = ("log", "-z", "--first-parent", "--format=%H %s", f"--max-count={limit}")
        result = await self._git.run(*asked, f"{old}..{new}", cwd=self._repo)
        rows = [row.partition(" ") for row in _texts(result.stdout)]
        return tuple((commit, subject) for commit, _, subject in rows)

    async def work(
        self, old: str, new: str, base: str
    ) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
        """Return the commits between two that a branch lacks, and the files they changed.

        Of a merge only the files that differ from all of its parents.
        """
        span = (f"{old}..{new}", f"^{base}")
        listed = await self._git.run("log", "-z", "--format=%H %s", *span, cwd=self._repo)
        touched = ("log", "-z", "--cc", "--name-only", "--no-renames", "--format=")
        named = await self._git.run(*touched, *span, cwd=self._repo)
        rows = [row.partition(" ") for row in _texts(listed.stdout)]
        files = dict.fromkeys(name.strip("\n") for name in _texts(named.stdout))
        return tuple((sha, text) for sha, _, text in rows), tuple(filter(None, files))

    async def tree_of(self, commit: str) -> str:
        """Return the id of a commit's files."""
        asked = ("rev-parse", "--verify", f"{commit}^{{tree}}")
        return (await self._git.run(*asked, cwd=self._repo)).text

    async def text_of(self, commit: str, path: str, most: int) -> str | None:
        """Return a file of a commit; None if it is no regular file, no text or longer than this."""
        asked = ("ls-tree", "-l", "-z", "--full-tree", commit, "--", path)
        listed = await self._git.run(*asked, cwd=self._repo, check=False)
        mode, _, sha, size = (listed.stdout.partition(b"\t")[0].decode().split() + [""] * 4)[:4]
        if not mode.startswith("100") or int(size) > most:
            return None
        found = await self._git.run("cat-file", "blob", sha, cwd=self._repo, check=False)
        if found.code != 0 or b"\0" in found.stdout:
            return None
        with suppress(UnicodeDecodeError):
            return found.stdout.decode()
        return None

    async def holds(self, commit: str, other: str) -> bool:
        """Tell whether a commit or branch has another among its ancestors."""
        asked = ("merge-base", "--is-ancestor", other, commit)
        return (await self._git.run(*asked, cwd=self._repo, check=False)).code == 0


def _texts(listing: bytes) -> list[str]:
    return [row.decode(errors="replace") for row in listing.split(b"\0") if row]
