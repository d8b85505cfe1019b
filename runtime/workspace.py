"""The front of `workspaces`: a worktree and branch per agent, created once, kept for all attempts.

Owns when one is created, repaired, saved and removed, and how it is read. It must never change
the user's own checkout, index or HEAD, nor a branch or folder that is not ours, and it never
removes work before it is saved under a ref.
"""

from __future__ import annotations

import asyncio
import os
import re
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from runtime.errors import WorkspaceError
from runtime.git import ownership
from runtime.git.configured_programs import named_programs, new_programs
from runtime.git.diff import CommitDiff
from runtime.git.git import Git
from runtime.git.ownership import BASE_REFS, BRANCH_REFS, Record, checked_id
from runtime.git.porcelain import LOG_FORMAT, SHA, parse_changes, parse_log
from runtime.git.safe_view import pinned, read_small
from runtime.private_files import make_private
from runtime.workspaces import locations
from runtime.workspaces.adoption import Adopter
from runtime.workspaces.begun_merge import BegunMerge, begin_merge, move_on
from runtime.workspaces.nested_repositories import loose_links
from runtime.workspaces.rebuild import WHOLE, Rebuilder, Rebuilt
from runtime.workspaces.remove_untracked import remove_untracked
from runtime.workspaces.saved_work import SAVE_LIMIT, SavedCommit
from runtime.workspaces.status import Checkout, head_of, status_of
from runtime.workspaces.workspace_saver import WorkspaceSaver
from runtime.workspaces.worktrees import FoundWorktree, Worktrees, occupied, refuse_foreign
from runtime.workspaces.worktrees_dir import claim, default_worktrees_dir, release

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from collections.abc import Set as AbstractSet

    from runtime.git.porcelain import ChangedFile, GitCommit, TreeStatus
    from runtime.workspaces.adoption import BranchLine
    from runtime.workspaces.worktrees import WorktreeStart


@dataclass(frozen=True, slots=True)
class Workspace:
    """One agent's own checkout and branch, and where they started."""

    agent_id: str
    path: Path
    branch: str
    base_commit: str
    base_branch: str | None
    notes: tuple[str, ...] = field(default=(), compare=False)
    """What a person should know about how it was prepared."""


@dataclass(frozen=True, slots=True)
class Owned:
    """What is left of one agent in the repository: any part of it may be missing."""

    agent_id: str
    path: Path
    branch: str
    base_commit: str
    head: str | None
    registered: bool
    present: bool


