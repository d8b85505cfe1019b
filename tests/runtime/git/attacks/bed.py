"""A repository with an agent at work in it, and all that the runner's git does with the two."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from ci.local.provider import LocalCIProvider
from ci.ports import ProviderPorts
from ci.verdict import VerdictStatus
from lifecycle.engine.ci_ports import _Repository
from runtime.branches import BranchManager
from runtime.git.git import Git, inspect_repository
from runtime.workspace import WorkspaceManager
from runtime.workspaces.judging_checkouts import JudgingCheckouts
from tests.ci.ports import JsonDocuments, ShellCommands

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ci.interface import MergeResult
    from lifecycle.setup.builds import BuildSetups
    from runtime.workspace import Workspace

LINES = "".join(f"line {number}\n" for number in range(20))


def plain_git(
    folder: Path, *args: str, env: Mapping[str, str] | None = None, stdin: bytes = b""
) -> str:
    """Run git as the user or the agent would; its failure is part of some attacks."""
    done = subprocess.run(
        ("git", *args),
        cwd=folder,
        env={**os.environ, "GIT_TERMINAL_PROMPT": "0", **(env or {})},
        input=stdin,
        capture_output=True,
        check=False,
        timeout=30,
    )
    return done.stdout.decode(errors="replace").strip()


def new_repository(repo: Path) -> None:
    """Make a repository with two branches that changed different lines of one file."""
    repo.mkdir()
    plain_git(repo, "init", "-q", "-b", "main", "--template=")
    (repo / ".git" / "info").mkdir()
    plain_git(repo, "config", "user.name", "Test")
    plain_git(repo, "config", "user.email", "test@example.org")
    (repo / "notes.txt").write_text(LINES)
    (repo / "app.py").write_text("print(1)\n")
    plain_git(repo, "add", ".")
    plain_git(repo, "commit", "-qm", "First commit")
    plain_git(repo, "checkout", "-q", "-b", "side")
    (repo / "notes.txt").write_text(LINES.replace("line 19", "line 19 of side"))
    plain_git(repo, "commit", "-qam", "Change the end")
    plain_git(repo, "checkout", "-q", "main")


class _Checkouts(JudgingCheckouts):
    async def set_up(self, name: str, commit: str) -> None:
        del name, commit


@dataclass
class Bed:
    """One repository under attack."""

    top: Path
    repo: Path
    workspace: Workspace
    environ: dict[str, str]

    @property
    def work(self) -> Path:
        """The folder that the agent owns."""
        return self.workspace.path

    @property
    def common(self) -> Path:
        """The repository's own folder, which an agent without a container can write, too."""
        return self.repo / ".git"

    @property
    def own(self) -> Path:
        """The git folder of the agent's worktree."""
        return self.common / "worktrees" / "a"

    @property
    def mark(self) -> Path:
        """Written by every planted program that is run."""
        return self.top / "mark"

    @property
    def fired(self) -> bool:
        """Whether a planted program was run."""
        return self.mark.exists()

    def program(self, name: str = "planted", folder: Path | None = None) -> str:
        """Write a program that leaves the mark, wherever it is run."""
        path = (folder or self.top) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_text(f"#!/bin/sh\necho \"$0 $*\" >> '{self.mark}'\nexit 0\n")
        path.chmod(0o755)
        return str(path)

    def config(self, key: str, value: str | None = None) -> None:
        """Set a key of the repository's configuration, to the planted program by default."""
        self.git("config", key, self.program() if value is None else value)

    def git(self, *args: str, **more: Any) -> str:
        """Run the agent's git in its workspace."""
        return plain_git(self.work, *args, **more)

    def attributes(self, line: str) -> None:
        """Commit attributes, as an agent may in its own branch."""
        (self.work / ".gitattributes").write_text(line + "\n")
        self.git("add", ".gitattributes")
        self.git("commit", "-qm", "Attributes", ".gitattributes")

    def dirty(self) -> None:
        """Leave uncommitted work of every kind."""
        (self.work / "notes.txt").write_text(LINES.replace("line 10", "line ten, in a hurry"))
        (self.work / "app.py").unlink(missing_ok=True)
        (self.work / "new.txt").write_text("new\n")

    def commit(self) -> None:
        """Commit work as the agent, in a way that no later attack matters to."""
        (self.work / "notes.txt").write_text(LINES.replace("line 0", "line 0 of the agent"))
        (self.work / "app.py").write_text("print(2)\n")
        self.git("commit", "-qam", "Work of the agent")


