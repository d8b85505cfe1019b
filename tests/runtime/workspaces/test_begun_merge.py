"""A merge is begun in a workspace for an agent to finish, and nothing of the agent's is touched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.workspace import WorkspaceManager

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runtime.workspace import Workspace

    Cli = Callable[..., str]


async def _apart(git_repo: Path, git_cli: Cli) -> tuple[WorkspaceManager, Workspace, str]:
    """Return a workspace whose branch and main both changed the same file."""
    manager = WorkspaceManager(git_repo)
    workspace = await manager.prepare("a")
    for folder, text in ((workspace.path, "theirs\n"), (git_repo, "ours\n")):
        (folder / "same.txt").write_text(text)
        git_cli(folder, "add", "same.txt")
        git_cli(folder, "commit", "-qm", f"say {text.strip()}")
    return manager, workspace, git_cli(git_repo, "rev-parse", "main").strip()


async def test_a_begun_merge_shows_both_sides_and_is_begun_once(
    git_repo: Path, git_cli: Cli
) -> None:
    manager, workspace, main = await _apart(git_repo, git_cli)
    begun = await manager.begin_merge(workspace, main)
    assert begun is not None
    assert (begun.begun, begun.commit, begun.conflicts) == (True, main, ("same.txt",))
    assert [each.subject for each in begun.ours] == ["say theirs"]
    assert [each.subject for each in begun.theirs] == ["say ours"]
    assert "<<<<<<<" in (workspace.path / "same.txt").read_text()
    assert git_cli(workspace.path, "rev-parse", "MERGE_HEAD").strip() == main
    (workspace.path / "same.txt").write_text("half resolved\n")
    assert await manager.begin_merge(workspace, main) == begun
    assert (workspace.path / "same.txt").read_text() == "half resolved\n"
    git_cli(workspace.path, "add", "same.txt")
    git_cli(workspace.path, "commit", "-qm", "both")
    assert await manager.begin_merge(workspace, main) is None


async def test_where_something_is_uncommitted_no_merge_is_begun(
    git_repo: Path, git_cli: Cli
) -> None:
    manager, workspace, main = await _apart(git_repo, git_cli)
    (workspace.path / "new.txt").write_text("precious\n")
    begun = await manager.begin_merge(workspace, main)
    assert begun is not None
    assert not begun.begun
    assert (workspace.path / "same.txt").read_text() == "theirs\n"
