"""A branch that another machine pushed comes here at the commit asked for, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runtime.errors import RuntimeFault
from runtime.remote.remote import GitRemote

if TYPE_CHECKING:
    from pathlib import Path

    from tests.runtime.remote.ends import Far

BRANCH = "agent/a"


def made_elsewhere(far: Far, folder: Path, *, commits: int = 1) -> list[str]:
    """Commit in another clone and push its branch; returns the commits."""
    far.git(far.repo, "push", "-q", str(far.there), "main:refs/heads/main")
    clone = folder / "clone"
    far.git(folder, "clone", "-q", "-b", "main", str(far.there), str(clone))
    made = []
    for number in range(commits):
        far.git(clone, "commit", "-q", "--allow-empty", "-m", f"work {number}")
        made.append(far.git(clone, "rev-parse", "HEAD"))
    far.git(clone, "push", "-q", "origin", f"HEAD:refs/heads/{BRANCH}")
    return made


def local(far: Far) -> str:
    return far.git(far.repo, "rev-parse", "--verify", f"refs/heads/{BRANCH}")


async def test_a_branch_that_is_not_here_is_made(far: Far, tmp_path: Path) -> None:
    (head,) = made_elsewhere(far, tmp_path)
    await far.remote().bring(BRANCH, head, header={})
    assert local(far) == head


async def test_a_branch_behind_moves_and_its_clean_checkout_with_it(
    far: Far, tmp_path: Path
) -> None:
    first, second = made_elsewhere(far, tmp_path, commits=2)
    remote = far.remote()
    await remote.bring(BRANCH, first, header={})
    assert local(far) == first
    far.git(far.repo, "worktree", "add", "-q", str(tmp_path / "tree"), BRANCH)
    await remote.bring(BRANCH, second, header={})
    assert local(far) == second
    assert far.git(tmp_path / "tree", "rev-parse", "HEAD") == second


async def test_what_is_here_already_asks_no_remote(far: Far, tmp_path: Path) -> None:
    (head,) = made_elsewhere(far, tmp_path)
    await far.remote().bring(BRANCH, head, header={})
    gone = GitRemote(far.repo, url=str(tmp_path / "gone.git"), environ={})
    await gone.bring(BRANCH, head, header={})
    far.git(far.repo, "branch", "-D", BRANCH)
    await gone.bring(BRANCH, head, header={})
    assert local(far) == head


async def test_a_branch_beyond_the_commit_is_left_where_it_is(far: Far, tmp_path: Path) -> None:
    first, second = made_elsewhere(far, tmp_path, commits=2)
    await far.remote().bring(BRANCH, second, header={})
    await far.remote().bring(BRANCH, first, header={})
    assert local(far) == second


async def test_other_commits_of_a_branch_here_are_kept_under_a_saved_ref(
    far: Far, tmp_path: Path
) -> None:
    (head,) = made_elsewhere(far, tmp_path)
    ours = far.commit("ours")
    far.git(far.repo, "branch", BRANCH, ours)
    await far.remote().bring(BRANCH, head, header={})
    assert local(far) == head
    saved = far.git(far.repo, "for-each-ref", "--format=%(objectname)", "refs/loopwright/saved/a/")
    assert saved == ours


async def test_a_checkout_with_changes_is_not_moved(far: Far, tmp_path: Path) -> None:
    (head,) = made_elsewhere(far, tmp_path)
    tree = tmp_path / "tree"
    far.git(far.repo, "worktree", "add", "-q", "-b", BRANCH, str(tree))
    (tree / "README.md").write_text("changed\n")
    far.git(tree, "add", "README.md")
    before = local(far)
    with pytest.raises(RuntimeFault, match="commit or stash"):
        await far.remote().bring(BRANCH, head, header={})
    assert local(far) == before
    assert (tree / "README.md").read_text() == "changed\n"


async def test_what_was_never_pushed_is_told_with_what_to_do(far: Far) -> None:
    far.land("main", far.commit("base"))
    with pytest.raises(RuntimeFault, match=rf"has no branch {BRANCH}.*git push"):
        await far.remote().bring(BRANCH, "0123456789" * 4, header={})


async def test_a_branch_that_somebody_rewrote_there_is_not_taken(far: Far) -> None:
    far.land(BRANCH, far.commit("another"))
    with pytest.raises(RuntimeFault, match="somebody else changed it"):
        await far.remote().bring(BRANCH, "0123456789" * 4, header={})
    assert not far.git(far.repo, "for-each-ref", f"refs/heads/{BRANCH}")