async def new_bed(top: Path, template: Path) -> Bed:
    """Make a bed with a workspace in which an agent has made one commit."""
    repo = top / "repo"
    shutil.copytree(template, repo)  # makes the folders above, too
    plain_git(repo, "update-index", "-q", "--refresh")
    workspace = await WorkspaceManager(repo).prepare("a")
    bed = Bed(top, repo, workspace, dict(os.environ))
    bed.commit()
    return bed


async def everything(bed: Bed, *, told: bool, refused: str = "") -> None:
    """Do all that a runner does with a repository and a workspace from here to their end."""
    git = Git(bed.environ, home=bed.repo / ".loopwright" / "git")
    manager, branches = WorkspaceManager(bed.repo, git=git), BranchManager(bed.repo, git=git)
    facts = inspect_repository(bed.repo)
    assert (facts.root, facts.branch) == (bed.repo, "main")

    workspace = await manager.prepare("a")
    assert workspace == bed.workspace
    assert bool(workspace.notes) is told, workspace.notes
    bed.dirty()
    assert await manager.open("a") == workspace
    assert await manager.is_whole(workspace)
    await manager.unlock(workspace)
    await manager.planted(workspace)
    status = await manager.status(workspace)
    assert {"app.py", "notes.txt"} <= set(status.changed)
    assert "new.txt" in status.untracked
    commits = await manager.recent_commits(workspace)
    assert commits[-1].subject == "Work of the agent"
    assert {"notes.txt", "app.py"} <= {each.path for each in await manager.changed_files(workspace)}
    saved = await manager.save_dirty(workspace, 1, reason="attempt ended")
    assert saved is not None
    assert saved.problems == ""
    assert {"app.py", "notes.txt", "new.txt"} <= set(saved.files)

    head = await branches.head("agent/a")
    assert head is not None
    assert await branches.commit_exists(head)
    assert await branches.is_conflicted("agent/a", "side") == ()
    assert not await branches.is_contained("agent/a", "side")
    joined = await branches.join((head, "side"), message="Both")
    assert joined.merged
    checkouts = _Checkouts(bed.repo, root=bed.repo.parent / "judging", git=git)
    laid_out = await checkouts.lay_out("a", head)
    assert (laid_out / "app.py").read_text() == "print(2)\n"
    other = await manager.prepare("b", base="agent/a")
    assert (other.path / "app.py").read_text() == "print(2)\n"
    assert (await manager.status(other)).dirty == ()
    begun = await manager.begin_merge(other, await branches.head("side") or "")
    assert begun is not None
    assert begun.begun

    merged = await branches.merge("agent/a", "side", message="Merge the work")
    assert merged.merged
    result = await _pass_ci(bed, _Repository(branches, cast("BuildSetups", checkouts)))
    assert (result.merged, refused in result.reason) == (not refused, True), result.reason
    assert (bed.repo / "app.py").read_text() == f"print({1 if refused else 2})\n"
    assert (await manager.list_ours())[0].agent_id == "a"
    await manager.sweep(set())
    assert await manager.remove("a", drop_branch=True, attempt=2) is not None
    assert await manager.remove("b", drop_branch=False, attempt=1) is not None
    assert not bed.work.exists()
    assert await branches.delete("agent/b")


async def _pass_ci(bed: Bed, repository: _Repository) -> MergeResult:
    """Build the agent's commit from a clean checkout, and merge it into the user's checkout."""
    clock = itertools.count(1_000.0)
    provider = LocalCIProvider(bed.repo, test_command="grep -q 2 app.py", base="main")
    provider.bind(
        ProviderPorts(
            repository=repository,
            commands=ShellCommands(),
            documents=JsonDocuments(),
            now=lambda: next(clock),
            folder=bed.top / "ci",
        )
    )
    told = asyncio.Event()
    provider.subscribe(lambda _: told.set())
    await provider.start()
    try:
        pull = await provider.create_pull_request(branch="agent/a", base="main", title="Work")
        async with asyncio.timeout(20):
            while (await provider.verdict(pull.head_sha)).status is VerdictStatus.PENDING:
                await told.wait()
                told.clear()
        return await provider.merge(pull.number)
    finally:
        await provider.aclose()
