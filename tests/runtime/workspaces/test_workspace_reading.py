"""Reading a workspace and saving its uncommitted work, in a real repository."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runtime.workspace import Workspace, WorkspaceManager

if TYPE_CHECKING:
    from collections.abc import Callable

    Cli = Callable[..., str]

ODD = "odd ü\n name.txt"


@pytest.fixture
def manager(git_repo: Path) -> WorkspaceManager:
    return WorkspaceManager(git_repo)


@pytest.fixture
async def workspace(manager: WorkspaceManager) -> Workspace:
    return await manager.prepare("a")


def index_of(folder: Path, cli: Cli) -> Path:
    return Path(cli(folder, "rev-parse", "--path-format=absolute", "--git-path", "index"))


def picture(folder: Path, cli: Cli) -> tuple[str, ...]:
    """Everything that saving must leave alone."""
    content = index_of(folder, cli).read_bytes().hex()
    files = sorted(str(path) for path in folder.rglob("*"))
    state = cli(folder, "--no-optional-locks", "status", "--porcelain=v2", "--branch")
    return (content, state, cli(folder, "rev-parse", "HEAD"), *files)


async def test_status_sorts_files_by_what_happened_to_them(
    manager: WorkspaceManager, workspace: Workspace, git_cli: Cli
) -> None:
    clean = await manager.status(workspace)
    assert (clean.head, clean.branch, clean.dirty) == (workspace.base_commit, "agent/a", ())
    (workspace.path / "README.md").write_text("x")
    (workspace.path / "src" / "app.py").unlink()
    (workspace.path / "staged").write_text("x")
    git_cli(workspace.path, "add", "staged")
    (workspace.path / "deep").mkdir()
    (workspace.path / "deep" / ODD).write_text("x")
    (workspace.path / os.fsdecode(b"\xff")).write_text("x")
    (workspace.path / "communications.json").write_text("{}")
    status = await manager.status(workspace)
    assert status.changed == ("README.md", "src/app.py")
    assert status.untracked == (f"deep/{ODD}", "staged", "\\xff")


async def test_conflicts_and_a_detached_head_are_seen(
    manager: WorkspaceManager, workspace: Workspace, git_repo: Path, git_cli: Cli
) -> None:
    for place in (git_repo, workspace.path):
        (place / "README.md").write_text(f"{place}\n")
        git_cli(place, "commit", "-qam", "edit")
    with pytest.raises(AssertionError):
        git_cli(workspace.path, "merge", "main")
    assert (await manager.status(workspace)).changed == ("README.md",)
    saved = await manager.save_dirty(workspace, 1, reason="conflict")
    assert saved is not None
    assert "<<<<<<<" in git_cli(git_repo, "show", f"{saved.ref}:README.md")
    git_cli(workspace.path, "reset", "-q", "--hard")
    git_cli(workspace.path, "checkout", "-q", "--detach")
    assert (await manager.status(workspace)).branch is None


async def test_the_fingerprint_changes_with_content_and_commits_and_with_nothing_else(
    manager: WorkspaceManager, workspace: Workspace, git_cli: Cli
) -> None:
    async def fingerprint() -> str:
        return (await manager.status(workspace)).fingerprint

    seen = [await fingerprint()]
    (workspace.path / "communications.json").write_text("{}")
    (workspace.path / ".loopwright").mkdir()
    (workspace.path / ".loopwright" / "x").write_text("{}")
    assert await fingerprint() == seen[0]
    for name, text in (("README.md", "1"), ("README.md", "22"), ("new", "1"), ("new", "22")):
        (workspace.path / name).write_text(text)
        seen.append(await fingerprint())
        assert await fingerprint() == seen[-1]
    git_cli(workspace.path, "add", "-A")
    assert await fingerprint() == seen[-1]
    git_cli(workspace.path, "commit", "-qm", "work")
    seen.append(await fingerprint())
    assert len(set(seen)) == len(seen)


async def test_commits_and_changed_files_since_the_base(
    manager: WorkspaceManager, workspace: Workspace, git_cli: Cli
) -> None:
    assert await manager.recent_commits(workspace, head=workspace.base_commit) == ()
    assert await manager.recent_commits(workspace) == ()
    assert await manager.changed_files(workspace) == ()
    for number in range(3):
        (workspace.path / ODD).write_text(str(number))
        git_cli(workspace.path, "add", "-A")
        git_cli(workspace.path, "commit", "-qm", f"Step {number} ü\n\nbody")
    git_cli(workspace.path, "rm", "-q", "README.md")
    (workspace.path / "src" / "app.py").write_text("2")
    git_cli(workspace.path, "commit", "-qam", "Last")
    commits = await manager.recent_commits(workspace, limit=2)
    assert [commit.subject for commit in commits] == ["Last", "Step 2 ü"]
    assert commits[0].sha == git_cli(workspace.path, "rev-parse", "HEAD")
    assert commits[0].author == "Ada"
    assert int(commits[0].at.timestamp()) == int(
        git_cli(workspace.path, "log", "-1", "--format=%ct")
    )
    files = await manager.changed_files(workspace, head=commits[0].sha)
    assert {file.path: file.kind for file in files} == {
        "README.md": "deleted",
        ODD: "added",
        "src/app.py": "modified",
    }


async def test_saving_keeps_tracked_and_untracked_work_and_touches_nothing(
    manager: WorkspaceManager, workspace: Workspace, git_repo: Path, git_cli: Cli
) -> None:
    assert await manager.save_dirty(workspace, 1, reason="clean") is None
    (workspace.path / ".gitignore").write_text("*.tmp\n")
    (workspace.path / "ignored.tmp").write_text("x")
    (workspace.path / "README.md").write_text("staged\n")
    git_cli(workspace.path, "add", "README.md")
    (workspace.path / "README.md").write_text("edited\n")
    (workspace.path / "src" / "app.py").unlink()
    (workspace.path / ODD).write_bytes(b"\0binary\n")
    (workspace.path / "link").symlink_to("/nowhere")
    (workspace.path / "communications.json").write_text("{}")
    before = picture(workspace.path, git_cli)
    saved = await manager.save_dirty(workspace, 1, reason="time is up")
    assert saved is not None
    assert picture(workspace.path, git_cli) == before
    assert saved.ref == "refs/loopwright/saved/a/1"
    assert set(saved.files) == {
        ".gitignore", "ignored.tmp", "README.md", "src/app.py", ODD, "link",
    }  # fmt: skip
    assert saved.problems == ""
    assert git_cli(git_repo, "rev-parse", saved.ref) == saved.commit
    assert git_cli(git_repo, "show", f"{saved.ref}:README.md") == "edited"
    assert git_cli(git_repo, "show", f"{saved.ref}:{ODD}") == "\0binary"
    assert "time is up" in git_cli(git_repo, "log", "-1", "--format=%B", saved.ref)
    assert git_cli(git_repo, "log", "-1", "--format=%P", saved.ref) == workspace.base_commit


async def test_saving_again_keeps_the_older_save_and_the_same_again_adds_nothing(
    manager: WorkspaceManager, workspace: Workspace, git_repo: Path, git_cli: Cli
) -> None:
    (workspace.path / "wip").write_text("1")
    first = await manager.save_dirty(workspace, 7, reason="one")
    assert await manager.save_dirty(workspace, 7, reason="one") == first
    (workspace.path / "wip").write_text("2")
    second = await manager.save_dirty(workspace, 7, reason="two")
    assert first is not None
    assert second is not None
    parents = git_cli(git_repo, "log", "-1", "--format=%P", second.ref)
    assert parents == f"{workspace.base_commit} {first.commit}"


async def test_saving_works_without_a_configured_user(
    git_repo: Path, git_cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    git_cli(git_repo, "config", "user.useConfigOnly", "true")
    git_cli(git_repo, "config", "commit.gpgSign", "true")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    manager = WorkspaceManager(git_repo)
    workspace = await manager.prepare("a")
    (workspace.path / "wip").write_text("1")
    assert await manager.save_dirty(workspace, 1, reason="x") is not None


async def test_repositories_inside_the_workspace_are_saved_as_files(
    manager: WorkspaceManager, workspace: Workspace, git_repo: Path, git_cli: Cli
) -> None:
    for name in ("made/inner", "made/inner/deeper"):
        git_cli(workspace.path, "init", "-q", name)
        (workspace.path / name / "file").write_text(name)
    git_cli(workspace.path / "made/inner", "commit", "-q", "--allow-empty", "-m", "x")
    (workspace.path / "made" / "inner" / ".gitignore").write_text("skip\n")
    (workspace.path / "made" / "inner" / "skip").write_text("x")
    saved = await manager.save_dirty(workspace, 1, reason="x")
    assert saved is not None
    assert set(saved.files) == {
        "made/inner/.gitignore",
        "made/inner/file",
        "made/inner/deeper/file",
    }
    shown = git_cli(git_repo, "show", f"{saved.ref}:made/inner/deeper/file")
    assert shown == "made/inner/deeper"


async def test_a_broken_index_does_not_cost_the_work(
    manager: WorkspaceManager, workspace: Workspace, git_repo: Path, git_cli: Cli
) -> None:
    (workspace.path / "wip").write_text("1")
    index_of(workspace.path, git_cli).write_bytes(b"garbage")
    saved = await manager.save_dirty(workspace, 1, reason="x")
    assert saved is not None
    assert saved.files == ("wip",)
    assert git_cli(git_repo, "show", f"{saved.ref}:wip") == "1"


async def test_work_on_a_branch_without_a_commit_is_saved(
    manager: WorkspaceManager, workspace: Workspace, git_repo: Path, git_cli: Cli
) -> None:
    git_cli(workspace.path, "checkout", "-q", "--orphan", "fresh")
    status = await manager.status(workspace)
    assert (status.head, status.branch) == ("", "fresh")
    assert await manager.recent_commits(workspace, head=status.head) == ()
    saved = await manager.save_dirty(workspace, 1, reason="x")
    assert saved is not None
    assert saved.files == ("README.md", "src/app.py")
    assert git_cli(git_repo, "log", "-1", "--format=%P", saved.ref) == ""


async def test_own_files_are_not_saved_even_where_a_repository_tracks_them(
    git_repo: Path, git_cli: Cli
) -> None:
    (git_repo / "communications.json").write_text("old")
    git_cli(git_repo, "add", "communications.json")
    git_cli(git_repo, "commit", "-qm", "tracked")
    manager = WorkspaceManager(git_repo)
    workspace = await manager.prepare("a")
    (workspace.path / "communications.json").write_text("new")
    assert await manager.save_dirty(workspace, 1, reason="x") is None
    (workspace.path / "wip").write_text("1")
    saved = await manager.save_dirty(workspace, 1, reason="x")
    assert saved is not None
    assert saved.files == ("wip",)
