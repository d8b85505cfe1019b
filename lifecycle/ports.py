"""What the loop needs from the outside, as narrow as it needs it.

The rooms below give these; `orchestrator.wiring` or the code that builds an `AgentLifecycleLoop`
joins them. CI has its own protocol in `ci.interface`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from lifecycle.settings import Network
    from runtime.branches import BranchMerge, PreparedMerge
    from runtime.commands import CommandResult
    from runtime.git.diff_parsing import FileChange
    from runtime.git.history import Unmerged
    from runtime.git.porcelain import ChangedFile, GitCommit, TreeStatus
    from runtime.process import AgentProcess, ProcessIdentity, SpawnOrder, StopReport
    from runtime.processes.activity import Activity
    from runtime.workspace import Workspace
    from runtime.workspaces.begun_merge import BegunMerge
    from runtime.workspaces.rebuild import Rebuilt
    from runtime.workspaces.saved_work import SavedCommit


class Bring(Protocol):
    """Has a branch here at a commit that was pushed; RuntimeFault says why it cannot."""

    async def __call__(self, branch: str, commit: str) -> None:
        """Fetch and move it."""
        ...


class Workspaces(Protocol):
    """One folder and branch per agent, kept across attempts."""

    async def prepare(self, agent_id: str, *, base: str | None = None) -> Workspace:
        """Return the agent's workspace, making or repairing it."""
        ...

    async def open(self, agent_id: str) -> Workspace | None:
        """Return the agent's workspace if it is there and whole."""
        ...

    async def is_whole(self, workspace: Workspace) -> bool:
        """Tell whether git, asked in the workspace, comes to it and to no other."""
        ...

    async def begin_merge(self, workspace: Workspace, commit: str) -> BegunMerge | None:
        """Begin to merge a commit for the agent to finish; None if its branch holds it."""
        ...

    async def move_on(self, workspace: Workspace, commit: str, base: str) -> Workspace | None:
        """Bring the branch to a commit on top of it; None where something is in the way."""
        ...

    async def unlock(self, workspace: Workspace) -> None:
        """Remove what a killed git left locked; nobody may be alive in the workspace."""
        ...

    async def status(self, workspace: Workspace) -> TreeStatus:
        """Say where the workspace stands."""
        ...

    async def recent_commits(
        self, workspace: Workspace, limit: int = 10, *, head: str | None = None
    ) -> tuple[GitCommit, ...]:
        """Return the newest commits since the base."""
        ...

    async def changed_files(
        self, workspace: Workspace, *, head: str | None = None, bases: Sequence[str] = ()
    ) -> tuple[ChangedFile, ...]:
        """Return the files that the work changed, without what came with a merge of a base."""
        ...

    async def loose(
        self, workspace: Workspace, files: Sequence[ChangedFile]
    ) -> tuple[ChangedFile, ...]:
        """Return those that are repositories whose commit would be gone with the workspace."""
        ...

    async def save_dirty(
        self, workspace: Workspace, attempt: int, *, reason: str
    ) -> SavedCommit | None:
        """Keep uncommitted work under a ref; None when there is none."""
        ...

    async def rebuild(self, agent_id: str, attempt: int) -> Rebuilt | None:
        """Make a workspace again that cannot be read, its files saved; None if it can be read."""
        ...

    async def strip(self, workspace: Workspace, commit: str) -> bool:
        """Leave just this commit there; False where that is not so and work would be lost."""
        ...

    async def remove(self, agent_id: str, *, drop_branch: bool, attempt: int) -> SavedCommit | None:
        """Save what is not merged, then remove the workspace."""
        ...


class Terminals(Protocol):
    """Agent processes, each with everything it starts."""

    async def spawn(self, order: SpawnOrder) -> AgentProcess:
        """Start one."""
        ...

    async def stop_identity(self, identity: ProcessIdentity, grace: float) -> StopReport:
        """End what is left of a process of an earlier runner."""
        ...

    def find_marked(self, mark: str) -> tuple[ProcessIdentity, ...]:
        """Find the living processes started under this spawn id."""
        ...

    def find_all_marked(self) -> tuple[ProcessIdentity, ...]:
        """Find the living processes of any attempt."""
        ...

    def sample(self) -> Mapping[str, Activity]:
        """Measure all live processes, by spawn id."""
        ...

    def live(self) -> Sequence[AgentProcess]:
        """List the processes of which something may be left."""
        ...

    async def aclose(self, grace: float = 10.0) -> None:
        """Stop everything that is live."""
        ...


class BranchHistory(Protocol):
    """What commits build on which."""

    async def unmerged(self, tips: Collection[str], base: str) -> Unmerged:
        """Return what these commits hold and the base does not."""
        ...

    async def agent_tips(self) -> Mapping[str, tuple[str, ...]]:
        """Return the commits at which branches of agents are, or were when they were removed."""
        ...

    async def merged_as(self, commit: str, into: str) -> str | None:
        """Return the commit by which a branch came to hold another; None if it does not."""
        ...

    async def between(self, old: str, new: str, limit: int) -> tuple[tuple[str, str], ...]:
        """Return what came onto a branch since a commit: ids and subjects, the newest first."""
        ...

    async def tree_of(self, commit: str) -> str:
        """Return the id of a commit's files."""
        ...

    async def text_of(self, commit: str, path: str, most: int) -> str | None:
        """Return a file of a commit; None if it is no regular file, no text or longer than this."""
        ...

    async def holds(self, commit: str, other: str) -> bool:
        """Tell whether a commit or branch has another among its ancestors."""
        ...


