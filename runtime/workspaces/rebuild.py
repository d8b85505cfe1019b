"""Recreates a workspace that git cannot read: a broken index, HEAD or object, pipes for rules.

Owns finding that out, and the newest usable commit. It must not remove anything before its work is
saved; what cannot be saved keeps its files under another name. Only for a workspace in which no
process of an agent is running.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import stat
import zlib
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.errors import GitError, WorkspaceError
from runtime.git import ownership
from runtime.git.git import SLOW
from runtime.git.ownership import BRANCH_REFS, SAVED_REFS
from runtime.git.porcelain import SHA, some_of
from runtime.git.preflight import OF_THE_WORKTREE, endless, rules_in
from runtime.git.safe_view import released
from runtime.workspaces.status import status_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from runtime.git.git import Git
    from runtime.git.safe_view import RepositoryLocation
    from runtime.workspaces.locations import WorkspaceLocations
    from runtime.workspaces.saved_work import SavedCommit
    from runtime.workspaces.workspace_saver import WorkspaceSaver
    from runtime.workspaces.worktrees import FoundWorktree, Worktrees

NOTHING_WHOLE = (
    "git cannot read {found.path}, and no commit of {found.branch} is whole, not even its base "
    "{found.base_commit}: {why}\nsee `git fsck` in the repository"
)
HEADS_TRIED = 50
WHOLE = ("rev-list", "--objects", "--verify-objects", "--quiet")
"""Fails if an object cannot be read."""
_IDS = re.compile(r"\b(?:[0-9a-f]{64}|[0-9a-f]{40})\b")
_LOG_READ = 65_536
PIPES = "git would block forever on these pipes, so they were removed: {files}"
_REASON = "git could not read the workspace"


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """How a workspace that git could not read was recreated."""

    saved_ref: str
    notes: tuple[str, ...]
    """What a person, and the next attempt, should know."""


class Rebuilder:
    """Recreates the workspaces of one repository."""

    def __init__(
        self, git: Git, trees: Worktrees, locations: WorkspaceLocations, saver: WorkspaceSaver
    ) -> None:
        self._git = git
        self._trees = trees
        self._locations = locations
        self._saver = saver

    async def rebuild(
        self, agent_id: str, name: str, make: Callable[[str], Awaitable[object]]
    ) -> Rebuilt | None:
        """Make sure that git can read the workspace; None if nothing was wrong with it.

        `make` creates a workspace where there is none.
        """
        pipes = await self._pipes_in_its_ref(agent_id)
        lost = bool(pipes)
        found = await self._trees.find(agent_id)
        if found.base_commit is None or found.half_made or found.git_dir is None:
            return None
        pipes += await self._pipes_in(found)
        notes: tuple[str, ...] = (PIPES.format(files=some_of(pipes)),) if pipes else ()
        if not (why := await self._unreadable(found, name)):
            return Rebuilt("", notes) if notes else None
        if lost:  # what git has in packed-refs is older
            found = replace(found, head=None)
        heads = await self._heads(found)
        for commit in heads:
            await self._set_aside_damaged(commit)
        saved = await self._save(found, heads, name)
        # Saving may have restored missing objects: the same files make the same objects.
        for commit in heads:
            if not await self._is_whole(commit, heads[-1]):
                continue
            aside = await self._clear(found, saved)
            await self._move_branch(found, commit, name)
            await make(agent_id)
            if not await self._unreadable(await self._trees.find(agent_id), name):
                notes += _told(found, why, commit, saved, aside)
                return Rebuilt(saved.ref if saved else "", notes)
        raise GitError(NOTHING_WHOLE.format(found=found, why=why))

    async def _unreadable(self, found: FoundWorktree, name: str) -> str:
        """Say what git cannot read in a workspace; empty if it can read all."""
        if (checkout := found.checkout) is None:
            return "it is no longer a worktree"
        base = found.base_commit or ""
        try:
            ownership.straighten(checkout.git_dir)
            checkout = await self._saver.with_rules(found.agent_id, base, checkout)
            status = await status_of(self._git, checkout)
            if status.unreadable:
                return status.unreadable
            if await self._ask(*WHOLE, status.head or base, "--not", base) is None:
                return f"objects of the commit {status.head[:12]} are missing or damaged"
            if status.dirty:  # git may compare files that it cannot add
                await self._saver.keep(found.agent_id, checkout, name, _REASON)
        except GitError as error:
            if error.code is None:  # git failed before it read anything
                raise
            return error.stderr.strip() or str(error)
        return ""

    async def _is_whole(self, commit: str, base: str) -> bool:
        """Tell whether a commit, and all commits since the base, can be read."""
        for span in ((commit, "--not", base), ("--no-walk", commit)):
            told = await self._ask(*WHOLE, *span)
            if told is None:
                return False
        return await self._ask("merge-base", "--is-ancestor", base, commit) is not None

    async def _heads(self, found: FoundWorktree) -> tuple[str, ...]:
        """Return the known earlier heads of the branch, newest first, the base last."""
        common = await self._trees.common_dir()
        named = [found.head or ""]
        named += _logged(common / "logs" / BRANCH_REFS / found.agent_id)
        named += _logged((found.git_dir or common) / "logs" / "HEAD")
        refs = await self._ask(
            "for-each-ref", "--sort=-refname", "--format=%(parent)",
            f"{SAVED_REFS}{found.agent_id}/",
        )  # fmt: skip
        named += [line.partition(" ")[0] for line in (refs or "").splitlines()]
        known = dict.fromkeys(each for each in named if SHA.fullmatch(each))
        base = found.base_commit or ""
        known.pop(base, None)
        return (*list(known)[:HEADS_TRIED], base)

    async def _set_aside_damaged(self, commit: str) -> None:
        """Move damaged objects away, so that git writes them again.

        Git does not write an object that it believes to have.
        """
        here = await self._trees.here()
        asked = (*WHOLE, "--no-walk", commit)
        while True:
            told = await self._git.run(*asked, cwd=self._repo(here), check=False, timeout=SLOW)
            named = dict.fromkeys(_IDS.findall(told.stderr)) if told.code else ()
            objects = here.common_dir / "objects"
            if not any([await asyncio.to_thread(set_aside_object, objects, sha) for sha in named]):
                return

    async def _save(
        self, found: FoundWorktree, heads: Sequence[str], name: str
    ) -> SavedCommit | None:
        """Save everything in the workspace, with git or, if that fails, byte for byte."""
        with suppress(GitError, WorkspaceError):
            return await self._saver.all_of(found, name, _REASON)
        for commit in heads:
            if await self._is_whole(commit, found.base_commit or ""):
                return await self._saver.as_they_are(found, commit, name, _REASON)
        raise GitError(NOTHING_WHOLE.format(found=found, why=f"not even {found.base_commit}"))

    async def _clear(self, found: FoundWorktree, saved: SavedCommit | None) -> Path | None:
        """Remove the workspace; return its new place if not all of it could be saved."""
        pointer = found.path / ".git"
        foreign = pointer.is_dir() and not pointer.is_symlink()
        aside = None
        if found.path.is_dir() and (foreign or (saved and saved.problems)):
            if not foreign:  # it would point git to the new workspace
                pointer.unlink(missing_ok=True)
            aside = self._locations.put_aside(found.path)
        await self._trees.take_down(found.path)
        return aside

    async def _move_branch(self, found: FoundWorktree, commit: str, name: str) -> None:
        if found.head == commit:
            return
        if found.head is not None and await self._is_whole(found.head, found.base_commit or ""):
            # A ref to an unreadable commit would only stop git from collecting garbage.
            await self._ask("update-ref", f"{SAVED_REFS}{found.agent_id}/{name}-head", found.head)
        ref = BRANCH_REFS + found.agent_id
        if await self._ask("update-ref", ref, commit) is None:
            ((await self._trees.common_dir()) / ref).unlink(missing_ok=True)
            await self._trees.point(ref, commit)

    async def _pipes_in_its_ref(self, agent_id: str) -> list[str]:
        """Remove pipes that block listing refs; the reflog still has the head of the branch."""
        common, ref = await self._trees.common_dir(), BRANCH_REFS + agent_id
        return _removed(endless((f"{common}/{ref}", f"{common}/logs/{ref}")))

    async def _pipes_in(self, found: FoundWorktree) -> list[str]:
        """Remove pipes from where git reads files of this workspace."""
        near = [f"{found.git_dir}/{each}" for each in OF_THE_WORKTREE]
        gone = await asyncio.to_thread(lambda: _removed(endless((*near, *rules_in(found.path)))))
        return [each.removeprefix(f"{found.path}/") for each in gone]

    @staticmethod
    def _repo(here: RepositoryLocation) -> Path:
        return here.root or here.common_dir

    async def _ask(self, *args: str) -> str | None:
        """Run git in the repository, not in the workspace; None if it fails."""
        where = self._repo(await self._trees.here())
        done = await self._git.run(*args, cwd=where, check=False, timeout=SLOW)
        return done.text if done.code == 0 else None


def _told(
    found: FoundWorktree, why: str, commit: str, saved: SavedCommit | None, aside: Path | None
) -> tuple[str, ...]:
    line = why.splitlines()[-1] if why else ""
    text = f"git could not read the workspace ({line}), so it was recreated at {commit[:12]}"
    if saved is not None and saved.ref:
        text += f"; the files that were in it are saved under {saved.ref}"
    notes = [text]
    if found.head not in (None, commit):
        notes.append(
            f"{found.branch} was at {str(found.head)[:12]}, which cannot be read, and is at "
            f"{commit[:12]} again"
        )
    if aside is not None:
        lines = (saved.problems if saved else "").splitlines()
        notes.append(f"what could not be saved is in {aside}: {some_of(lines, 3) or '.git'}")
    return tuple(notes)


def _logged(file: Path) -> list[str]:
    """Return the commits that a reflog names, the newest first."""
    try:
        if not stat.S_ISREG(file.lstat().st_mode):
            return []
        with file.open("rb") as log:
            log.seek(max(0, file.stat().st_size - _LOG_READ))
            lines = log.read(_LOG_READ).decode(errors="replace").splitlines()
    except OSError:
        return []
    words = [line.split(" ", 2)[:2] for line in reversed(lines)]
    return [word for pair in words for word in reversed(pair) if SHA.fullmatch(word)]


def _removed(files: Iterable[str]) -> list[str]:
    gone = []
    for file in files:
        with released(file):
            Path(file).unlink(missing_ok=True)
        gone.append(file)
    return gone


_AT_ONCE = 1 << 20


def set_aside_object(objects: Path, sha: str) -> bool:
    """Rename a loose object whose content does not match its id; tell whether it was damaged."""
    path = objects / sha[:2] / sha[2:]
    try:
        if _digest(path, sha) == sha:
            return False
        # Git does not read this name; somebody who can repair it finds it there.
        os.replace(path, path.with_name(f"{path.name}.damaged"))  # noqa: PTH105  # over an earlier one
    except OSError:
        return False
    return True


def _digest(path: Path, sha: str) -> str:
    digest = hashlib.sha1() if len(sha) == 40 else hashlib.sha256()  # noqa: PLR2004, S324  # git's own
    inflate = zlib.decompressobj()
    with path.open("rb") as file:
        try:
            while part := file.read(_AT_ONCE):
                digest.update(inflate.decompress(part))
        except zlib.error:
            return ""
    return digest.hexdigest()
