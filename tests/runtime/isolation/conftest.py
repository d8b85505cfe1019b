"""An agent's workspace in a real repository, and the sandbox around it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from runtime.isolation.workspace_sandbox import OpenedPaths, SandboxPaths, around
from runtime.workspaces.worktrees_dir import claim, default_worktrees_dir
from tests.runtime.isolation.inside import given

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runtime.isolation.sandbox import Sandbox

IDENTITY = {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", "Ada"), ("EMAIL", "ada@example.org"))
}


CLOSED = OpenedPaths()


@dataclass(frozen=True)
class Site:
    """A repository with two agents in it."""

    repo: Path
    home: Path
    own: Path
    other: Path

    @property
    def place(self) -> SandboxPaths:
        return SandboxPaths(self.own, self.repo / ".loopwright", self.home, self.repo / ".git")

    def sandbox(self, opened: OpenedPaths = CLOSED, *, network: bool = False) -> Sandbox | None:
        """Return the sandbox of one's own workspace; None where this machine has none."""
        choice = given(network=network)
        if choice is None:
            return None
        return around(choice, self.place, opened=opened)


@pytest.fixture
def site(git_repo: Path, git_home: Path, git_cli: Callable[..., str]) -> Site:
    worktrees = default_worktrees_dir(git_repo)
    claim(worktrees, git_repo)
    own, other = (worktrees / name for name in ("own", "other"))
    for folder in (own, other):
        git_cli(git_repo, "worktree", "add", "-q", "-b", f"agent/{folder.name}", str(folder))
    # Some of the history is packed, as in any repository that is in use.
    git_cli(git_repo, "repack", "-adq")
    return Site(git_repo, git_home, own, other)