class BranchDiff(Protocol):
    """What differs between commits."""

    async def files(self, old: str, new: str) -> tuple[FileChange, ...]:
        """Return the files that differ, without their lines."""
        ...

    async def hunks(
        self, old: str, new: str, files: Sequence[FileChange]
    ) -> tuple[FileChange, ...]:
        """Return these files with their lines."""
        ...

    async def taken_over(self, began: str, head: str, bases: Sequence[str]) -> tuple[str, ...]:
        """Return the newest commits that a work has from elsewhere."""
        ...


class Branches(Protocol):
    """The branches of the repository."""

    @property
    def history(self) -> BranchHistory:
        """Ask what builds on what."""
        ...

    @property
    def diff(self) -> BranchDiff:
        """Ask what differs between commits."""
        ...

    async def head(self, branch: str) -> str | None:
        """Return the branch's newest commit."""
        ...

    async def merge(
        self, branch: str, into: str, *, message: str, expected_head: str | None = None
    ) -> BranchMerge:
        """Merge completely or change nothing."""
        ...

    async def prepare(
        self, branch: str, into: str, *, message: str, expected_head: str | None = None
    ) -> PreparedMerge:
        """Make the merge commit; no branch is moved."""
        ...

    async def carry_out(self, prepared: PreparedMerge) -> BranchMerge:
        """Let the target be the prepared commit, unless it moved meanwhile."""
        ...

    async def agents(self) -> tuple[str, ...]:
        """Return whose branches were made here."""
        ...

    async def commit_exists(self, sha: str) -> bool:
        """Tell whether this full commit id is in the repository."""
        ...

    async def fetched(self, branch: str) -> str | None:
        """Return where the branch was at the forge when it was fetched last."""
        ...

    async def is_conflicted(self, branch: str, into: str) -> tuple[str, ...]:
        """Return the files in which a merge would conflict; nothing is changed."""
        ...

    async def is_contained(self, branch: str, into: str) -> bool:
        """Tell whether a branch holds all commits of another already."""
        ...

    async def held_by(self, commit: str) -> tuple[str, str] | None:
        """Return the branch that the user has checked out, and its head, if the commit is in it."""
        ...

    async def join(self, commits: tuple[str, ...], *, message: str) -> BranchMerge:
        """Return a commit that holds all of these, moving no branch."""
        ...


class Checkouts(Protocol):
    """Folders with the files of one commit, laid out for commands that judge it."""

    def folder(self, name: str) -> Path:
        """Say where the checkout of this name is, there or not."""
        ...

    async def lay_out(self, name: str, commit: str, *, keep: Collection[str] = ()) -> Path:
        """Lay out a commit and nothing else, except what is to be kept."""
        ...

    async def changed(self, name: str) -> tuple[str, ...]:
        """Return the files of the commit that are not as they were laid out."""
        ...

    async def left(self, name: str) -> tuple[str, ...]:
        """Return what commands left there and the commit does not ignore."""
        ...

    async def renew_git(self, name: str) -> None:
        """Give the commands to come a repository in which no earlier one wrote anything."""
        ...

    async def untracked(self, name: str) -> tuple[str, ...]:
        """Return what else is there."""
        ...

    async def pointers(
        self, name: str, commit: str, files: Collection[str], *, followed: bool = False
    ) -> tuple[str, ...]:
        """Return those of the files that a commit holds by a pointer alone, as with git-lfs."""
        ...

    async def hold(self, name: str, files: Collection[str]) -> None:
        """Keep files of the commit as they are now, for as long as `keep` names all of them."""
        ...

    async def restore(self, name: str, commit: str, files: Collection[str]) -> None:
        """Put the files as they are in another commit in their place."""
        ...

    async def remove(self, name: str) -> None:
        """Remove the checkout."""
        ...


class TaskCommands(Protocol):
    """Shell commands of the task: gates and tests."""

    async def run(  # noqa: PLR0913  # all by name
        self,
        command: str,
        *,
        cwd: Path,
        log: Path,
        timeout: float,  # noqa: ASYNC109  # the limit is the process tree's, not the caller's
        env: Mapping[str, str] | None = None,
        mark: str,
        network: Network | None = None,
        fixed: tuple[Path, ...] = (),
        made: tuple[str, ...] | None = (),
    ) -> CommandResult:
        """Run to the end and leave nothing behind.

        `network` instead of what agents have; what is `fixed` cannot be written in a sandbox. Of
        the folder only programs among what a set-up `made` are found by their names; None is all.
        """
        ...


class Ports(Protocol):
    """A range of ports for each lifecycle."""

    def env_of(self, agent_id: str) -> dict[str, str]:
        """Return the variable that tells of it."""
        ...

    def give_back(self, agent_id: str) -> None:
        """Let others have it."""
        ...
