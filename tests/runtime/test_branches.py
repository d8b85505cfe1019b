"""Merging, comparing, exporting and deleting branches of a real repository."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from runtime.branches import BranchManager
from runtime.errors import BranchError, RepositoryError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Cli = Callable[..., str]
    Picture = Callable[[Path], dict[str, str]]


def commit_on(cli: Cli, repo: Path, branch: str, files: dict[str, str]) -> str:
    """Commit files on a branch (made from main if new) without using the user's checkout."""
    place = repo.parent / "elsewhere"
    exists = cli(repo, "for-each-ref", f"refs/heads/{branch}")
    cli(
        repo, "worktree", "add", "-q", str(place), *([branch] if exists else ["-b", branch, "main"])
    )
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    cli(place, "add", "-A")
    cli(place, "commit", "-qm", f"work on {branch}")
    head = cli(place, "rev-parse", "HEAD")
    cli(repo, "worktree", "remove", str(place))
    return head


def refs(cli: Cli, repo: Path) -> str:
    return cli(repo, "for-each-ref")


async def test_a_merge_moves_a_branch_nobody_has_checked_out_and_nothing_else(
    git_repo: Path, git_cli: Cli, git_picture: Picture
) -> None:
    head = commit_on(git_cli, git_repo, "agent/a", {"new.txt": "1"})
    git_cli(git_repo, "branch", "target")
    before = git_picture(git_repo)
    outcome = await BranchManager(git_repo).merge("agent/a", "target", message="Merge it\n\nbody")
    assert outcome.merged
    assert outcome.commit == git_cli(git_repo, "rev-parse", "target")
    main = git_cli(git_repo, "rev-parse", "main")
    assert git_cli(git_repo, "log", "-1", "--format=%P|%an|%B", "target") == (
        f"{main} {head}|Ada|Merge it\n\nbody"
    )
    assert git_picture(git_repo) == before


async def test_the_checkout_of_the_target_follows_the_merge(git_repo: Path, git_cli: Cli) -> None:
    commit_on(git_cli, git_repo, "agent/a", {"new.txt": "1"})
    (git_repo / "unrelated.txt").write_text("mine")
    outcome = await BranchManager(git_repo).merge("agent/a", "main", message="m")
    assert outcome.merged
    assert (git_repo / "new.txt").read_text() == "1"
    assert git_cli(git_repo, "status", "--porcelain") == "?? unrelated.txt"
    assert git_cli(git_repo, "symbolic-ref", "HEAD") == "refs/heads/main"


@pytest.mark.parametrize("ignored", [False, True])
async def test_local_changes_in_the_way_refuse_the_merge_and_stay(
    git_repo: Path, git_cli: Cli, git_picture: Picture, *, ignored: bool
) -> None:
    commit_on(git_cli, git_repo, "agent/a", {"README.md": "theirs\n", "extra.txt": "theirs"})
    if ignored:
        (git_repo / ".git" / "info" / "exclude").write_text("extra.txt\n")
        (git_repo / "extra.txt").write_text("mine")
    else:
        (git_repo / "README.md").write_text("mine\n")
    before, refs_before = git_picture(git_repo), refs(git_cli, git_repo)
    outcome = await BranchManager(git_repo).merge("agent/a", "main", message="m")
    assert not outcome.merged
    assert ("extra.txt" if ignored else "README.md") in outcome.reason
    assert str(git_repo) in outcome.reason
    assert (git_picture(git_repo), refs(git_cli, git_repo)) == (before, refs_before)


def in_the_middle(cli: Cli, repo: Path, command: str) -> None:
    """Leave git in the middle of something that has main in its hands, and HEAD away from it."""
    commit_on(cli, repo, "up", {"README.md": "up\n"})
    (repo / "README.md").write_text("mine\n")
    cli(repo, "commit", "-qam", "mine")
    if command == "bisect":
        cli(repo, "bisect", "start", "main", "main~1")
        cli(repo, "checkout", "-q", "--detach")
        return
    if command == "rebase --update-refs up":
        cli(repo, "checkout", "-q", "-b", "topic")
    with pytest.raises(AssertionError):
        cli(repo, *command.split())


@pytest.mark.parametrize(
    "command", ["rebase up", "rebase --apply up", "rebase --update-refs up", "bisect"]
)
@pytest.mark.parametrize("elsewhere", [False, True])
async def test_a_branch_that_is_being_rebased_or_bisected_is_not_moved_until_that_is_over(
    git_repo: Path, git_cli: Cli, command: str, *, elsewhere: bool
) -> None:
    commit_on(git_cli, git_repo, "agent/a", {"new.txt": "1"})
    place = git_repo
    if elsewhere:
        git_cli(git_repo, "checkout", "-q", "-b", "aside")
        place = git_repo.parent / "linked"
        git_cli(git_repo, "worktree", "add", "-q", str(place), "main")
    in_the_middle(git_cli, place, command)
    before = refs(git_cli, git_repo)
    branches = BranchManager(git_repo)
    outcome = await branches.merge("agent/a", "main", message="m")
    assert (outcome.merged, outcome.passing) == (False, True)
    doing = "bisected" if command == "bisect" else "rebased"
    assert outcome.reason == (
        f"main is being {doing} at {place}: finish or abort that first, then try again"
    )
    assert refs(git_cli, git_repo) == before
    git_cli(place, *(["bisect", "reset"] if command == "bisect" else ["rebase", "--abort"]))
    assert (await branches.merge("agent/a", "main", message="m")).merged
    assert git_cli(git_repo, "show", "main:new.txt") == "1"


