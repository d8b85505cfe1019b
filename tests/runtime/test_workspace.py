"""Making, healing, refusing and removing workspaces in a real repository."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING

import pytest

from runtime.errors import RepositoryError, WorkspaceError
from runtime.workspace import WorkspaceManager
from runtime.workspaces.worktrees_dir import default_worktrees_dir

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Cli = Callable[..., str]
    Picture = Callable[[Path], dict[str, str]]


def base_refs(cli: Cli, repo: Path) -> str:
    return cli(repo, "for-each-ref", "--format=%(refname) %(objectname)", "refs/loopwright/base")


def _moved(repo: Path) -> Path:
    return repo.rename(repo.with_name("moved"))


def worktrees(cli: Cli, repo: Path) -> int:
    return cli(repo, "worktree", "list", "--porcelain").count("worktree ")


async def test_a_workspace_is_a_worktree_on_its_own_branch_with_its_base_recorded(
    git_repo: Path, git_cli: Cli, git_picture: Picture
) -> None:
    before = git_picture(git_repo)
    head = git_cli(git_repo, "rev-parse", "HEAD")
    workspace = await WorkspaceManager(git_repo).prepare("a-1")
    assert workspace.path == default_worktrees_dir(git_repo) / "a-1"
    assert (workspace.branch, workspace.base_branch) == ("agent/a-1", "main")
    assert (workspace.base_commit, workspace.notes) == (head, ())
    assert (workspace.path / "src" / "app.py").read_text() == "print(1)\n"
    assert git_cli(workspace.path, "symbolic-ref", "HEAD") == "refs/heads/agent/a-1"
    assert git_cli(workspace.path, "status", "--porcelain") == ""
    assert base_refs(git_cli, git_repo) == f"refs/loopwright/base/a-1 {head}"
    assert git_picture(git_repo) == before
    assert (git_repo / ".loopwright").stat().st_mode & 0o777 == 0o700


async def test_preparing_again_returns_the_same_with_the_work_in_it(
    git_repo: Path, git_cli: Cli
) -> None:
    first = await WorkspaceManager(git_repo).prepare("a")
    (first.path / "wip.txt").write_text("wip")
    git_cli(git_repo, "commit", "-q", "--allow-empty", "-m", "main moves on")
    again = WorkspaceManager(git_repo)
    assert await again.prepare("a") == first
    assert await again.open("a") == first
    assert await again.open("b") is None
    assert (first.path / "wip.txt").read_text() == "wip"


async def test_two_prepares_at_once_give_one_workspace(git_repo: Path, git_cli: Cli) -> None:
    manager = WorkspaceManager(git_repo)
    one, two = await asyncio.gather(manager.prepare("a"), manager.prepare("a"))
    assert one == two
    assert worktrees(git_cli, git_repo) == 2


async def test_twenty_agents_are_prepared_and_removed_at_once(
    git_repo: Path, git_cli: Cli, git_picture: Picture
) -> None:
    before = git_picture(git_repo)
    manager = WorkspaceManager(git_repo)
    names = [f"agent-{number}" for number in range(20)]
    made = await asyncio.gather(*(manager.prepare(name) for name in names))
    assert all((workspace.path / "README.md").exists() for workspace in made)
    assert {owned.agent_id for owned in await manager.list_ours()} == set(names)
    await asyncio.gather(*(manager.remove(n, drop_branch=True, attempt=1) for n in names))
    assert worktrees(git_cli, git_repo) == 1
    assert await manager.list_ours() == ()
    assert git_picture(git_repo) == before


@pytest.mark.parametrize("base", ["develop", "a tag", "short id", None])
async def test_the_base_is_a_branch_a_commit_or_the_commit_checked_out(
    git_repo: Path, git_cli: Cli, base: str | None
) -> None:
    git_cli(git_repo, "branch", "develop")
    git_cli(git_repo, "tag", "v1")
    head = git_cli(git_repo, "rev-parse", "HEAD")
    if base is None:
        git_cli(git_repo, "checkout", "-q", "--detach")
    named = {"a tag": "v1", "short id": head[:8]}.get(base or "", base)
    workspace = await WorkspaceManager(git_repo).prepare("a", base=named)
    assert workspace.base_commit == head
    assert workspace.base_branch == ("develop" if base == "develop" else None)
    assert bool(workspace.notes) is (base is None)


async def test_a_repository_that_cannot_host_is_refused_with_what_to_do(
    tmp_path: Path, git_cli: Cli
) -> None:
    for name, options in (("empty", ()), ("bare.git", ("--bare",))):
        git_cli(tmp_path, "init", "-q", *options, name)
    with pytest.raises(RepositoryError, match="--allow-empty"):
        await WorkspaceManager(tmp_path / "empty").prepare("a")
    with pytest.raises(RepositoryError, match="--allow-empty"):
        await WorkspaceManager(tmp_path / "empty").prepare("a", base="main")
    with pytest.raises(WorkspaceError, match="git clone"):
        await WorkspaceManager(tmp_path / "bare.git").prepare("a")
    with pytest.raises(WorkspaceError, match="git init"):
        await WorkspaceManager(tmp_path).prepare("a")


async def test_a_missing_base_names_the_branches_there_are(
    git_repo: Path, git_cli: Cli, git_picture: Picture
) -> None:
    git_cli(git_repo, "branch", "develop")
    before = git_picture(git_repo)
    for base in ("nowhere", "--all", ""):
        with pytest.raises(WorkspaceError, match="develop"):
            await WorkspaceManager(git_repo).prepare("a", base=base)
    assert git_picture(git_repo) == before
    assert base_refs(git_cli, git_repo) == ""


async def test_a_branch_of_that_name_that_is_not_ours_is_refused_and_kept(
    git_repo: Path, git_cli: Cli
) -> None:
    git_cli(git_repo, "branch", "agent/a")
    manager = WorkspaceManager(git_repo)
    with pytest.raises(WorkspaceError, match="git branch -m agent/a NEW-NAME"):
        await manager.prepare("a")
    assert await manager.remove("a", drop_branch=True, attempt=1) is None
    assert git_cli(git_repo, "branch", "--list", "agent/a")


async def test_a_branch_called_agent_is_named_as_the_obstacle(git_repo: Path, git_cli: Cli) -> None:
    git_cli(git_repo, "branch", "agent")
    with pytest.raises(WorkspaceError, match="rename it"):
        await WorkspaceManager(git_repo).prepare("a")


async def test_a_folder_that_is_not_ours_is_refused_and_kept_an_empty_one_used(
    git_repo: Path,
) -> None:
    manager = WorkspaceManager(git_repo)
    folder = manager.root / "a"
    folder.mkdir(parents=True)
    (folder / "precious").write_text("x")
    with pytest.raises(WorkspaceError, match="move it away"):
        await manager.prepare("a")
    assert await manager.remove("a", drop_branch=True, attempt=1) is None
    (folder / "precious").unlink()
    assert (await manager.prepare("a")).path == folder


async def test_uncommitted_files_of_the_user_stay_and_are_told(
    git_repo: Path, git_cli: Cli, git_picture: Picture
) -> None:
    (git_repo / "README.md").write_text("mine\n")
    (git_repo / "staged").write_text("x")
    git_cli(git_repo, "add", "staged")
    before = git_picture(git_repo)
    manager = WorkspaceManager(git_repo)
    workspace = await manager.prepare("a")
    assert len(workspace.notes) == 1
    assert "README.md, staged" in workspace.notes[0]
    assert (workspace.path / "README.md").read_text() == "hello\n"
    await manager.remove("a", drop_branch=True, attempt=1)
    assert git_picture(git_repo) == before


async def test_our_files_are_excluded_once_and_the_users_lines_stay(
    git_repo: Path, git_cli: Cli
) -> None:
    exclude = git_repo / ".git" / "info" / "exclude"
    exclude.write_text("*.log")
    manager = WorkspaceManager(git_repo)
    workspace = await manager.prepare("a")
    once = exclude.read_text()
    await manager.prepare("b")
    assert exclude.read_text() == once
    assert once.splitlines()[0] == "*.log"
    for place in (git_repo, workspace.path):
        (place / "communications.json").write_text("{}")
        assert git_cli(place, "status", "--porcelain", "-uall") == ""
    (workspace.path / "src" / "communications.json").write_text("{}")
    assert (await manager.status(workspace)).untracked == ("src/communications.json",)


@pytest.mark.parametrize(
    "agent_id", ["", "..", "a/b", "-x", ".x", "a..b", "a.lock", "a.", "a\n", "ä"]
)
async def test_an_id_that_cannot_name_a_branch_is_refused(git_repo: Path, agent_id: str) -> None:
    manager = WorkspaceManager(git_repo)
    for call in (manager.prepare(agent_id), manager.remove(agent_id, drop_branch=True, attempt=1)):
        with pytest.raises(WorkspaceError, match="not a valid agent id"):
            await call


@pytest.mark.parametrize("emptied", [False, True])
async def test_removing_after_a_move_leaves_neither_branch_nor_registration(
    git_repo: Path, git_cli: Cli, *, emptied: bool
) -> None:
    workspace = await WorkspaceManager(git_repo).prepare("a")
    if emptied:
        shutil.rmtree(workspace.path)
    moved = _moved(git_repo)
    await WorkspaceManager(moved).remove("a", drop_branch=True, attempt=1)
    assert worktrees(git_cli, moved) == 1
    assert git_cli(moved, "branch", "--list", "agent/a") == ""


@pytest.mark.parametrize("theirs", ["elsewhere/a", ".loopwright/worktrees/b"])
async def test_a_vanished_worktree_of_another_name_or_place_is_left_alone(
    git_repo: Path, git_cli: Cli, tmp_path: Path, theirs: str
) -> None:
    manager = WorkspaceManager(git_repo)
    await manager.prepare("a")
    await manager.remove("a", drop_branch=False, attempt=1)
    git_cli(git_repo, "worktree", "add", "-q", str(tmp_path / theirs), "agent/a")
    shutil.rmtree(tmp_path / theirs)
    with pytest.raises(WorkspaceError, match="git worktree prune"):
        await manager.prepare("a")
    assert str(tmp_path / theirs) in git_cli(git_repo, "worktree", "list")


async def test_a_branch_checked_out_elsewhere_is_not_taken_away(
    git_repo: Path, git_cli: Cli
) -> None:
    manager = WorkspaceManager(git_repo)
    await manager.prepare("a")
    await manager.remove("a", drop_branch=False, attempt=1)
    git_cli(git_repo, "checkout", "-q", "agent/a")
    with pytest.raises(WorkspaceError, match="switch that checkout"):
        await manager.prepare("a")
    with pytest.raises(WorkspaceError, match="switch that checkout"):
        await manager.remove("a", drop_branch=True, attempt=1)
    git_cli(git_repo, "checkout", "-q", "main")
    await manager.remove("a", drop_branch=True, attempt=1)
    assert git_cli(git_repo, "branch", "--list", "agent/a") == ""


async def test_removing_is_idempotent_and_keeps_all_work_reachable(
    git_repo: Path, git_cli: Cli
) -> None:
    manager = WorkspaceManager(git_repo)
    workspace = await manager.prepare("a")
    git_cli(workspace.path, "commit", "-q", "--allow-empty", "-m", "work")
    head = git_cli(workspace.path, "rev-parse", "HEAD")
    git_cli(workspace.path, "checkout", "-q", "--detach")
    git_cli(workspace.path, "commit", "-q", "--allow-empty", "-m", "detached work")
    detached = git_cli(workspace.path, "rev-parse", "HEAD")
    (workspace.path / "wip.txt").write_text("wip")
    saved = await manager.remove("a", drop_branch=True, attempt=3)
    assert saved is not None
    assert saved.ref == "refs/loopwright/saved/a/3"
    assert await manager.remove("a", drop_branch=True, attempt=3) is None
    assert not workspace.path.exists()
    assert worktrees(git_cli, git_repo) == 1
    kept = git_cli(
        git_repo, "for-each-ref", "--format=%(refname:lstrip=3) %(objectname)", "refs/loopwright"
    ).splitlines()
    assert kept == [f"a/3 {saved.commit}", f"a/3-detached {detached}", f"a/head {head}"]
    assert git_cli(git_repo, "branch", "--list", "agent/*") == ""


async def test_the_head_of_an_earlier_life_stays_reachable(git_repo: Path, git_cli: Cli) -> None:
    manager = WorkspaceManager(git_repo)
    heads = []
    for life in ("one", "two"):
        workspace = await manager.prepare("a")
        git_cli(workspace.path, "commit", "-q", "--allow-empty", "-m", life)
        heads.append(git_cli(workspace.path, "rev-parse", "HEAD"))
        await manager.remove("a", drop_branch=True, attempt=1)
    refs = git_cli(git_repo, "for-each-ref", "--format=%(objectname)", "refs/loopwright/saved/a")
    assert set(refs.split()) == set(heads)


async def test_removing_tolerates_a_deleted_folder_and_read_only_ones(
    git_repo: Path, git_cli: Cli
) -> None:
    manager = WorkspaceManager(git_repo)
    workspace = await manager.prepare("a")
    shutil.rmtree(workspace.path)
    assert await manager.remove("a", drop_branch=False, attempt=1) is None
    assert worktrees(git_cli, git_repo) == 1
    assert git_cli(git_repo, "branch", "--list", "agent/a")

    assert await manager.prepare("a") == workspace
    cache = workspace.path / "cache"
    cache.mkdir()
    (cache / "file").write_text("x")
    cache.chmod(0o555)
    saved = await manager.remove("a", drop_branch=True, attempt=1)
    assert saved is not None
    assert saved.files == ("cache/file",)
    assert not workspace.path.exists()


async def test_a_sweep_takes_only_ours_whose_folder_is_gone(
    git_repo: Path, git_cli: Cli, tmp_path: Path
) -> None:
    manager = WorkspaceManager(git_repo)
    made = {name: await manager.prepare(name) for name in ("gone", "kept", "present")}
    git_cli(git_repo, "worktree", "add", "-q", str(tmp_path / "users"))
    shutil.rmtree(tmp_path / "users")
    shutil.rmtree(made["gone"].path)
    shutil.rmtree(made["kept"].path)
    assert await manager.sweep({"kept"}) == ("gone",)
    listed = git_cli(git_repo, "worktree", "list")
    assert f"{manager.root}/gone" not in listed
    kept = (f"{tmp_path}/users", f"{manager.root}/kept", f"{manager.root}/present")
    assert all(name in listed for name in kept)
    state = {o.agent_id: (o.registered, o.present) for o in await manager.list_ours()}
    assert state == {"gone": (False, False), "kept": (True, False), "present": (True, True)}
