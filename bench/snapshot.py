"""What is known about a workspace after an attempt, against git with an index of its own there.

An index that an agent can write is not believed, so the floor reads each file, too.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from typing import TYPE_CHECKING

from bench.measure import Options, Row, burst, compared, script
from bench.world import World, task_of, world
from lifecycle.context.facts import CommitFact, FileChangeFact
from lifecycle.context.snapshot import ContextBuilder
from runtime.workspace import WorkspaceManager

if TYPE_CHECKING:
    from pathlib import Path

    from runtime.workspace import Workspace

STATUS = ("git", "status", "--porcelain=v2", "--branch")


def _touch(folder: Path) -> None:
    """Leave what an agent leaves: a few changed files, a few new ones."""
    for number in range(5):
        (folder / f"d{number}" / f"f{number * 20}.txt").write_text("changed\n")
    for number in range(3):
        (folder / f"new-{number}.txt").write_text("new\n")


async def _product(manager: WorkspaceManager, workspace: Workspace) -> None:
    status = await manager.status(workspace)
    commits = await manager.recent_commits(workspace, head=status.head)
    files = await manager.changed_files(workspace, head=status.head)
    snapshot = ContextBuilder().capture(
        task=task_of("T001"),
        agent_id=workspace.agent_id,
        captured_at=0.0,
        branch=status.branch or "",
        head_commit=status.head,
        dirty_files=[FileChangeFact(path=path) for path in status.dirty],
        recent_commits=[CommitFact(sha=each.sha, subject=each.subject) for each in commits],
        changed_files=[FileChangeFact(path=each.path, kind=each.kind) for each in files],
    )
    if len(snapshot.dirty_files) != 8:
        raise RuntimeError(f"8 files were touched: {snapshot.dirty_files}")


async def _status(folder: Path) -> None:
    # Without optional locks on both sides: else the first status writes the index for the others.
    with tempfile.TemporaryDirectory() as scratch:
        env = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_INDEX_FILE": f"{scratch}/index"}
        for command in (("git", "read-tree", "HEAD"), STATUS):
            subprocess.run(command, cwd=folder, env=env, capture_output=True, check=True)  # noqa: ASYNC221  # the floor is just that


async def _of_size(made: World, files: int, options: Options) -> Row:
    repo = made.repository(files)
    manager = WorkspaceManager(repo)
    workspace = await manager.prepare("agent-T001")
    _touch(workspace.path)
    return await compared(
        lambda: burst(lambda: _product(manager, workspace)),
        lambda: burst(lambda: _status(workspace.path)),
        options.rounds(),
        what=f"snapshot of {files:,} files, 8 of them touched",
        against="git read-tree and git status",
        at_most=1.3,
    )


async def measure(options: Options) -> list[Row]:
    """Measure a small and a large repository."""
    with world() as made:
        return [await _of_size(made, files, options) for files in (100, 10_000)]


if __name__ == "__main__":
    script(measure)
