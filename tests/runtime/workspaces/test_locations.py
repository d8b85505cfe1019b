"""Workspaces are outside of the repository, and found again after an upgrade, a move or a copy."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from runtime.errors import RepositoryError, WorkspaceError
from runtime.workspace import WorkspaceManager
from runtime.workspaces.locations import MARK
from runtime.workspaces.worktrees_dir import OWNERS, default_worktrees_dir, leftovers, worktrees_dir

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runtime.workspace import Workspace

    Cli = Callable[..., str]
    Picture = Callable[[Path], dict[str, str]]


async def earlier(repo: Path, agent_id: str = "a") -> Workspace:
    """Make a workspace as earlier versions did: within the repository, and without a mark."""
    made = await WorkspaceManager(repo, root=repo / ".loopwright" / "worktrees").prepare(agent_id)
    (repo / ".loopwright" / "worktrees" / OWNERS).unlink()
    (repo / ".git" / "worktrees" / agent_id / MARK).unlink()
    return made


def begin_work(cli: Cli, workspace: Path) -> None:
    (workspace / "done.txt").write_text("done")
    cli(workspace, "add", ".")
    cli(workspace, "commit", "-qm", "work")
    (workspace / "staged.txt").write_text("staged")
    cli(workspace, "add", "staged.txt")
    (workspace / "wip.txt").write_text("wip")


def stands(cli: Cli, workspace: Path) -> str:
    return cli(workspace, "status", "--porcelain", "-b")


AS_LEFT = "## agent/a\nA  staged.txt\n?? wip.txt"


def renamed(repo: Path, name: str) -> Path:
    return repo.rename(repo.with_name(name))


def copied(repo: Path) -> Path:
    return shutil.copytree(repo, repo.with_name("copy"), symlinks=True)


async def test_the_folder_of_workspaces_is_outside_private_and_gone_when_nothing_is_in_it(
    git_repo: Path,
) -> None:
    manager = WorkspaceManager(git_repo)
    workspace = await manager.prepare("a")
    assert workspace.path == default_worktrees_dir(git_repo) / "a"
    assert not workspace.path.is_relative_to(git_repo)
    for folder in (manager.root, manager.root.parent):
        assert folder.stat().st_mode & 0o777 == 0o700
    assert str(git_repo) in (manager.root / OWNERS).read_text()
    await manager.remove("a", drop_branch=True, attempt=1)
    assert not manager.root.exists()


def test_a_repository_has_one_folder_whatever_path_leads_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = tmp_path / "Büro und Garten"
    repo.mkdir()
    (tmp_path / "link").symlink_to(repo)
    root = default_worktrees_dir(repo)
    assert default_worktrees_dir(tmp_path / "link") == root
    assert root.name.startswith("B-ro-und-Garten-")
    assert root.name.isascii()
    assert default_worktrees_dir(tmp_path) != root
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_worktrees_dir(repo).parent == tmp_path / ".local" / "state" / "loopwright"
    assert worktrees_dir(repo, "~/agents") == tmp_path / "agents"
    assert worktrees_dir(repo, "../agents") == tmp_path / "agents"
    for wrong in (".", "..", ".git/agents", ".loopwright/logs"):
        with pytest.raises(RepositoryError, match="a folder of its own"):
            worktrees_dir(repo, wrong)


async def test_a_path_with_spaces_and_letters_of_any_language_works(
    git_repo: Path, git_cli: Cli
) -> None:
    repo = renamed(git_repo, "Büro 'und' \"Garten\" 庭\nzwei")
    workspace = await WorkspaceManager(repo).prepare("a")
    begin_work(git_cli, workspace.path)
    again = await WorkspaceManager(repo).prepare("a")
    assert (again, again.notes) == (workspace, ())
    await WorkspaceManager(repo).remove("a", drop_branch=True, attempt=1)
    assert not default_worktrees_dir(repo).exists()


async def test_a_workspace_of_an_earlier_version_is_used_where_it_is(
    git_repo: Path, git_cli: Cli
) -> None:
    before = await earlier(git_repo)
    begin_work(git_cli, before.path)
    manager = WorkspaceManager(git_repo)
    assert await manager.open("a") == before
    again = await manager.prepare("a")
    assert (again, again.notes) == (before, ())
    assert stands(git_cli, again.path) == AS_LEFT
    new = await manager.prepare("b")
    assert new.path.parent == manager.root
    listed = {each.agent_id: each.path for each in await manager.list_ours()}
    assert listed == {"a": before.path, "b": new.path}
    saved = await manager.remove("a", drop_branch=True, attempt=1)
    assert saved is not None
    assert saved.files == ("staged.txt", "wip.txt")
    assert not before.path.exists()
    assert (await manager.prepare("a")).path.parent == manager.root


async def test_one_of_an_earlier_version_that_was_lost_is_made_again_in_the_new_place(
    git_repo: Path, git_cli: Cli
) -> None:
    before = await earlier(git_repo)
    begin_work(git_cli, before.path)
    shutil.rmtree(before.path)
    manager = WorkspaceManager(git_repo)
    again = await manager.prepare("a")
    assert (again.path, again.base_branch) == (manager.root / "a", "main")
    assert (again.path / "done.txt").exists()


@pytest.mark.parametrize("how", ["moved", "copied"])
async def test_one_of_an_earlier_version_goes_along_with_its_repository(
    git_repo: Path, git_cli: Cli, how: str
) -> None:
    before = await earlier(git_repo)
    begin_work(git_cli, before.path)
    there = renamed(git_repo, "moved") if how == "moved" else copied(git_repo)
    workspace = await WorkspaceManager(there).prepare("a")
    assert workspace.path == there / ".loopwright" / "worktrees" / "a"
    assert stands(git_cli, workspace.path) == AS_LEFT
    if how == "copied":
        (workspace.path / "wip.txt").unlink()
        assert stands(git_cli, before.path) == AS_LEFT
        assert (await WorkspaceManager(git_repo).prepare("a")).notes == ()


async def test_a_moved_repository_finds_its_workspaces_also_if_another_came_in_its_place(
    git_repo: Path, git_cli: Cli, tmp_path: Path
) -> None:
    before = await WorkspaceManager(git_repo).prepare("a")
    begin_work(git_cli, before.path)
    moved = renamed(git_repo, "moved")
    git_cli(tmp_path, "clone", "-q", str(moved), str(git_repo))
    assert [found for found, _ in leftovers()] == []
    workspace = await WorkspaceManager(moved).prepare("a")
    assert (workspace.path, stands(git_cli, workspace.path)) == (before.path, AS_LEFT)
    with pytest.raises(WorkspaceError, match=f"a workspace of the repository {moved}"):
        await WorkspaceManager(git_repo).prepare("a")
    assert (await WorkspaceManager(git_repo).prepare("b")).path.parent == before.path.parent
    shutil.rmtree(git_repo)
    assert [found for found, _ in leftovers()] == []
    shutil.rmtree(moved)
    assert [found for found, _ in leftovers()] == [before.path.parent]


async def test_a_copy_beside_its_original_makes_its_own_workspaces_and_touches_no_other(
    git_repo: Path, git_cli: Cli, git_picture: Picture
) -> None:
    original = WorkspaceManager(git_repo)
    before = await original.prepare("a")
    begin_work(git_cli, before.path)
    copy = copied(git_repo)
    pointers = before.path / ".git", git_repo / ".git" / "worktrees" / "a" / "gitdir"
    picture = git_picture(git_repo), *(each.read_text() for each in pointers)
    manager = WorkspaceManager(copy)
    assert await manager.open("a") is None
    workspace = await manager.prepare("a")
    assert workspace.path == default_worktrees_dir(copy) / "a"
    assert (workspace.branch, workspace.base_branch) == ("agent/a", "main")
    assert git_cli(workspace.path, "log", "-1", "--format=%s") == "work"
    assert f"workspace of the repository {git_repo}; a gets a new one" in workspace.notes[0]
    assert git_cli(copy, "worktree", "list").count("\n") == 1
    await manager.remove("a", drop_branch=True, attempt=1)
    assert (git_picture(git_repo), *(each.read_text() for each in pointers)) == picture
    assert stands(git_cli, before.path) == AS_LEFT
    again = await original.prepare("a")
    assert (again, again.notes) == (before, ())


async def test_another_checkout_of_the_same_repository_keeps_its_workspaces(
    git_repo: Path, git_cli: Cli, tmp_path: Path
) -> None:
    second = tmp_path / "second"
    git_cli(git_repo, "worktree", "add", "-q", str(second))
    theirs = await WorkspaceManager(second).prepare("a")
    with pytest.raises(WorkspaceError, match="is checked out at"):
        await WorkspaceManager(git_repo).prepare("a")
    assert await WorkspaceManager(git_repo).open("a") is None
    assert (await WorkspaceManager(second).prepare("a")).notes == ()
    assert theirs.path.exists()


async def test_a_workspace_is_found_where_another_setting_had_it(
    git_repo: Path, git_cli: Cli, tmp_path: Path
) -> None:
    before = await WorkspaceManager(git_repo, root=tmp_path / "agents").prepare("a")
    begin_work(git_cli, before.path)
    manager = WorkspaceManager(git_repo)
    again = await manager.prepare("a")
    assert (again, again.notes) == (before, ())
    assert (await manager.prepare("b")).path.parent == manager.root
    shutil.rmtree(tmp_path / "agents")
    new = await manager.prepare("a")
    assert new.path.parent == manager.root
    assert f"{before.path} is gone; a gets a new one from agent/a" in " ".join(new.notes)


async def test_a_folder_of_another_repository_is_refused(
    git_repo: Path, git_cli: Cli, tmp_path: Path
) -> None:
    await WorkspaceManager(git_repo, root=tmp_path / "agents").prepare("a")
    copy = copied(git_repo)
    with pytest.raises(RepositoryError, match=f"belongs to the repository {git_repo}: set worktr"):
        await WorkspaceManager(copy, root=tmp_path / "agents").prepare("a")
    moved = renamed(git_repo, "moved")
    manager = WorkspaceManager(moved, root=tmp_path / "agents")
    assert (await manager.prepare("a")).path == tmp_path / "agents" / "a"
    await manager.prepare("b")
    assert str(moved) in (tmp_path / "agents" / OWNERS).read_text()
    assert git_cli(tmp_path / "agents" / "a", "status", "--porcelain") == ""


async def test_what_a_deleted_repository_left_makes_room_for_the_one_cloned_in_its_place(
    git_repo: Path, git_cli: Cli, tmp_path: Path
) -> None:
    clone = tmp_path / "clone"
    git_cli(tmp_path, "clone", "-q", str(git_repo), str(clone))
    before = await WorkspaceManager(clone).prepare("a")
    (before.path / "wip.txt").write_text("wip")
    shutil.rmtree(clone)
    git_cli(tmp_path, "clone", "-q", str(git_repo), str(clone))
    workspace = await WorkspaceManager(clone).prepare("a")
    assert workspace.path == before.path
    assert not (workspace.path / "wip.txt").exists()
    aside = before.path.parent / ".left" / "a-1"
    assert str(aside) in workspace.notes[0]
    assert (aside / "wip.txt").read_text() == "wip"


async def test_a_folder_within_the_repository_is_left_out_of_its_status(
    git_repo: Path, git_cli: Cli
) -> None:
    root = git_repo / "agents [1]"
    workspace = await WorkspaceManager(git_repo, root=root).prepare("a")
    assert workspace.path == root / "a"
    assert git_cli(git_repo, "status", "--porcelain", "-uall") == ""


async def test_a_place_that_cannot_be_made_is_refused_with_what_to_set(
    git_repo: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.raises(
        RepositoryError, match=r"is not a folder\): set worktrees_dir, or XDG_STATE"
    ):
        await WorkspaceManager(git_repo).prepare("a")
    assert not (git_repo / ".git" / "worktrees").exists()
