"""What a user configured is respected as far as it starts no program; the rest is told."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from runtime.branches import BranchManager
from runtime.git.git import Git
from runtime.workspace import WorkspaceManager
from tests.runtime.git.attacks.bed import LINES, new_bed, plain_git

if TYPE_CHECKING:
    from pathlib import Path

    from tests.runtime.git.attacks.bed import Bed


@pytest.fixture
async def bed(tmp_path: Path, template: Path) -> Bed:
    return await new_bed(tmp_path / "bed", template)


def users_filter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Configure what the repository stores in capitals and the user sees in small letters."""
    settings = tmp_path / "gitconfig"
    settings.write_text(
        "[user]\n\tname = Ada\n\temail = ada@example.org\n"
        '[filter "low"]\n\tclean = tr a-z A-Z\n\tsmudge = tr A-Z a-z\n\trequired = true\n'
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))


def filtered_repository(repo: Path) -> None:
    repo.mkdir()
    plain_git(repo, "init", "-q", "-b", "main")
    (repo / ".gitattributes").write_text("*.big filter=low\n")
    (repo / "data.big").write_text("whole\n")
    (repo / "plain.txt").write_text("plain\n")
    # Not so new that git would have to look into it again.
    os.utime(repo / "data.big", (1, 1))
    plain_git(repo, "add", ".")
    plain_git(repo, "commit", "-qm", "First commit")
    assert plain_git(repo, "show", "HEAD:data.big") == "WHOLE"


async def test_files_behind_a_users_filter_are_as_stored_and_that_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users_filter(tmp_path, monkeypatch)
    filtered_repository(tmp_path / "repo")
    manager = WorkspaceManager(tmp_path / "repo")
    workspace = await manager.prepare("a")
    assert (workspace.path / "data.big").read_text() == "WHOLE\n"
    assert (workspace.path / "plain.txt").read_text() == "plain\n"
    [note] = workspace.notes
    assert "data.big" in note
    assert "plain.txt" not in note
    assert (await manager.status(workspace)).dirty == ()


async def test_an_agents_commit_through_the_users_filter_leaves_the_workspace_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users_filter(tmp_path, monkeypatch)
    filtered_repository(tmp_path / "repo")
    manager = WorkspaceManager(tmp_path / "repo")
    workspace = await manager.prepare("a")
    (workspace.path / "data.big").write_text("more\n")
    os.utime(workspace.path / "data.big", (1, 1))
    plain_git(workspace.path, "commit", "-qam", "More")
    assert plain_git(workspace.path, "show", "HEAD:data.big") == "MORE"
    assert (await manager.status(workspace)).dirty == ()


async def test_a_merge_through_a_filter_of_the_users_checkout_is_refused_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users_filter(tmp_path, monkeypatch)
    repo = tmp_path / "repo"
    filtered_repository(repo)
    manager, branches = WorkspaceManager(repo), BranchManager(repo)
    workspace = await manager.prepare("a")
    (workspace.path / "data.big").write_text("more\n")
    plain_git(workspace.path, "commit", "-qam", "More")
    before = plain_git(repo, "rev-parse", "HEAD")

    refused = await branches.merge("agent/a", "main", message="Merge")
    assert not refused.merged
    assert "data.big would have to pass a filter" in refused.reason
    assert plain_git(repo, "rev-parse", "HEAD") == before
    assert (repo / "data.big").read_text() == "whole\n"

    plain_git(repo, "checkout", "-q", "--detach")
    assert (await branches.merge("agent/a", "main", message="Merge")).merged
    plain_git(repo, "checkout", "-q", "main")
    assert (repo / "data.big").read_text() == "more\n"


async def test_the_repositorys_own_user_and_the_users_words_are_respected(bed: Bed) -> None:
    bed.config("user.name", 'Grace "G" \\ Höpper')
    merged = await BranchManager(bed.repo).merge("agent/a", "side", message="Merge")
    assert merged.commit is not None
    author = plain_git(bed.repo, "log", "-1", "--format=%an", merged.commit)
    assert author == 'Grace "G" \\ Höpper'