async def test_a_rebase_of_another_branch_is_in_no_ones_way(git_repo: Path, git_cli: Cli) -> None:
    commit_on(git_cli, git_repo, "agent/a", {"new.txt": "1"})
    git_cli(git_repo, "branch", "target")
    in_the_middle(git_cli, git_repo, "rebase up")
    assert (await BranchManager(git_repo).merge("agent/a", "target", message="m")).merged


async def test_a_conflict_names_the_files_and_leaves_everything_as_it_was(
    git_repo: Path, git_cli: Cli, git_picture: Picture
) -> None:
    odd = "odd ü\nname.txt"
    commit_on(git_cli, git_repo, "agent/a", {"README.md": "a\n", odd: "a"})
    commit_on(git_cli, git_repo, "other", {"README.md": "b\n", odd: "b"})
    before, refs_before = git_picture(git_repo), refs(git_cli, git_repo)
    branches = BranchManager(git_repo)
    outcome = await branches.merge("agent/a", "other", message="m")
    assert not outcome.merged
    assert outcome.commit is None
    assert set(outcome.conflicts) == {"README.md", odd}
    assert "README.md" in outcome.reason
    assert await branches.is_conflicted("agent/a", "other") == outcome.conflicts
    assert (git_picture(git_repo), refs(git_cli, git_repo)) == (before, refs_before)


async def test_merging_again_changes_nothing(git_repo: Path, git_cli: Cli) -> None:
    commit_on(git_cli, git_repo, "agent/a", {"new.txt": "1"})
    branches = BranchManager(git_repo)
    first = await branches.merge("agent/a", "main", message="m")
    again = await branches.merge("agent/a", "main", message="m")
    assert again.merged
    assert again.commit == first.commit == await branches.head("main")


async def test_a_branch_that_moved_on_is_not_merged(git_repo: Path, git_cli: Cli) -> None:
    seen = commit_on(git_cli, git_repo, "agent/a", {"new.txt": "1"})
    commit_on(git_cli, git_repo, "agent/a", {"new.txt": "2"})
    before = refs(git_cli, git_repo)
    outcome = await BranchManager(git_repo).merge(
        "agent/a", "main", message="m", expected_head=seen
    )
    assert not outcome.merged
    assert seen in outcome.reason
    assert refs(git_cli, git_repo) == before


async def test_a_missing_branch_is_told_with_those_that_exist(git_repo: Path) -> None:
    branches = BranchManager(git_repo)
    outcome = await branches.merge("agent/none", "main", message="m")
    assert not outcome.merged
    assert "'agent/none'" in outcome.reason
    assert "main" in outcome.reason
    with pytest.raises(BranchError, match="main"):
        await branches.is_conflicted("main", "nowhere")


async def test_a_merge_needs_no_configured_user(
    git_repo: Path, git_cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_on(git_cli, git_repo, "agent/a", {"new.txt": "1"})
    git_cli(git_repo, "config", "user.useConfigOnly", "true")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    assert (await BranchManager(git_repo).merge("agent/a", "main", message="m")).merged


async def test_merges_at_once_into_one_branch_all_arrive(git_repo: Path, git_cli: Cli) -> None:
    names = [f"agent/a{number}" for number in range(5)]
    for name in names:
        commit_on(git_cli, git_repo, name, {f"{name}.txt": name})
    branches = BranchManager(git_repo)
    outcomes = await asyncio.gather(*(branches.merge(n, "main", message=n) for n in names))
    assert all(outcome.merged for outcome in outcomes)
    assert len(list((git_repo / "agent").iterdir())) == 5


async def test_deleting_is_idempotent_and_spares_what_is_checked_out(
    git_repo: Path, git_cli: Cli
) -> None:
    commit_on(git_cli, git_repo, "agent/a", {"new.txt": "1"})
    branches = BranchManager(git_repo)
    assert await branches.delete("agent/a")
    assert not await branches.delete("agent/a")
    with pytest.raises(BranchError, match="checked out"):
        await branches.delete("main")


async def test_names_are_names_and_never_options_or_expressions(git_repo: Path) -> None:
    branches = BranchManager(git_repo)
    for name in ("main~0", "main^{commit}", "--all", "@", "HEAD", "", "main@{0}"):
        assert await branches.head(name) is None
    assert not await branches.commit_exists("HEAD")
    assert not await branches.commit_exists("f" * 40)
    head = await branches.head("main")
    assert head is not None
    assert await branches.commit_exists(head)


@pytest.mark.usefixtures("git_home")
async def test_a_folder_without_repository_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RepositoryError, match="git init"):
        await BranchManager(tmp_path).head("main")
