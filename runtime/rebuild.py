"""Makes a workspace anew that git cannot read: a broken index, HEAD or object, pipes for rules.

Owns finding that out, and the newest commit that can be worked on. Nothing is removed before its
work is saved; what cannot be saved keeps its files under another name. Only for a workspace in
which no process of an agent is alive.
"""

from __future__ import annotations

import asyncio
import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from runtime import ownership
from runtime.errors import GitError, WorkspaceError
from runtime.ownership import BRANCH_REFS, SAVED_REFS
from runtime.status import SLOW, status_of
from runtime.tree import SHA, some_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from runtime.git import Git
    from runtime.homes import Homes
    from runtime.rescue import Rescue
    from runtime.saving import SavedWork
    from runtime.workspace import Workspace
    from runtime.worktrees import Found, Worktrees

_RULES = frozenset({".gitignore", ".gitattributes", ".gitmodules"})
_OF_THE_WORKTREE = ("HEAD", "index", "info/sparse-checkout", "logs/HEAD")
_LOG_READ = 65_536
PIPES = "git would wait for ever for the end of these, so they were removed: {files}"
_REASON = "git could not read the workspace"


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What became of a workspace that git could not read."""

    saved_ref: str
    notes: tuple[str, ...]
    """What a person, and the next attempt, should know."""


class Rebuilder:
    """Makes the workspaces of one repository anew."""

    def __init__(
        self,
        git: Git,
        trees: Worktrees,
        homes: Homes,
        rescue: Rescue,
        make: Callable[[str], Awaitable[Workspace]],
    ) -> None:
        self._git = git
        self._trees = trees
        self._homes = homes
        self._rescue = rescue
        self._make = make
        """Makes a workspace where there is none."""

    async def rebuild(self, agent_id: str, name: str) -> Rebuilt | None:
        """Have a workspace there that git can read; None where nothing was wrong with it."""
        found = await self._trees.find(agent_id)
        if found.base_commit is None or found.half_made or found.git_dir is None:
            return None
        notes = await self._without_pipes(found)
        if not (why := await self._unreadable(found)):
            return Rebuilt("", notes) if notes else None
        async for commit in self._whole_commits(found):
            saved, aside = await self._clear(found, commit, name)
            notes += _told(found, why, commit, saved, aside)
            await self._move_branch(found, commit, name)
            await self._make(agent_id)
            if not (why := await self._unreadable(await self._trees.find(agent_id))):
                return Rebuilt(saved.ref if saved else "", notes)
            found = await self._trees.find(agent_id)
        raise GitError(
            f"git cannot read {found.path}, and no commit of {found.branch} is whole, not even "
            f"its base {found.base_commit}: {why}\nsee `git fsck` in the repository"
        )

    async def _unreadable(self, found: Found) -> str:
        """Say what git cannot read of a workspace; empty if it can."""
        if (checkout := found.checkout) is None:
            return "it is no worktree any more"
        base = found.base_commit or ""
        try:
            ownership.straighten(checkout.git_dir)
            checkout = await self._rescue.with_rules(found.agent_id, base, checkout)
            status = await status_of(self._git, checkout)
            if status.unreadable:
                return status.unreadable
            if not await self._is_whole(status.head or base, base):
                return f"objects of the commit {status.head[:12]} are missing or damaged"
        except GitError as error:
            if error.code is None:  # git did not get as far as reading it
                raise
            return error.stderr.strip() or str(error)
        return ""

    async def _is_whole(self, commit: str, base: str) -> bool:
        """Tell whether all of a commit can be read, and all commits since the base."""
        asked = ("rev-list", "--objects", "--verify-objects", "--quiet")
        for span in ((commit, "--not", base), ("--no-walk", commit)):
            told = await self._ask(*asked, *span)
            if told is None:
                return False
        return await self._ask("merge-base", "--is-ancestor", base, commit) is not None

    async def _whole_commits(self, found: Found) -> AsyncIterator[str]:
        """Find commits of the branch that are whole, the newest first, the base last."""
        base = found.base_commit or ""
        common = await self._trees.common_dir()
        named = [found.head or ""]
        named += _logged(common / "logs" / BRANCH_REFS / found.agent_id)
        named += _logged((found.git_dir or common) / "logs" / "HEAD")
        refs = await self._ask(
            "for-each-ref", "--sort=-creatordate", "--format=%(parent)",
            f"{SAVED_REFS}{found.agent_id}/",
        )  # fmt: skip
        named += [line.partition(" ")[0] for line in (refs or "").splitlines()]
        for commit in dict.fromkeys([*named, base]):
            if SHA.fullmatch(commit) and await self._is_whole(commit, base):
                yield commit

    async def _clear(
        self, found: Found, commit: str, name: str
    ) -> tuple[SavedWork | None, Path | None]:
        """Save what is there and take it away; return also where files went that are not saved."""
        saved = None
        try:
            saved = await self._rescue.all_of(found, name, _REASON)
        except (GitError, WorkspaceError):
            saved = await self._rescue.as_they_are(found, commit, name, _REASON)
        pointer = found.path / ".git"
        foreign = pointer.is_dir() and not pointer.is_symlink()
        aside = None
        if foreign or (saved and saved.problems):
            if not foreign:  # it would lead git to the workspace that takes its place
                pointer.unlink(missing_ok=True)
            aside = self._homes.put_aside(found.path)
        await self._trees.take_down(found.path)
        return saved, aside

    async def _move_branch(self, found: Found, commit: str, name: str) -> None:
        if found.head == commit:
            return
        if found.head is not None:
            # Of a commit that is not there git keeps nothing.
            await self._ask("update-ref", f"{SAVED_REFS}{found.agent_id}/{name}-head", found.head)
        ref = BRANCH_REFS + found.agent_id
        if await self._ask("update-ref", ref, commit) is None:
            ((await self._trees.common_dir()) / ref).unlink(missing_ok=True)
            await self._trees.point(ref, commit)

    async def _without_pipes(self, found: Found) -> tuple[str, ...]:
        """Remove what has no end and no content, and holds up whoever reads it as a file."""
        common, ref = await self._trees.common_dir(), BRANCH_REFS + found.agent_id
        near = [common / ref, common / "logs" / ref]
        if found.git_dir is not None:
            near += [found.git_dir / each for each in _OF_THE_WORKTREE]
        gone = await asyncio.to_thread(_remove_pipes, found.path, near)
        if not gone:
            return ()
        return (PIPES.format(files=some_of(gone)),)

    async def _ask(self, *args: str) -> str | None:
        """Ask git in the repository, not in the workspace; None where it fails."""
        here = await self._trees.here()
        done = await self._git.run(
            *args, cwd=here.root or here.common_dir, check=False, timeout=SLOW
        )
        return done.text if done.code == 0 else None


def _told(
    found: Found, why: str, commit: str, saved: SavedWork | None, aside: Path | None
) -> tuple[str, ...]:
    line = why.splitlines()[-1] if why else ""
    text = f"git could not read the workspace ({line}), so it was made anew at {commit[:12]}"
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


def _remove_pipes(folder: Path, near: list[Path]) -> list[str]:
    """Remove pipes, sockets and devices where git reads rules or its own files."""
    gone = []
    for file in (*near, *_rules_in(folder)):
        with suppress(OSError):
            mode = file.lstat().st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
                file.unlink()
                inside = file.is_relative_to(folder)
                gone.append(str(file.relative_to(folder) if inside else file))
    return gone


def _rules_in(folder: Path) -> Iterator[Path]:
    for at, _, files in os.walk(folder):
        for name in _RULES.intersection(files):
            yield Path(at, name)
