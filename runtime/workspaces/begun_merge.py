"""Starts a merge in a workspace for an agent to finish, or fast-forwards the workspace.

Owns when there is nothing to start. It must not commit, nor touch uncommitted files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.errors import GitError
from runtime.git.git import SLOW
from runtime.git.porcelain import LOG_FORMAT, parse_log, shown_names
from runtime.workspaces.saved_work import IDENTITY
from runtime.workspaces.status import status_of

if TYPE_CHECKING:
    from runtime.git.git import Git
    from runtime.git.porcelain import GitCommit
    from runtime.workspaces.status import Checkout

LISTED = 20
"""Commits of each side that are listed."""


@dataclass(frozen=True, slots=True)
class BegunMerge:
    """A merge that an agent is to finish."""

    commit: str
    """What is merged into the agent's branch."""
    begun: bool
    """Whether it is in progress in the workspace; else the agent has to start it."""
    conflicts: tuple[str, ...] = ()
    """Files with markers of both sides."""
    ours: tuple[GitCommit, ...] = ()
    """Commits that only the agent's branch holds, the newest first."""
    theirs: tuple[GitCommit, ...] = ()
    """Commits that only the other side holds."""


async def begin_merge(git: Git, checkout: Checkout, branch: str, commit: str) -> BegunMerge | None:
    """Start merging a commit, unless in progress; None if the branch contains it already.

    With uncommitted files, or another branch checked out, nothing is started.
    """

    async def ask(*args: str) -> str:
        result = await git.run(*args, cwd=checkout.folder, env=checkout.env, check=False)
        return result.text if result.code == 0 else ""

    async def only(side: str, other: str) -> tuple[GitCommit, ...]:
        asked = ("log", "-z", LOG_FORMAT, f"--max-count={LISTED}", f"{other}..{side}")
        result = await git.run(*asked, cwd=checkout.folder, env=checkout.env)
        return parse_log(result.stdout)

    async def unmerged() -> tuple[str, ...]:
        # As the agent's own index says: the agent will see that, and nothing here depends on it.
        asked = ("diff", "--name-only", "--diff-filter=U", "-z")
        result = await git.run(*asked, cwd=checkout.folder, env=checkout.env, check=False)
        return shown_names(result.stdout)

    status = await status_of(git, checkout)
    standing = await ask("rev-parse", "--verify", "--quiet", "MERGE_HEAD")
    if not standing:
        held = ("merge-base", "--is-ancestor", commit, status.head)
        found = await git.run(*held, cwd=checkout.folder, env=checkout.env, check=False)
        if found.code == 0:
            return None
    begun = bool(standing)
    if not begun and not status.dirty and status.branch == branch:
        careful = ("--no-commit", "--no-ff", "--no-autostash", "--no-verify-signatures", "--quiet")
        merged = await git.run(
            "merge", *careful, commit, cwd=checkout.folder, env={**checkout.env, **IDENTITY},
            check=False, timeout=SLOW,
        )  # fmt: skip
        standing = await ask("rev-parse", "--verify", "--quiet", "MERGE_HEAD")
        if not standing:
            raise GitError(
                f"the merge of {commit} cannot be started in {checkout.folder}: "
                f"{merged.stderr.strip()}",
                code=merged.code,
                stderr=merged.stderr,
            )
        begun = True
    other = standing or commit
    return BegunMerge(
        commit=other,
        begun=begun,
        conflicts=await unmerged(),
        ours=await only(status.head, other),
        theirs=await only(other, status.head),
    )


async def move_on(git: Git, checkout: Checkout, branch: str, commit: str) -> bool:
    """Fast-forward the checked out branch to a commit; False if something blocks it.

    Uncommitted files stay as they are; if the commit changes the same files, nothing moves.
    """
    status = await status_of(git, checkout)
    if status.head == commit:
        return True
    if status.branch != branch:
        return False
    careful = ("--ff-only", "--no-autostash", "--no-verify-signatures", "--quiet")
    moved = await git.run(
        "merge", *careful, commit, cwd=checkout.folder, env=checkout.env, check=False, timeout=SLOW
    )
    return moved.code == 0
