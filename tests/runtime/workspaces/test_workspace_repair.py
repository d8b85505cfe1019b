"""A workspace that was lost, damaged or led astray is repaired, and its work is kept."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from runtime.errors import WorkspaceError
from runtime.workspace import WorkspaceManager

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Cli = Callable[..., str]
    Picture = Callable[[Path], dict[str, str]]


async def test_a_deleted_folder_comes_back_with_the_commits(git_repo: Path, git_cli: Cli) -> None:
    manager = WorkspaceManager(git_repo)
    workspace = await manager.prepare("a")
    (workspace.path / "new.txt").write_text("x")
    git_cli(workspace.path, "add", ".")
    git_cli(workspace.path, "commit", "-qm", "work")
    shutil.rmtree(workspace.path)
    assert await manager.open("a") is None
    with pytest.raises(WorkspaceError, match="prepare a again"):
        await manager.status(workspace)
    assert await manager.prepare("a") == workspace
    assert (workspace.path / "new.txt").read_text() == "x"


async def test_a_crash_at_every_step_of_the_making_is_repaired(
    git_repo: Path, git_cli: Cli
) -> None:
    manager = WorkspaceManager(git_repo)
    whole = await manager.prepare("a")
    record = whole.path.parent / ".a.json"
    ready = record.read_text()

    def half_made() -> None:
        record.write_text(ready.replace("true", "false"))

    def only_the_record() -> None:
        shutil.rmtree(whole.path)
        git_cli(git_repo, "worktree", "prune")
        git_cli(git_repo, "branch", "-qD", "agent/a")
        git_cli(git_repo, "update-ref", "-d", "refs/loopwright/base/a")

    def only_record_and_base() -> None:
        shutil.rmtree(whole.path)
        git_cli(git_repo, "worktree", "prune")
        git_cli(git_repo, "branch", "-qD", "agent/a")

    def branch_but_no_folder() -> None:
        shutil.rmtree(whole.path)
        git_cli(git_repo, "worktree", "prune")

    def registered_locked_and_empty() -> None:
        git_cli(git_repo, "worktree", "lock", "--reason", "initializing", str(whole.path))
        for each in whole.path.iterdir():
            if each.name != ".git":
                shutil.rmtree(each) if each.is_dir() else each.unlink()

    def no_pointer_yet() -> None:
        (whole.path / ".git").unlink()

    for crash in (
        half_made, only_the_record, only_record_and_base, branch_but_no_folder,
        registered_locked_and_empty, no_pointer_yet,
    ):  # fmt: skip
        crash()
        half_made()
        assert await manager.prepare("a") == whole, crash.__name__
        assert (await manager.status(whole)).dirty == (), crash.__name__
        assert (whole.path / "README.md").exists(), crash.__name__
        assert git_cli(git_repo, "worktree", "list").count("\n") == 1, crash.__name__


async def test_an_unregistered_folder_of_ours_is_saved_before_it_is_recreated(
    git_repo: Path, git_cli: Cli
) -> None:
    manager = WorkspaceManager(git_repo)
    workspace = await manager.prepare("a")
    (workspace.path / "wip.txt").write_text("wip")
    shutil.rmtree(git_repo / ".git" / "worktrees")
    again = await manager.prepare("a")
    assert "refs/loopwright/saved/a/recovered" in again.notes[0]
    assert git_cli(git_repo, "show", "refs/loopwright/saved/a/recovered:wip.txt") == "wip"
    assert not (workspace.path / "wip.txt").exists()


async def test_a_lost_folder_of_worktrees_is_recreated_from_the_refs(git_repo: Path) -> None:
    manager = WorkspaceManager(git_repo)
    workspace = await manager.prepare("a")
    shutil.rmtree(manager.root)
    again = await manager.prepare("a")
    assert (again.base_commit, again.base_branch) == (workspace.base_commit, "main")
    assert "had lost its record: its work continues, for branch main" in " ".join(again.notes)
    assert (await manager.prepare("a")).notes == ()


@pytest.mark.parametrize("checkout", ["orphan", "detached", "of an agent"])
async def test_a_lost_record_names_no_branch_that_does_not_hold_the_base(
    git_repo: Path, git_cli: Cli, checkout: str
) -> None:
    manager = WorkspaceManager(git_repo)
    await manager.prepare("a")
    shutil.rmtree(manager.root)
    how = {
        "orphan": ("--orphan", "other"),
        "detached": ("--detach",),
        "of an agent": ("-b", "agent/b"),
    }
    git_cli(git_repo, "checkout", "-q", *how[checkout])
    assert (await manager.prepare("a")).base_branch is None


async def test_an_agent_that_left_its_branch_or_deleted_it_is_told(
    git_repo: Path, git_cli: Cli
) -> None:
    manager = WorkspaceManager(git_repo)
    workspace = await manager.prepare("a")
    git_cli(workspace.path, "checkout", "-qb", "mine")
    assert "refs/heads/mine" in (await manager.prepare("a")).notes[0]
    git_cli(workspace.path, "commit", "-q", "--allow-empty", "-m", "work")
    git_cli(workspace.path, "branch", "-qD", "agent/a")
    assert "was recreated" in (await manager.prepare("a")).notes[0]
    assert git_cli(git_repo, "rev-parse", "agent/a") == git_cli(git_repo, "rev-parse", "mine")


async def test_a_removed_or_swapped_pointer_never_leads_to_the_users_checkout(
    git_repo: Path, git_cli: Cli, git_picture: Picture, tmp_path: Path
) -> None:
    manager = WorkspaceManager(git_repo)
    workspace = await manager.prepare("a")
    (workspace.path / "wip.txt").write_text("wip")
    (git_repo / "users.txt").write_text("mine")
    git_cli(git_repo, "branch", "agent-evil")
    git_cli(tmp_path, "init", "-q", "evil")
    before = git_picture(git_repo)
    for pointer in (None, f"gitdir: {tmp_path}/evil/.git\n"):
        (workspace.path / ".git").unlink(missing_ok=True)
        if pointer:
            (workspace.path / ".git").write_text(pointer)
        status = await manager.status(workspace)
        assert (status.branch, status.untracked) == ("agent/a", ("wip.txt",))
        saved = await manager.save_dirty(workspace, 1, reason="test")
        assert saved is not None
        assert saved.files == ("wip.txt",)
    await manager.remove("a", drop_branch=True, attempt=2)
    assert not workspace.path.exists()
    assert git_cli(git_repo, "show", "refs/loopwright/saved/a/2:wip.txt") == "wip"
    assert git_picture(git_repo) == before
