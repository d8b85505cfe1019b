"""The worktrees, branches and refs of one repository, as git keeps them.

Owns each single change to them: adding, removing, deleting. `runtime.workspace` decides when.
It must not touch the user's checkout.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.errors import CheckedOutError, GitError, RepositoryError, WorkspaceError
from runtime.git import ownership
from runtime.git.git import IS_BARE, IS_CALLED_BARE, NO_COMMIT, NOT_A_REPOSITORY, SLOW
from runtime.git.ownership import BASE_REFS, BRANCH_REFS, SAVED_REFS, Record, checked_id
from runtime.git.porcelain import STATUS, parse_status, some_of
from runtime.git.safe_view import RepositoryLocation, locate
from runtime.remove_tree import remove_tree
from runtime.workspaces import locations, worktrees_dir
from runtime.workspaces.status import Checkout, unfiltered_files

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from runtime.git.git import Git
    from runtime.git.safe_view import SafeView
    from runtime.workspaces.locations import WorkspaceLocations


@dataclass(frozen=True, slots=True)
class FoundWorktree:
    """The parts of one agent's workspace that exist: all, some or none."""

    agent_id: str
    path: Path
    base_commit: str | None
    """Set if and only if we made the branch of this agent."""
    head: str | None
    """The commit of the agent's branch."""
    checked_out_at: str
    git_dir: Path | None
    record: Record | None
    stale: tuple[tuple[Path, Path], ...] = ()
    """See `runtime.workspaces.locations.WorkspaceLocation`."""

    @property
    def branch(self) -> str:
        """The agent's branch, existing or not."""
        return f"agent/{self.agent_id}"

    @property
    def base_branch(self) -> str | None:
        """The branch it started from, if recorded."""
        return self.record.base_branch if self.record else None

    @property
    def half_made(self) -> bool:
        """Whether its creation was interrupted, so that no agent was ever in it."""
        return self.record is not None and not self.record.ready

    @property
    def checkout(self) -> Checkout | None:
        """The workspace as git sees it, if it is registered and its folder exists."""
        if self.git_dir is None or not self.path.is_dir():
            return None
        return Checkout(self.git_dir, self.path)

    @property
    def vacant(self) -> bool:
        """Whether nothing would be lost by creating a workspace at its place."""
        if not os.path.lexists(self.path):
            return True
        return self.path.is_dir() and not any(self.path.iterdir())


@dataclass(frozen=True, slots=True)
class WorktreeStart:
    """Where a new workspace starts."""

    commit: str
    branch: str | None
    notes: tuple[str, ...]