async def test_line_ends_and_excludes_of_the_user_are_respected(
    bed: Bed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ignored").write_text("*.log\n")
    settings = tmp_path / "gitconfig"
    settings.write_text(f"[core]\n\tautocrlf = true\n\texcludesFile = {tmp_path / 'ignored'}\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    (bed.work / "notes.txt").write_bytes(
        (bed.work / "notes.txt").read_bytes().replace(b"\n", b"\r\n")
    )
    bed.git("add", "notes.txt")
    os.utime(bed.work / "notes.txt", (1, 1))
    (bed.work / "much.log").write_text("x")
    status = await WorkspaceManager(bed.repo).status(bed.workspace)
    assert plain_git(bed.work, "status", "--porcelain", "--untracked-files=all") == ""
    assert status.dirty == ()


async def test_a_sparse_checkout_of_the_user_stays_sparse_when_it_follows_a_merge(bed: Bed) -> None:
    plain_git(bed.repo, "sparse-checkout", "set", "--no-cone", "/notes.txt")
    assert not (bed.repo / "app.py").exists()
    merged = await BranchManager(bed.repo).merge("agent/a", "main", message="Merge")
    assert merged.merged, merged.reason
    assert "line 0 of the agent" in (bed.repo / "notes.txt").read_text()
    assert not (bed.repo / "app.py").exists()
    assert plain_git(bed.repo, "status", "--porcelain") == ""


async def test_a_repository_with_longer_hashes_works_alike(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    plain_git(tmp_path, "init", "-q", "-b", "main", "--object-format=sha256", str(repo))
    (repo / "file").write_text(LINES)
    plain_git(repo, "add", ".")
    plain_git(repo, "commit", "-qm", "First commit")
    manager = WorkspaceManager(repo)
    workspace = await manager.prepare("a")
    (workspace.path / "file").write_text("changed\n")
    assert len((await manager.status(workspace)).head) == 64
    assert await manager.save_dirty(workspace, 1, reason="end") is not None


async def test_a_linked_worktree_hosts_workspaces_and_follows_its_merges(bed: Bed) -> None:
    linked = bed.top / "linked"
    plain_git(bed.repo, "worktree", "add", "-q", str(linked), "side")
    manager = WorkspaceManager(linked)
    workspace = await manager.prepare("c")
    assert workspace.base_branch == "side"
    (workspace.path / "new.txt").write_text("new\n")
    plain_git(workspace.path, "add", ".")
    plain_git(workspace.path, "commit", "-qm", "New")
    assert (await BranchManager(linked).merge("agent/c", "side", message="Merge")).merged
    assert (linked / "new.txt").exists()
    with pytest.raises(Exception, match="checked out at"):
        await BranchManager(bed.repo).delete("side")


async def test_a_submodule_hosts_workspaces(bed: Bed) -> None:
    inner = bed.top / "inner"
    plain_git(bed.top, "clone", "-q", str(bed.repo), str(inner))
    plain_git(
        bed.repo, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "sub"
    )
    sub = bed.repo / "sub"
    assert (sub / ".git").is_file()
    workspace = await WorkspaceManager(sub).prepare("a")
    assert (workspace.path / "notes.txt").exists()
    assert plain_git(workspace.path, "status", "--porcelain") == ""


async def test_submodules_are_saved_at_the_commit_they_are_at(bed: Bed) -> None:
    sub = bed.work / "sub"
    plain_git(bed.top, "init", "-q", str(sub))
    plain_git(sub, "commit", "-q", "--allow-empty", "-m", "One")
    bed.git("add", "sub")
    bed.git("commit", "-qm", "A submodule")
    plain_git(sub, "commit", "-q", "--allow-empty", "-m", "Two")
    manager = WorkspaceManager(bed.repo)
    assert (await manager.status(bed.workspace)).changed == ("sub",)
    saved = await manager.save_dirty(bed.workspace, 1, reason="end")
    assert saved is not None
    assert saved.files == ("sub",)
    assert plain_git(bed.repo, "rev-parse", f"{saved.ref}:sub") == plain_git(
        sub, "rev-parse", "HEAD"
    )


async def test_a_change_of_the_same_length_in_the_same_second_is_saved(bed: Bed) -> None:
    file, index = bed.work / "app.py", bed.own / "index"
    second = int(index.stat().st_mtime) - 100
    os.utime(file, (second, second))
    bed.git("update-index", "--refresh")
    os.utime(index, (second, second))
    file.write_text("print(3)\n")
    os.utime(file, (second, second))
    manager = WorkspaceManager(bed.repo)
    assert (await manager.status(bed.workspace)).changed == ("app.py",)
    saved = await manager.save_dirty(bed.workspace, 1, reason="end")
    assert saved is not None
    assert saved.files == ("app.py",)


async def test_a_status_costs_four_git_processes(bed: Bed, tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    counting = tmp_path / "bin" / "git"
    counting.parent.mkdir()
    real = plain_git(tmp_path, "--exec-path") + "/git"
    counting.write_text(f'#!/bin/sh\necho "$*" >> \'{calls}\'\nexec {real} "$@"\n')
    counting.chmod(0o755)
    environ = {**os.environ, "PATH": f"{counting.parent}:{os.environ['PATH']}"}
    manager = WorkspaceManager(bed.repo, git=Git(environ))
    await manager.status(bed.workspace)
    calls.unlink()
    for _ in range(3):
        await manager.status(bed.workspace)
        assert await manager.is_whole(bed.workspace)
        assert await manager.planted(bed.workspace) == ()
    assert len(calls.read_text().splitlines()) == 3 * 4
