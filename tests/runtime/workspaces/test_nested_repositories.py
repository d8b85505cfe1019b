"""Repositories inside a workspace: their files are not lost with it, and not taken for merged."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from runtime.errors import WorkspaceError
from runtime.git.git import Git
from runtime.workspace import WorkspaceManager

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runtime.workspace import Workspace

    Cli = Callable[..., str]

FILE_PROTOCOL = ("-c", "protocol.file.allow=always")


def commit(cli: Cli, folder: Path, **files: str) -> str:
    for name, text in files.items():
        (folder / name).write_text(text)
    cli(folder, "add", "-A")
    cli(folder, "commit", "-qm", "work")
    return cli(folder, "rev-parse", "HEAD")


async def loose(manager: WorkspaceManager, workspace: Workspace) -> tuple[str, ...]:
    status = await manager.status(workspace)
    assert status.dirty == ()
    files = await manager.changed_files(workspace, head=status.head)
    return tuple(file.path for file in await manager.loose(workspace, files))


async def with_app(cli: Cli, repo: Path, name: str = "app") -> tuple[WorkspaceManager, Workspace]:
    """Let an agent make a repository in its workspace, and commit both."""
    manager = WorkspaceManager(repo)
    workspace = await manager.prepare("a")
    app = workspace.path / name
    cli(workspace.path, "init", "-q", name)
    commit(cli, app, main="print(1)\n")
    commit(cli, workspace.path)
    return manager, workspace


async def with_submodule(cli: Cli, repo: Path) -> tuple[WorkspaceManager, Workspace, Path]:
    """Let a workspace have a real submodule, checked out at the commit that is at its origin."""
    origin = repo.parent / "origin"
    cli(repo.parent, "init", "-q", str(origin))
    commit(cli, origin, lib="1\n")
    cli(repo, *FILE_PROTOCOL, "submodule", "--quiet", "add", str(origin), "sub")
    cli(repo, "commit", "-qm", "A submodule")
    manager = WorkspaceManager(repo)
    workspace = await manager.prepare("a")
    cli(workspace.path, *FILE_PROTOCOL, "submodule", "--quiet", "update", "--init")
    return manager, workspace, workspace.path / "sub"


async def test_a_repository_that_is_in_the_workspace_alone_is_told(
    git_repo: Path, git_cli: Cli
) -> None:
    manager, workspace = await with_app(git_cli, git_repo, "odd ü")
    assert await loose(manager, workspace) == ("odd ü",)


async def test_its_files_in_the_place_of_the_repository_are_nothing_to_tell(
    git_repo: Path, git_cli: Cli
) -> None:
    manager, workspace = await with_app(git_cli, git_repo)
    shutil.rmtree(workspace.path / "app" / ".git")
    assert await loose(manager, workspace) == ("app",)
    git_cli(workspace.path, "rm", "-q", "--cached", "app")
    commit(git_cli, workspace.path)
    assert git_cli(workspace.path, "ls-files", "app") == "app/main"
    assert await loose(manager, workspace) == ()


async def test_a_clone_that_is_no_submodule_is_told_though_its_commit_is_elsewhere(
    git_repo: Path, git_cli: Cli
) -> None:
    origin = git_repo.parent / "origin"
    git_cli(git_repo.parent, "init", "-q", str(origin))
    commit(git_cli, origin, lib="1\n")
    manager = WorkspaceManager(git_repo)
    workspace = await manager.prepare("a")
    git_cli(workspace.path, "clone", "-q", str(origin), "lib")
    commit(git_cli, workspace.path)
    assert await loose(manager, workspace) == ("lib",)


async def test_a_commit_in_a_submodule_counts_once_it_is_pushed(
    git_repo: Path, git_cli: Cli
) -> None:
    manager, workspace, sub = await with_submodule(git_cli, git_repo)
    git_cli(sub, "checkout", "-q", "-b", "more")
    commit(git_cli, sub, lib="2\n")
    commit(git_cli, workspace.path)
    assert await loose(manager, workspace) == ("sub",)
    git_cli(sub, "push", "-q", "origin", "more")
    assert await loose(manager, workspace) == ()


async def test_a_commit_that_only_a_fetch_names_came_from_elsewhere(
    git_repo: Path, git_cli: Cli
) -> None:
    manager, workspace, sub = await with_submodule(git_cli, git_repo)
    origin = git_repo.parent / "origin"
    git_cli(origin, "checkout", "-q", "--detach")
    commit(git_cli, origin, lib="2\n")
    git_cli(origin, "tag", "v2")
    git_cli(sub, "fetch", "-q", "origin", "tag", "v2")
    git_cli(sub, "checkout", "-q", "v2")
    commit(git_cli, workspace.path)
    assert await loose(manager, workspace) == ()


async def test_what_is_not_in_the_workspace_is_not_lost_with_it(
    git_repo: Path, git_cli: Cli
) -> None:
    manager = WorkspaceManager(git_repo)
    workspace = await manager.prepare("a")
    git_cli(workspace.path, "worktree", "add", "-q", "--detach", "mine")
    commit(git_cli, workspace.path)
    assert git_cli(workspace.path, "ls-files", "--stage", "mine").startswith("160000 ")
    assert await loose(manager, workspace) == ()
    unknown = f"160000,{'1' * 40},far"
    git_cli(workspace.path, "update-index", "--add", "--cacheinfo", unknown)
    git_cli(workspace.path, "commit", "-qm", "A repository that is not here")
    (workspace.path / "far").mkdir()
    assert await loose(manager, workspace) == ()


async def test_an_unpushed_commit_of_a_submodule_without_its_files_keeps_the_workspace(
    git_repo: Path, git_cli: Cli
) -> None:
    manager, workspace, sub = await with_submodule(git_cli, git_repo)
    commit(git_cli, sub, lib="2\n")
    commit(git_cli, workspace.path)
    git_cli(workspace.path, "submodule", "--quiet", "deinit", "sub")
    assert await loose(manager, workspace) == ("sub",)
    with pytest.raises(WorkspaceError, match="sub is a submodule without its files"):
        await manager.remove("a", drop_branch=True, attempt=1)
    git_cli(workspace.path, "submodule", "--quiet", "update", "--init")
    assert await manager.remove("a", drop_branch=True, attempt=1) is not None


@pytest.mark.parametrize("committed", [True, False])
async def test_the_files_of_a_repository_that_goes_with_its_workspace_are_kept(
    git_repo: Path, git_cli: Cli, *, committed: bool
) -> None:
    manager, workspace = await with_app(git_cli, git_repo)
    if not committed:
        git_cli(workspace.path, "reset", "-q", "--soft", "HEAD~1")
    saved = await manager.remove("a", drop_branch=True, attempt=1)
    assert saved is not None
    assert saved.ref == "refs/loopwright/saved/a/1"
    assert git_cli(git_repo, "show", f"{saved.ref}:app/main") == "print(1)"
    assert await manager.remove("a", drop_branch=True, attempt=1) is None


async def test_the_files_of_an_unpushed_submodule_are_kept_and_a_pushed_one_is_no_matter(
    git_repo: Path, git_cli: Cli
) -> None:
    manager, workspace, sub = await with_submodule(git_cli, git_repo)
    assert await manager.remove("a", drop_branch=True, attempt=1) is None

    workspace = await manager.prepare("a")
    git_cli(workspace.path, *FILE_PROTOCOL, "submodule", "--quiet", "update", "--init")
    commit(git_cli, sub, lib="2\n")
    commit(git_cli, workspace.path)
    saved = await manager.remove("a", drop_branch=True, attempt=1)
    assert saved is not None
    assert git_cli(git_repo, "show", f"{saved.ref}:sub/lib") == "2"


async def test_a_users_own_unpushed_submodule_holds_up_no_workspace_that_lost_its_registration(
    git_repo: Path, git_cli: Cli
) -> None:
    manager, workspace, sub = await with_submodule(git_cli, git_repo)
    git_cli(workspace.path, "submodule", "--quiet", "deinit", "sub")
    commit(git_cli, git_repo / "sub", lib="mine\n")
    assert (git_repo / ".git" / "modules" / "sub").is_dir()
    shutil.rmtree(git_repo / ".git" / "worktrees" / "a")
    assert await manager.remove("a", drop_branch=True, attempt=1) is None
    assert not sub.exists()


async def test_a_link_in_the_place_of_a_repository_saves_nothing_from_elsewhere(
    git_repo: Path, git_cli: Cli, tmp_path: Path
) -> None:
    manager, workspace = await with_app(git_cli, git_repo)
    (tmp_path / "elsewhere").mkdir()
    shutil.move(workspace.path / "app", tmp_path / "elsewhere" / "app")
    (workspace.path / "app").symlink_to(tmp_path / "elsewhere" / "app")
    saved = await manager.remove("a", drop_branch=True, attempt=1)
    assert saved is not None
    assert git_cli(git_repo, "ls-tree", "-r", "--name-only", saved.commit, "app") == "app"


async def test_nothing_that_such_a_repository_names_is_run(
    git_repo: Path, git_cli: Cli, tmp_path: Path
) -> None:
    manager, workspace = await with_app(git_cli, git_repo)
    planted = tmp_path / "planted"
    planted.write_text(f"#!/bin/sh\ntouch '{tmp_path}/ran'\n")
    planted.chmod(0o755)
    app = workspace.path / "app"
    (app / ".gitattributes").write_text("* filter=x diff=x\n")
    git_cli(app, "add", ".")
    git_cli(app, "commit", "-qm", "attributes")
    commit(git_cli, workspace.path)
    for key in ("core.fsmonitor", "core.pager", "filter.x.clean", "filter.x.process",
                "diff.x.command", "diff.external", "core.alternateRefsCommand"):  # fmt: skip
        git_cli(app, "config", key, str(planted))
    (app / ".git" / "hooks").mkdir(exist_ok=True)
    shutil.copy(planted, app / ".git" / "hooks" / "post-index-change")
    assert await loose(manager, workspace) == ("app",)
    assert await manager.remove("a", drop_branch=True, attempt=1) is not None
    assert not (tmp_path / "ran").exists()


async def test_where_there_is_no_repository_inside_no_git_process_is_started(
    git_repo: Path, git_cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = WorkspaceManager(git_repo)
    workspace = await manager.prepare("a")
    head = commit(git_cli, workspace.path, new="x")
    files = await manager.changed_files(workspace, head=head)
    asked: list[str] = []
    run = Git.run

    async def counted(self: Git, *args: str, **more: object) -> object:
        asked.append(args[0])
        return await run(self, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Git, "run", counted)
    assert await manager.loose(workspace, files) == ()
    assert asked == []
    assert await manager.remove("a", drop_branch=False, attempt=1) is None
    looks = {"read-tree", "diff-index", "status", "ls-files", "ls-tree"}
    assert set(asked) == {"for-each-ref", "worktree", *looks}
