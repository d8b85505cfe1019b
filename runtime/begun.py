"""Begins a merge in a workspace, for an agent to finish, or moves it on to one that is made.

Owns when there is nothing to begin. It commits nothing, and it never touches what is uncommitted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.errors import GitError
from runtime.saving import IDENTITY
from runtime.status import SLOW, status_of
from runtime.tree import LOG_FORMAT, parse_log, shown

if TYPE_CHECKING:
    from runtime.git import Git
    from runtime.status import Checkout
    from runtime.tree import Commit

LISTED = 20
"""Commits of each side that are named."""


@dataclass(frozen=True, slots=True)
class BegunMerge:
    """A merge that an agent is to finish."""

    commit: str
    """What is merged into the agent's branch."""
    begun: bool
    """Whether it stands begun in the workspace; else the agent begins it by itself."""
    conflicts: tuple[str, ...] = ()
    """Files with markers of both sides."""
    ours: tuple[Commit, ...] = ()
    """Commits that only the agent's branch holds, the newest first."""
    theirs: tuple[Commit, ...] = ()
    """Commits that only the other side holds."""


async def begin_merge(git: Git, checkout: Checkout, branch: str, commit: str) -> BegunMerge | None:
    """Begin to merge a commit, unless it stands begun; None if the branch holds it already.

    Where something is uncommitted, or another branch is checked out, nothing is begun.
    """

    async def ask(*args: str) -> str:
        result = await git.run(*args, cwd=checkout.folder, env=checkout.env, check=False)
        return result.text if result.code == 0 else ""

    async def only(side: str, other: str) -> tuple[Commit, ...]:
        asked = ("log", "-z", LOG_FORMAT, f"--max-count={LISTED}", f"{other}..{side}")
        result = await git.run(*asked, cwd=checkout.folder, env=checkout.env)
        return parse_log(result.stdout)

    async def unmerged() -> tuple[str, ...]:
        # As the agent's own index says: it is what the agent will see, and decides nothing here.
        asked = ("diff", "--name-only", "--diff-filter=U", "-z")
        result = await git.run(*asked, cwd=checkout.folder, env=checkout.env, check=False)
        return tuple(shown(name) for name in result.stdout.split(b"\0") if name)

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
                f"the merge of {commit} cannot be begun in {checkout.folder}: "
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
    """Move the checked out branch on to a commit on top of it; False where something is in the way.

    What is uncommitted stays as it is; where the commit changes the same files, nothing is moved.
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