class WorkspaceManager:
    """The workspaces of one repository."""

    def __init__(
        self,
        repo: Path | str,
        *,
        root: Path | str | None = None,
        git: Git | None = None,
        save_limit: Callable[[], int] = lambda: SAVE_LIMIT,
        own_files: Callable[[], Collection[str]] = frozenset,
    ) -> None:
        """Work below `root`, which by default lies outside of the repository.

        One save takes no more than `save_limit` bytes of files. Of `own_files` of the user's
        checkout nobody is told that they are not committed: no agent needs them.
        """
        self._repo = repo = Path(repo).resolve()
        self.root = Path(root or default_worktrees_dir(repo)).resolve()
        """The folder for its workspaces; see `runtime.workspaces.worktrees_dir`."""
        self._state = repo / ownership.STATE_FOLDER
        self._git = git or Git(home=self._state / "git")
        self._locations = locations.WorkspaceLocations(repo, self.root)
        self._trees = Worktrees(repo, self._locations, self._git, own_files)
        self._saver = WorkspaceSaver(self._git, self._trees, self._state, save_limit)
        self._adopter = Adopter(self._git, self._trees, self._saver)
        self._rebuilder = Rebuilder(self._git, self._trees, self._locations, self._saver)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def prepare(self, agent_id: str, *, base: str | None = None) -> Workspace:
        """Return the agent's workspace, created from base (a branch or commit) if missing.

        Without base it starts from the branch, else the commit, of the user's checkout. What a
        crash left unfinished is completed; what is not ours is refused with a WorkspaceError.
        """
        async with self._lock(agent_id):
            return await self._prepare(agent_id, base)

    async def _prepare(self, agent_id: str, base: str | None = None) -> Workspace:
        repaired = await self._trees.without_link(agent_id)
        found, notes = await self._adopted(await self._trees.find(agent_id), base)
        notes = (*repaired, *notes)
        if _is_whole(found):
            return await self._rejoin(found, notes)
        found, more = await self._made_room(found)
        notes += more
        if found.head is None or found.base_commit is None:
            start = await self._trees.starting_point(base)
            commit, base_branch = start.commit, start.branch
            notes += start.notes
        else:
            commit, base_branch = found.base_commit, found.base_branch
        programs = named_programs(await self._trees.view())
        ownership.exclude_own_files(await self._trees.common_dir(), self._inside())
        exclude = ownership.excluded(await self._trees.common_dir())
        make_private(self._repo / ownership.STATE_FOLDER)
        claim(self.root, self._repo)
        # From here to the end a crash leaves a record that says: unfinished, nothing to lose.
        ownership.write_record(self.root, agent_id, Record(base_branch, ready=False))
        await self._trees.point(BASE_REFS + agent_id, commit)
        notes += await self._trees.add(found, commit)
        ownership.write_record(
            self.root,
            agent_id,
            Record(base_branch, ready=True, programs=programs, exclude=exclude),
        )
        return Workspace(agent_id, found.path, found.branch, commit, base_branch, notes)

    async def adopt(
        self, agent_id: str, line: BranchLine, attempt: int, *, latest: bool
    ) -> Workspace:
        """Return the agent's workspace, at what the branch is elsewhere; ours is saved before.

        `latest`: the last attempt worked here, so what is not elsewhere yet is its work, and stays.
        """
        async with self._lock(agent_id):
            await self._trees.common_dir()  # which refuses a folder that is not ours to use
            claim(self.root, self._repo)
            notes = await self._adopter.adopt(agent_id, line, str(attempt), latest=latest)
            workspace = await self._prepare(agent_id, line.base_commit)
            return replace(workspace, notes=(*notes, *workspace.notes))

    async def starting_point(self, base: str | None) -> WorktreeStart:
        """Return the commit where a workspace with this base would start, and of which branch."""
        return await self._trees.starting_point(base)

    async def saved_refs(self, agent_id: str) -> dict[str, str]:
        """Return the refs under which work of this agent is saved, with their commits."""
        found = await self._trees.refs(f"{ownership.SAVED_REFS}{checked_id(agent_id)}/")
        return {ref: commit for ref, (commit, _) in found.items()}

    async def open(self, agent_id: str) -> Workspace | None:
        """Return the agent's workspace if it exists and is complete."""
        found = await self._trees.find(agent_id)
        return _workspace(found) if _is_whole(found) and found.head else None

    async def is_whole(self, workspace: Workspace) -> bool:
        """Whether git, run in the workspace, finds it; needs no git process."""
        git_dir = ownership.registration(await self._trees.common_dir(), workspace.path)
        return git_dir is not None and ownership.points_to(workspace.path, git_dir)

    async def status(self, workspace: Workspace) -> TreeStatus:
        """Return the state of the workspace, read by git."""
        return await status_of(self._git, await self._checkout(workspace))

    async def begin_merge(self, workspace: Workspace, commit: str) -> BegunMerge | None:
        """Start merging a commit for the agent to finish; None if its branch contains it."""
        async with self._lock(workspace.agent_id):
            checkout = await self._checkout(workspace)
            return await begin_merge(self._git, checkout, workspace.branch, commit)

    async def move_on(self, workspace: Workspace, commit: str, base: str) -> Workspace | None:
        """Fast-forward the branch to a commit whose own work starts at this base.

        None, with nothing moved, if uncommitted files block it or another branch is checked out.
        """
        async with self._lock(workspace.agent_id):
            checkout = await self._checkout(workspace)
            if not await move_on(self._git, checkout, workspace.branch, commit):
                return None
            if base != workspace.base_commit:
                await self._trees.point(BASE_REFS + workspace.agent_id, base)
            return replace(workspace, base_commit=base)

    async def planted(self, workspace: Workspace) -> tuple[str, ...]:
        """Describe programs configured since its creation, which the user's git would run.

        The runner's own git runs none of them. Needs no git process unless configuration changed.
        """
        record = ownership.read_record(workspace.path.parent, workspace.agent_id)
        return await self._planted(record, await self._checkout(workspace))

    async def unlock(self, workspace: Workspace) -> None:
        """Remove the locks of a killed git in this workspace; no process may be running there.

        Git itself never does: every later commit would be refused.
        """
        common = await self._trees.common_dir()
        git_dir = ownership.registration(common, workspace.path)
        if git_dir is None:
            return
        branch = f"{common}/refs/heads/{workspace.branch}.lock"
        for lock in (f"{git_dir}/index.lock", f"{git_dir}/HEAD.lock", branch):
            with suppress(FileNotFoundError):
                os.unlink(lock)  # noqa: PTH108  # for each attempt, and hardly ever there

    async def recent_commits(
        self, workspace: Workspace, limit: int = 10, *, head: str | None = None
    ) -> tuple[GitCommit, ...]:
        """Return the newest commits since the base; runs no git when the given head is the base."""
        if head in (workspace.base_commit, ""):
            return ()
        span = f"{workspace.base_commit}..{_commit_id(head)}"
        # A commit with damaged objects looks like any other until its files are read.
        await self._read(workspace, *WHOLE, span)
        asked = ("log", "-z", LOG_FORMAT, f"--max-count={limit}", "--end-of-options", span)
        return parse_log(await self._read(workspace, *asked))

    async def changed_files(
        self, workspace: Workspace, *, head: str | None = None, bases: Sequence[str] = ()
    ) -> tuple[ChangedFile, ...]:
        """Return the files that the work changed since it began, without what it took over.

        That is what came with a merge of one of `bases`, commits of the branch that it goes into.
        Runs no git when the head is where the work began.
        """
        if head in (workspace.base_commit, ""):
            return ()
        commit = _commit_id(head)
        asked = ("diff-tree", "-r", "-z", "--no-renames", "--raw", "--no-abbrev")
        starts = CommitDiff(self._repo, self._git).taken_over
        first, *others = [
            parse_changes(await self._read(workspace, *asked, "--end-of-options", start, commit))
            for start in await starts(workspace.base_commit, commit, bases)
        ]
        kept = [frozenset(file.path for file in files) for files in others]
        return tuple(file for file in first if all(file.path in paths for paths in kept))

    async def loose(
        self, workspace: Workspace, files: Sequence[ChangedFile]
    ) -> tuple[ChangedFile, ...]:
        """Return those that are nested repositories whose commit exists only in this folder.

        Runs no git if there are no repositories among them.
        """
        links = [file.link for file in files if file.link is not None]
        if not links:
            return ()
        checkout = await self._checkout(workspace)
        found = await loose_links(self._git, checkout, links)
        return tuple(file for file in files if file.link in found)

    async def save_dirty(
        self, workspace: Workspace, attempt: int, *, reason: str
    ) -> SavedCommit | None:
        """Keep uncommitted work under a ref of this attempt; None when there is none.

        Files, index and HEAD of the workspace stay as they are. Saving again for the same
        attempt keeps what was saved before as a parent.
        """
        async with self._lock(workspace.agent_id):
            checkout = await self._checkout(workspace)
            return await self._saver.keep(workspace.agent_id, checkout, str(attempt), reason)

    async def rebuild(self, agent_id: str, attempt: int) -> Rebuilt | None:
        """Recreate a workspace that git cannot read, its files saved; None if git can read it.

        No process may be running in it.
        """
        async with self._lock(agent_id):
            return await self._rebuilder.rebuild(agent_id, str(attempt), self._prepare)

    async def strip(self, workspace: Workspace, commit: str) -> bool:
        """Remove everything but this commit; False, untouched, if work would be lost."""
        async with self._lock(workspace.agent_id):
            return await remove_untracked(self._git, await self._checkout(workspace), commit)

    async def remove(self, agent_id: str, *, drop_branch: bool, attempt: int) -> SavedCommit | None:
        """Save what is uncommitted, then remove the workspace, and the branch too if asked.

        Doing it again does nothing. A dropped branch's head stays reachable under a saved ref.
        """
        async with self._lock(agent_id):
            found = await self._trees.find(agent_id)
            if found.base_commit is None:
                return None
            await self._trees.forget(found)
            saved = await self._saver.all_of(found, str(attempt), "workspace removed")
            await self._trees.take_down(found.path)
            if drop_branch:
                await self._trees.drop_branch(agent_id)
                for root in (found.path.parent, *self._locations.roots):
                    ownership.drop_record(root, agent_id)
            release(found.path.parent)
            return saved

    async def list_ours(self) -> tuple[Owned, ...]:
        """Return the workspaces in the repository that are ours, complete or not."""
        common = await self._trees.common_dir()
        refs = await self._trees.refs(BASE_REFS, BRANCH_REFS)
        ours = [ref.removeprefix(BASE_REFS) for ref in refs if ref.startswith(BASE_REFS)]
        return tuple(
            Owned(
                agent_id=agent_id,
                path=(location := self._locations.find(common, agent_id)).folder,
                branch=f"agent/{agent_id}",
                base_commit=refs[BASE_REFS + agent_id][0],
                head=refs.get(BRANCH_REFS + agent_id, (None, ""))[0],
                registered=location.git_dir is not None,
                present=location.folder.is_dir(),
            )
            for agent_id in ours
        )

    async def sweep(self, keep: AbstractSet[str]) -> tuple[str, ...]:
        """Unregister workspaces of ours whose folder is gone, except those to keep."""
        gone = [
            each
            for each in await self.list_ours()
            if each.registered and not each.present and each.agent_id not in keep
        ]
        for each in gone:
            async with self._lock(each.agent_id):
                await self._trees.take_down(each.path)
        return tuple(each.agent_id for each in gone)

    def _lock(self, agent_id: str) -> asyncio.Lock:
        return self._locks.setdefault(checked_id(agent_id), asyncio.Lock())

    async def _checkout(self, workspace: Workspace) -> Checkout:
        git_dir = ownership.registration(await self._trees.common_dir(), workspace.path)
        if git_dir is None or not workspace.path.is_dir():
            raise WorkspaceError(
                f"the workspace {workspace.path} is gone: prepare {workspace.agent_id} again, its "
                f"commits are on branch {workspace.branch}"
            )
        ownership.straighten(git_dir)
        checkout = Checkout(git_dir, workspace.path)
        return await self._saver.with_rules(workspace.agent_id, workspace.base_commit, checkout)

    async def _read(self, workspace: Workspace, *args: str) -> bytes:
        checkout = await self._checkout(workspace)
        return (await self._git.run(*args, cwd=checkout.folder, env=checkout.env)).stdout

    async def _adopted(
        self, found: FoundWorktree, base: str | None
    ) -> tuple[FoundWorktree, tuple[str, ...]]:
        """Find the target branch again for a branch of ours whose record was lost."""
        if found.record is not None or found.base_commit is None or found.head is None:
            return found, ()
        target = await self._trees.target(base, found.base_commit)
        if target is None:
            return found, ()
        record = Record(target, ready=True)
        ownership.write_record(found.path.parent, found.agent_id, record)
        note = f"{found.branch} had lost its record: its work continues, for branch {target}"
        return replace(found, record=record), (note,)

    async def _rejoin(self, found: FoundWorktree, notes: tuple[str, ...]) -> Workspace:
        """Return an existing workspace, its branch repaired, with notes on anything unusual."""
        checkout = found.checkout
        if checkout is None:  # its folder went away this moment
            raise WorkspaceError(f"the folder {found.path} disappeared just now: prepare it again")
        locations.mark(checkout.git_dir, self._repo)
        if not ownership.points_to(found.path, checkout.git_dir):
            aside = ownership.point_to(found.path, checkout.git_dir)
            where = f"; the repository in its place is now {aside}" if aside else ""
            notes += (f"the .git of {found.path} was missing or wrong and was repaired{where}",)
        if found.head is None:
            commit = await head_of(self._git, checkout) or found.base_commit or ""
            await self._trees.point(BRANCH_REFS + found.agent_id, commit)
            notes += (f"branch {found.branch} was missing and was recreated at {commit}",)
        at = (read_small(checkout.git_dir / "HEAD") or b"nothing").strip()
        if at != b"ref: " + (BRANCH_REFS + found.agent_id).encode():
            elsewhere = at.decode(errors="replace")
            notes += (f"the workspace is not on {found.branch} but on {elsewhere}",)
        return _workspace(found, notes + await self._planted(found.record, checkout))

    async def _planted(self, record: Record | None, checkout: Checkout) -> tuple[str, ...]:
        if record is None or record.programs is None:
            return ()
        view = await self._git.view(pinned(checkout.git_dir, checkout.folder))
        return new_programs(record.programs, view)

    async def _made_room(self, found: FoundWorktree) -> tuple[FoundWorktree, tuple[str, ...]]:
        """Clear the place where the workspace is to be made; refuse what is not ours."""
        notes = await self._trees.forget(found)
        ours = found.base_commit is not None
        if not ours and (aside := self._locations.set_aside(found.path)) is not None:
            ownership.drop_record(self.root, found.agent_id)
            found = replace(found, record=None)
            notes += (
                f"{found.path} was left by a repository that was here before; it is now {aside}",
            )
        refuse_foreign(found)
        notes += await self._clear(found)
        found = replace(found, path=self.root / found.agent_id, git_dir=None)
        if not found.vacant:
            raise WorkspaceError(occupied(found.path))
        return found, notes

    def _inside(self) -> tuple[str, ...]:
        """Return the exclude line that a folder within the repository needs."""
        if not self.root.is_relative_to(self._repo):
            return ()
        within = re.sub(r"([\\*?\[])", r"\\\1", str(self.root.relative_to(self._repo)))
        return (f"/{within}/",)

    async def _clear(self, found: FoundWorktree) -> tuple[str, ...]:
        """Clear the place of a former workspace of ours, saving the work in it."""
        if found.git_dir is None and found.vacant:
            return ()
        saved = await self._saver.all_of(found, "recovered", "folder without a worktree")
        await self._trees.take_down(found.path)
        if saved is None:
            return ()
        return (f"{found.path} was no longer a worktree; its files are saved in {saved.ref}",)


def _commit_id(head: str | None) -> str:
    if head is not None and not SHA.fullmatch(head):
        raise WorkspaceError(f"{head!r} is not a full commit id: take the head from a status")
    return head or "HEAD"


def _is_whole(found: FoundWorktree) -> bool:
    return found.base_commit is not None and found.checkout is not None and not found.half_made


def _workspace(found: FoundWorktree, notes: tuple[str, ...] = ()) -> Workspace:
    commit = found.base_commit or ""
    return Workspace(found.agent_id, found.path, found.branch, commit, found.base_branch, notes)