class Worktrees:
    """The worktrees that one repository's agents work in."""

    def __init__(
        self,
        repo: Path,
        locations: WorkspaceLocations,
        git: Git,
        own_files: Callable[[], Collection[str]] = frozenset,
    ) -> None:
        self._own_files = own_files
        self._locations = locations
        self._repo = repo
        self._git = git
        self._here: RepositoryLocation | None = None
        # git's own list of worktrees is not safe against two changes at once
        self._registering = asyncio.Lock()

    async def common_dir(self) -> Path:
        """Return the git folder that all worktrees share."""
        return (await self.here()).common_dir

    async def here(self) -> RepositoryLocation:
        """Return where the user's checkout is; RepositoryError when there is none."""
        if self._here is None:
            worktrees_dir.require_own(self._locations.root, self._repo)
            place = locate(self._repo)
            if place is None:
                raise RepositoryError(NOT_A_REPOSITORY.format(path=self._repo))
            view = await self._git.view(place)
            if place.root is None:
                raise RepositoryError(IS_BARE.format(path=self._repo))
            if view.bare and place.git_dir == place.common_dir:
                config = place.git_dir / "config"
                raise RepositoryError(IS_CALLED_BARE.format(config=config, path=self._repo))
            common = Path(os.path.realpath(place.common_dir))  # noqa: ASYNC240  # once, and local
            self._here = RepositoryLocation(place.root, place.git_dir, common)
        return self._here

    async def view(self) -> SafeView:
        """Return the safe view of the repository, up to date."""
        return await self._git.view(await self.here())

    async def refs(self, *patterns: str) -> dict[str, tuple[str, str]]:
        """Return refs by name: their commit, and the folder where a branch is checked out."""
        listing = await self._ask("for-each-ref", "--format=%(refname) %(objectname)", *patterns)
        rows = [line.split(" ") for line in listing.splitlines()]
        places = ownership.checkouts(await self.here()) if rows else {}
        folders = {ref: str(place.root) for ref, place in places.items()}
        return {ref: (commit, folders.get(ref, "")) for ref, commit in rows}

    async def find(self, agent_id: str) -> FoundWorktree:
        """Find the workspace of this agent, even if it was moved."""
        location = self._locations.find(await self.common_dir(), checked_id(agent_id))
        base_ref, branch_ref = BASE_REFS + agent_id, BRANCH_REFS + agent_id
        refs = await self.refs(base_ref, branch_ref)
        head, checked_out_at = refs.get(branch_ref, (None, ""))
        if checked_out_at in {str(folder) for folder, _ in location.stale}:
            checked_out_at = ""
        return FoundWorktree(
            agent_id=agent_id,
            path=location.folder,
            base_commit=refs[base_ref][0] if base_ref in refs else None,
            head=head,
            checked_out_at=checked_out_at,
            git_dir=location.git_dir,
            record=location.record,
            stale=location.stale,
        )

    async def starting_point(self, base: str | None) -> WorktreeStart:
        """Find the commit of a branch or revision; without one, of the user's checkout."""
        here = parse_status((await self._git.run(*STATUS, cwd=self._repo)).stdout, self._repo)
        if base is None and not here.head:
            raise RepositoryError(NO_COMMIT.format(path=self._repo))
        if base is None and here.branch is None:
            start = WorktreeStart(
                here.head, None, (f"{self._repo} is not on a branch: {here.head} is the base",)
            )
        elif base is None:
            start = WorktreeStart(here.head, here.branch, ())
        else:
            start = await self._named(base)
        if start.branch != here.branch or not here.dirty:
            return start
        own = self._own_files()
        missing = [path for path in here.dirty if path not in own]
        if not missing:
            return start
        note = (
            f"{len(missing)} uncommitted in {self._repo} and therefore not in the workspace: "
            f"{some_of(missing)}"
        )
        return WorktreeStart(start.commit, start.branch, (*start.notes, note))

    async def target(self, base: str | None, commit: str) -> str | None:
        """Return the branch asked for, else that of the user's checkout, if it contains the commit.

        Never a branch of an agent, which may be checked out just to look at it.
        """
        here = await self._git.run("symbolic-ref", "--quiet", "HEAD", cwd=self._repo, check=False)
        for ref in (f"refs/heads/{base}" if base else "", here.text):
            asked = ("merge-base", "--is-ancestor", commit, ref)
            if not ref.startswith("refs/heads/") or ref.startswith(BRANCH_REFS):
                continue
            if (await self._git.run(*asked, cwd=self._repo, check=False)).code == 0:
                return ref.removeprefix("refs/heads/")
        return None

    async def _named(self, base: str) -> WorktreeStart:
        for name, branch in ((f"refs/heads/{base}", base), (f"{base}^{{commit}}", None)):
            verb = ("show-ref", "--hash") if branch else ("rev-parse", "--end-of-options")
            found = await self._git.run(
                verb[0], "--verify", verb[1], name, cwd=self._repo, check=False
            )
            if found.code == 0:
                return WorktreeStart(found.text, branch, ())
        newest = await self._ask(
            "for-each-ref", "--count=6", "--sort=-committerdate", "--format=%(refname:short)",
            "refs/heads",
        )  # fmt: skip
        if not newest:
            raise RepositoryError(NO_COMMIT.format(path=self._repo))
        raise WorkspaceError(
            f"there is no branch or commit {base!r} in {self._repo} to start from; branches there: "
            f"{some_of(newest.splitlines())}"
        )

    async def add(self, found: FoundWorktree, commit: str) -> tuple[str, ...]:
        """Register and fill the worktree, on the agent's branch if it exists, else a new one.

        Returns what a person should know about its files.
        """
        target = (
            ("--no-track", "-b", found.branch, str(found.path), commit)
            if found.head is None
            else (str(found.path), found.branch)
        )
        common = await self.common_dir()
        (common / "worktrees").mkdir(exist_ok=True)
        try:
            async with self._registering:
                await self._ask("worktree", "add", "--quiet", "--no-checkout", *target)
        except GitError as error:
            raise WorkspaceError(
                f"git cannot make the workspace {found.path}: {error}\n(a branch named 'agent' "
                f"conflicts with {found.branch}: rename it)"
            ) from error
        git_dir = ownership.registration(common, found.path)
        if git_dir is None:
            raise WorkspaceError(f"git did not register the workspace {found.path}: prepare again")
        locations.mark(git_dir, self._repo)
        # Git wrote the path through the safe view, which the agent must not use.
        ownership.point_to(found.path, git_dir)
        checkout = Checkout(git_dir, found.path)
        await self._git.run(
            "reset", "--hard", "--quiet", cwd=found.path, env=checkout.env, timeout=SLOW
        )
        return await self._raw_files(checkout)

    async def _raw_files(self, checkout: Checkout) -> tuple[str, ...]:
        view = await self.view()
        if not view.drivers:
            return ()
        listing = await self._git.run("ls-files", "-z", cwd=checkout.folder, env=checkout.env)
        raw = await unfiltered_files(self._git, checkout, view, listing.stdout)
        if not raw:
            return ()
        note = (
            f"no git filters are run here, so these files are as the repository stores them: "
            f"{some_of(raw)}. If the task needs their content, start it with a command that "
            "fetches it, for example `git lfs pull`"
        )
        return (note,)

    async def forget(self, found: FoundWorktree) -> tuple[str, ...]:
        """Unregister worktrees inherited from another repository; no other folder is touched."""
        notes = []
        async with self._registering:
            for folder, git_dir in found.stale:
                other = locations.repository_of(folder)
                whose = f"is a workspace of the repository {other}" if other else "is gone"
                notes.append(
                    f"{folder} {whose}; {found.agent_id} gets a new one from {found.branch}, "
                    "without what was not committed there"
                )
                await asyncio.to_thread(remove_tree, git_dir)
        return tuple(notes)

    async def without_link(self, agent_id: str) -> tuple[str, ...]:
        """Remove a link in the place of a workspace; its target is not read."""
        return self._locations.without_link(await self.common_dir(), checked_id(agent_id))

    async def take_down(self, path: Path) -> None:
        """Remove the worktree's folder and registration, whichever still exists."""
        common = await self.common_dir()
        removal = ("worktree", "remove", "--force", "--force", str(path))
        async with self._registering:
            if ownership.registration(common, path) is not None:
                # It refuses a folder whose pointer is broken: then the folder is removed first.
                with suppress(GitError):
                    await self._ask(*removal)
            await asyncio.to_thread(remove_tree, path)
            usual = common / "worktrees" / path.name
            if usual.is_symlink():  # not made by git, and it would block a new one
                usual.unlink()
            if (git_dir := ownership.registration(common, path)) is not None:
                await asyncio.to_thread(remove_tree, git_dir)

    async def point(self, ref: str, commit: str) -> None:
        """Set the ref to the commit."""
        await self._ask("update-ref", ref, commit)

    async def drop_branch(self, agent_id: str) -> None:
        """Delete branch and base ref in one step; the branch's head is kept under a saved ref."""
        branch_ref, base_ref = BRANCH_REFS + agent_id, BASE_REFS + agent_id
        kept_ref = f"{SAVED_REFS}{agent_id}/head"
        refs = await self.refs(branch_ref, base_ref, kept_ref)
        head, checked_out_at = refs.get(branch_ref, ("", ""))
        if checked_out_at:
            raise WorkspaceError(
                f"branch agent/{agent_id} is checked out at {checked_out_at} and was kept: switch "
                "that checkout to another branch, and it can be removed"
            )
        steps = [f"delete {base_ref}"] if base_ref in refs else []
        if head:
            steps += [f"update {kept_ref} {head}", f"delete {branch_ref} {head}"]
            earlier, _ = refs.get(kept_ref, (head, ""))
            if earlier != head:
                steps.append(f"update {kept_ref}-{earlier[:12]} {earlier}")
        await self._git.run(
            "update-ref", "--stdin", cwd=self._repo, input="\n".join([*steps, ""]).encode()
        )

    async def _ask(self, *args: str) -> str:
        return (await self._git.run(*args, cwd=self._repo, timeout=SLOW)).text


def occupied(path: Path) -> str:
    """Say whose the place of a workspace is, and what to do."""
    if (other := locations.repository_of(path)) is not None:
        return (
            f"{path} is a workspace of the repository {other}: choose another agent id, or set "
            "worktrees_dir to another folder here"
        )
    return f"{path} exists and is not a workspace of this agent: move it away or delete it"


def refuse_foreign(found: FoundWorktree) -> None:
    """Raise WorkspaceError where a branch or folder is not ours, or is in use."""
    ours = found.base_commit is not None
    if not ours and found.head is not None:
        raise WorkspaceError(
            f"branch {found.branch} exists and was not made for this agent: rename it (`git branch "
            f"-m {found.branch} NEW-NAME`), delete it, or choose another agent id"
        )
    if not ours and not found.vacant:
        raise WorkspaceError(occupied(found.path))
    if found.checked_out_at not in ("", str(found.path)):
        there = os.path.lexists(found.checked_out_at)
        to_do = "switch that checkout to another branch" if there else "`git worktree prune`"
        gone = "" if there else ", which is not there"
        raise CheckedOutError(
            f"branch {found.branch} is checked out at {found.checked_out_at}{gone}: {to_do}, and "
            "it can be worked on again"
        )
