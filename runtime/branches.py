"""Branches of the user's repository: merging, comparing and deleting them.

Owns every change to the branches that workspaces are merged into. It must not change a checkout,
except the one that has the target of a merge checked out, and there only by fast-forward.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.errors import BranchError, GitError, RepositoryError
from runtime.git.diff import CommitDiff
from runtime.git.git import NOT_A_REPOSITORY, OLDEST_FOR_MERGE, SLOW, Git
from runtime.git.history import CommitHistory
from runtime.git.ownership import (
    BASE_REFS,
    BRANCH_REFS,
    REMOTE_REFS,
    STATE_FOLDER,
    checkouts,
    held_at,
    registrations,
)
from runtime.git.porcelain import SHA, shown, some_of
from runtime.git.safe_view import RepositoryLocation, locate, read_small
from runtime.own_edits import NoOwnEdits
from runtime.workspaces.saved_work import IDENTITY
from runtime.workspaces.status import Checkout, unfiltered_files

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runtime.own_edits import OwnEdits

_HEADS = "refs/heads/"
BEING_HELD = "{branch} is being {doing} at {folder}: finish or abort that first, then try again"


@dataclass(frozen=True, slots=True)
class BranchMerge:
    """Whether the target now contains the branch; if not, why, and nothing has changed."""

    merged: bool
    commit: str | None
    conflicts: tuple[str, ...]
    reason: str
    passing: bool = False
    """Whether the obstacle is temporary, so that a retry makes sense."""
    moved: bool = False
    """Whether the target moved after the merge was prepared: prepare it again."""


@dataclass(frozen=True, slots=True)
class PreparedMerge:
    """A merge that was computed; no branch has moved yet."""

    branch: str
    into: str
    source: str
    """The commit of the branch; empty when there is no such branch."""
    target: str
    """The commit that it is merged into."""
    commit: str = ""
    """The merge commit, on no branch yet; the target itself if there is nothing to merge."""
    conflicts: tuple[str, ...] = ()
    refused: str = ""
    """Why the merge cannot be carried out."""
    passing: bool = False
    """As in `BranchMerge`."""

    @property
    def is_new(self) -> bool:
        """Whether the merge would change the target."""
        return bool(self.commit) and self.commit != self.target


class BranchManager:
    """The branches of one repository."""

    def __init__(
        self, repo: Path | str, *, git: Git | None = None, own_edits: OwnEdits | None = None
    ) -> None:
        self._repo = Path(repo).resolve()
        self._own_edits = own_edits or NoOwnEdits()
        self._git = git or Git(home=self._repo / STATE_FOLDER / "git")
        self._merging = asyncio.Lock()
        self.history = CommitHistory(self._repo, self._git)
        """Queries about ancestry."""
        self.diff = CommitDiff(self._repo, self._git)
        """What differs between commits."""

    async def head(self, branch: str) -> str | None:
        """Return the branch's newest commit, or None when there is no such branch."""
        return await self._answer("show-ref", "--verify", "--hash", _HEADS + branch)

    async def fetched(self, branch: str) -> str | None:
        """Return the head of the branch at the forge when it was last fetched, if ever."""
        return await self._answer("show-ref", "--verify", "--hash", REMOTE_REFS + branch)

    async def agents(self) -> tuple[str, ...]:
        """Return the agents whose branches were made from here; none without a repository.

        None either if another worktree has records of its own: they may be made from there.
        """
        listed = await self._git.run(
            "for-each-ref", f"--format=%(refname:lstrip={BASE_REFS.count('/')})", BASE_REFS,
            cwd=self._repo, check=False,
        )  # fmt: skip
        if listed.code != 0 or not listed.text.strip():
            return ()
        common = self._here().common_dir
        others = {common.parent, *registrations(common)} - {self._repo}
        if any((each / STATE_FOLDER / "state.db").exists() for each in others):
            return ()
        return tuple(listed.text.split())

    async def commit_exists(self, sha: str) -> bool:
        """Whether this full commit id is in the repository."""
        if not SHA.fullmatch(sha):
            return False
        found = await self._git.run(
            "cat-file", "-e", f"{sha}^{{commit}}", cwd=self._repo, check=False
        )
        return found.code == 0

    async def merge(
        self, branch: str, into: str, *, message: str, expected_head: str | None = None
    ) -> BranchMerge:
        """Merge the branch into another by a merge commit; if already merged, do nothing.

        On a conflict, a branch that moved from expected_head, or local changes that the merge
        would overwrite, nothing changes and the reason says why.
        """
        async with self._merging:
            prepared = await self.prepare(
                branch, into, message=message, expected_head=expected_head
            )
            return await self._carry_out(prepared)

    async def prepare(
        self, branch: str, into: str, *, message: str, expected_head: str | None = None
    ) -> PreparedMerge:
        """Make the merge commit in the object store; no branch and no checkout is changed."""
        await self._git.require(OLDEST_FOR_MERGE, "merging", cwd=self._repo)
        source, target = await self.head(branch), await self.head(into)
        if source is None or target is None:
            missing = await self._missing(branch if source is None else into)
            return PreparedMerge(branch, into, source or "", target or "", refused=missing)
        prepared = PreparedMerge(branch, into, source, target)
        if expected_head not in (None, source):
            moved = f"{branch} moved from {expected_head} to {source}: review it again"
            return replace(prepared, refused=moved)
        if await self._contains(target, source):
            return replace(prepared, commit=target)
        tree, conflicts = await self._try_merge(source, target)
        if conflicts:
            reason = f"{branch} and {into} both changed {some_of(conflicts)}"
            return replace(prepared, conflicts=conflicts, refused=reason)
        if held := self._held(into):
            return replace(prepared, refused=held, passing=True)
        return replace(prepared, commit=await self._commit(tree, (target, source), message))

    async def carry_out(self, prepared: PreparedMerge) -> BranchMerge:
        """Move the target to the prepared commit, unless it moved meanwhile."""
        async with self._merging:
            return await self._carry_out(prepared)

    async def _carry_out(self, prepared: PreparedMerge) -> BranchMerge:
        branch, into = prepared.branch, prepared.into
        if prepared.refused:
            refused = _refused(prepared.refused, passing=prepared.passing)
            return replace(refused, conflicts=prepared.conflicts)
        if prepared.commit == prepared.target:
            reason = f"{into} contains {branch}"
            return BranchMerge(merged=True, commit=prepared.commit, conflicts=(), reason=reason)
        if await self.head(into) != prepared.target:
            moved = _refused(f"{into} moved while the merge was verified: try again")
            return replace(moved, moved=True)
        held = self._held(into)
        if refusal := held or await self._advance(into, prepared.target, prepared.commit):
            return _refused(refusal, passing=bool(held))
        reason = f"merged {branch} into {into}"
        return BranchMerge(merged=True, commit=prepared.commit, conflicts=(), reason=reason)

    async def join(self, commits: tuple[str, ...], *, message: str) -> BranchMerge:
        """Return a commit that merges all of these, moving no branch; the first is its base."""
        await self._git.require(OLDEST_FOR_MERGE, "merging", cwd=self._repo)
        joined, *others = [await self._commit_of(commit) for commit in commits]
        for other in others:
            if await self._contains(joined, other):
                continue
            tree, conflicts = await self._try_merge(other, joined)
            if conflicts:
                reason = f"{joined[:12]} and {other[:12]} both changed {some_of(conflicts)}"
                return BranchMerge(merged=False, commit=None, conflicts=conflicts, reason=reason)
            joined = await self._commit(tree, (joined, other), message)
        return BranchMerge(merged=True, commit=joined, conflicts=(), reason="joined")

    async def is_conflicted(self, branch: str, into: str) -> tuple[str, ...]:
        """Return the files in which a merge would conflict; nothing is changed."""
        await self._git.require(OLDEST_FOR_MERGE, "merging", cwd=self._repo)
        _, conflicts = await self._try_merge(
            await self._commit_of(branch), await self._commit_of(into)
        )
        return conflicts

    async def try_merge(self, source: str, target: str) -> tuple[str, tuple[str, ...]]:
        """Return the files that a merge of two commits would make, and those in conflict."""
        await self._git.require(OLDEST_FOR_MERGE, "merging", cwd=self._repo)
        return await self._try_merge(source, target)

    async def is_contained(self, branch: str, into: str) -> bool:
        """Whether a branch already contains all commits of another."""
        source, target = await self.head(branch), await self.head(into)
        return source is not None and target is not None and await self._contains(target, source)

    async def held_by(self, commit: str) -> tuple[str, str] | None:
        """Return the branch that the user has checked out, and its head, if it contains the commit.

        A branch of an agent does not count: checking out its work does not merge it.
        """
        said = read_small(self._here().git_dir / "HEAD") or b""
        ref = os.fsdecode(said.removeprefix(b"ref: ").strip())
        if not ref.startswith(_HEADS) or ref.startswith(BRANCH_REFS):
            return None
        branch = ref.removeprefix(_HEADS)
        head = await self.head(branch)
        if head is None or not await self._contains(head, commit):
            return None
        return branch, head

    async def delete(self, branch: str, *, expected_head: str | None = None) -> bool:
        """Delete the branch; False when it is not there. One that is checked out is refused."""
        head = await self.head(branch)
        if head is None:
            return False
        if (place := self._checked_out_at(branch)) is not None:
            raise BranchError(
                f"branch {branch} is checked out at {place.root}: switch that checkout to another "
                "branch first"
            )
        await self._ask(
            "update-ref", "-d", "--end-of-options", _HEADS + branch, expected_head or head
        )
        return True

    async def _names_between(self, a: str, b: str) -> bytes:
        asked = ("diff-tree", "-r", "-z", "--no-renames", "--name-only", a, b)
        return (await self._git.run(*asked, cwd=self._repo)).stdout

    async def _content(self, commit: str, name: str) -> bytes | None:
        """Return what a commit has of a file; None if it has none."""
        asked = ("cat-file", "blob", f"{commit}:{name}")
        found = await self._git.run(*asked, cwd=self._repo, check=False)
        return found.stdout if found.code == 0 else None

    async def _ask(self, *args: str) -> str:
        return (await self._git.run(*args, cwd=self._repo)).text

    async def _answer(self, *args: str) -> str | None:
        result = await self._git.run(*args, cwd=self._repo, check=False)
        if result.code > 1 and "not a git repository" in result.stderr:
            raise RepositoryError(NOT_A_REPOSITORY.format(path=self._repo))
        return result.text if result.code == 0 else None

    async def _missing(self, branch: str) -> str:
        there = await self._ask(
            "for-each-ref",
            "--count=6",
            "--sort=-committerdate",
            "--format=%(refname:short)",
            _HEADS,
        )
        return f"there is no branch {branch!r} in {self._repo}; there are {some_of(there.split())}"

    async def _commit_of(self, name: str) -> str:
        if SHA.fullmatch(name) and await self.commit_exists(name):
            return name
        if (head := await self.head(name)) is None:
            raise BranchError(await self._missing(name))
        return head

    async def _contains(self, target: str, source: str) -> bool:
        asked = ("merge-base", "--is-ancestor", source, target)
        return (await self._git.run(*asked, cwd=self._repo, check=False)).code == 0

    async def _try_merge(self, source: str, target: str) -> tuple[str, tuple[str, ...]]:
        """Merge in the object store alone; return the tree and the files in conflict."""
        asked = ("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", target, source)
        result = await self._git.run(*asked, cwd=self._repo, check=False, timeout=SLOW)
        if result.code not in (0, 1):
            raise GitError(
                f"git cannot merge {source} into {target} in {self._repo}: {result.stderr.strip()}",
                code=result.code,
                stderr=result.stderr,
            )
        tree, *names = [field for field in result.stdout.split(b"\0") if field]
        return tree.decode().strip(), tuple(shown(name) for name in names)

    async def _commit(self, tree: str, parents: tuple[str, ...], message: str) -> str:
        words = [word for parent in parents for word in ("-p", parent)]
        said = message.replace("\0", " ").encode(errors="replace")

        async def commit(env: Mapping[str, str] | None) -> str:
            result = await self._git.run(
                "commit-tree", tree, *words, cwd=self._repo, env=env, input=said
            )
            return result.text

        with suppress(GitError):
            return await commit(None)
        # No user is configured: the merge is then the runner's own.
        return await commit(IDENTITY)

    def _here(self) -> RepositoryLocation:
        if (place := locate(self._repo)) is None:
            raise RepositoryError(NOT_A_REPOSITORY.format(path=self._repo))
        return place

    def _checked_out_at(self, branch: str) -> RepositoryLocation | None:
        place = checkouts(self._here()).get(_HEADS + branch)
        there = place is not None and place.root is not None and (place.root / ".git").exists()
        return place if there else None

    def _held(self, branch: str) -> str:
        held = held_at(self._here(), branch)
        return BEING_HELD.format(branch=branch, folder=held[0], doing=held[1]) if held else ""

    async def _advance(self, branch: str, old: str, new: str) -> str:
        """Move the branch from old to new, with its checkout if any; return why not, or nothing."""
        if held := self._held(branch):
            return held
        place = self._checked_out_at(branch)
        if place is None or (folder := place.root) is None:
            asked = ("update-ref", "-m", "merge", _HEADS + branch, new, old)
            moved = await self._git.run(*asked, cwd=self._repo, check=False)
            return "" if moved.code == 0 else f"{branch} moved meanwhile: {moved.stderr.strip()}"
        checkout = Checkout(place.git_dir, folder)
        view = await self._git.view(place)
        if needs := await unfiltered_files(
            self._git, checkout, view, await self._names_between(old, new)
        ):
            return (
                f"{branch} is checked out at {folder}, where {some_of(needs)} would have to pass "
                "a filter, and the runner runs none that a repository names: switch that checkout "
                f"to another branch for the merge, or merge {new} there by hand after a look at "
                "`git config --show-origin --get-regexp ^filter`"
            )
        # Neither stash nor overwrite: an ignored file of the user's matters as much as any other.
        careful = ("--no-autostash", "--no-overwrite-ignore", "--no-verify-signatures")
        forward = ("merge", "--ff-only", "--quiet", *careful, new)
        between = [os.fsdecode(each) for each in (await self._names_between(old, new)).split(b"\0")]
        async with self._own_edits.aside(folder, between[:-1], partial(self._content, old)):
            moved = await self._git.run(
                *forward, cwd=folder, env=checkout.env, check=False, timeout=SLOW
            )
        if moved.code == 0:
            return ""
        in_the_way = [line.strip() for line in moved.stderr.splitlines() if line.startswith("\t")]
        if in_the_way:
            return (
                f"uncommitted changes in {folder} would be overwritten: {some_of(in_the_way)}. "
                "Commit, stash or move them, then try again"
            )
        return f"{branch} is checked out at {folder} and git refuses there: {moved.stderr.strip()}"


def _refused(reason: str, *, passing: bool = False) -> BranchMerge:
    return BranchMerge(merged=False, commit=None, conflicts=(), reason=reason, passing=passing)
