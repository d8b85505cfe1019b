"""Commits come from the repository elsewhere, and nothing is lost here."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from runtime.errors import GitError
from runtime.remote.remote import GitRemote, PushOutcome

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tests.runtime.remote.ends import Far


DONE = PushOutcome(done=True, reason="")
MISSING = "0123456789" * 4


async def test_fetching_changes_nothing_here_but_its_own_ref(far: Far) -> None:
    base = far.git(far.repo, "rev-parse", "HEAD")
    theirs = far.commit("theirs")
    far.git(far.repo, "tag", "v1")
    far.git(far.repo, "push", "-q", str(far.there), "v1", "main:up", "main:other")
    far.git(far.repo, "tag", "-d", "v1")
    far.git(far.repo, "reset", "-q", "--hard", base)
    far.git(far.repo, "remote", "add", "origin", str(far.there))
    before = far.git(far.repo, "for-each-ref")
    config = (far.repo / ".git" / "config").read_bytes()
    assert await far.remote().fetch("up", header={}) == theirs
    kept = f"{theirs} commit\trefs/loopwright/remote/up"
    after = far.git(far.repo, "for-each-ref").splitlines()
    assert sorted(after) == sorted([*before.splitlines(), kept])
    assert not (far.repo / ".git" / "FETCH_HEAD").exists()
    assert (far.repo / ".git" / "config").read_bytes() == config


async def test_a_branch_that_was_rewritten_there_is_fetched_as_it_is_now(far: Far) -> None:
    one, two = far.commit("one"), far.commit("two")
    for tip in (two, one, two):
        far.land("a", tip)
        assert await far.remote().fetch("a", header={}) == tip


async def test_many_fetches_of_one_branch_at_once_all_return_it(far: Far) -> None:
    remote = far.remote()
    for number in range(4):
        sha = far.commit(f"commit {number}")
        far.land("a", sha)
        assert await asyncio.gather(*(remote.fetch("a", header={}) for _ in range(6))) == [sha] * 6


async def test_a_lock_that_a_killed_git_left_does_not_block(far: Far) -> None:
    sha = far.commit("one")
    far.land("agent/a", sha)
    lock = far.repo / ".git" / "refs" / "loopwright" / "remote" / "agent" / "a.lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    assert await far.remote().fetch("agent/a", header={}) == sha


async def test_a_branch_below_the_name_of_one_that_is_gone_is_fetched(far: Far) -> None:
    sha, remote = far.commit("one"), far.remote()
    for name in ("a", "a/b/c", "a/b"):
        far.land(name, sha)
        assert await remote.fetch(name, header={}) == sha
        far.git(far.there, "update-ref", "-d", f"refs/heads/{name}")


async def test_a_planted_ref_does_not_lead_a_fetch_to_another_branch(far: Far) -> None:
    base = far.git(far.repo, "rev-parse", "main")
    far.git(far.repo, "branch", "precious")
    theirs = far.commit("theirs")
    far.land("a", theirs)
    ref = far.repo / ".git" / "refs" / "loopwright" / "remote" / "a"
    ref.parent.mkdir(parents=True)
    ref.write_text("ref: refs/heads/precious\n")
    far.git(
        far.repo,
        "fetch",
        "-q",
        str(far.there),
        f"+refs/heads/a:{ref.relative_to(far.repo / '.git')}",
    )
    assert far.git(far.repo, "rev-parse", "precious") == theirs, "the attack does not work at all"
    far.git(far.repo, "branch", "-f", "precious", base)
    assert await far.remote().fetch("a", header={}) == theirs
    assert far.git(far.repo, "rev-parse", "precious") == base
    ref.unlink()
    ref.parent.rmdir()
    ref.parent.symlink_to(far.repo / ".git" / "refs" / "heads")
    far.land("precious", theirs)
    with pytest.raises(GitError, match="is or lies behind a symbolic link"):
        await far.remote().fetch("precious", header={})
    assert far.git(far.repo, "rev-parse", "precious") == base


async def test_objects_are_not_fetched_through_a_link_to_another_place(
    far: Far, tmp_path: Path
) -> None:
    far.land("a", far.commit("one"))
    packs = far.repo / ".git" / "objects" / "pack"
    packs.rmdir()
    packs.symlink_to(tmp_path)
    with pytest.raises(GitError, match="pack is a symbolic link"):
        await far.remote().fetch("a", header={})


async def test_a_store_of_objects_beside_ours_does_not_hold_a_fetch_up(
    far: Far, tmp_path: Path
) -> None:
    theirs = far.commit("theirs")
    far.land("a", theirs)
    beside = tmp_path / "beside"
    far.git(tmp_path, "init", "-q", str(beside))
    os.mkfifo(beside / ".git" / "packed-refs")
    fresh = tmp_path / "fresh"
    far.git(tmp_path, "clone", "-q", "--bare", "--single-branch", str(far.repo), str(fresh))
    far.git(fresh, "update-ref", "-d", "refs/heads/main")
    far.git(fresh, "prune")
    shutil.rmtree(fresh / "objects" / "pack")
    (fresh / "objects" / "info" / "alternates").write_text(f"{beside / '.git' / 'objects'}\n")
    careless = ("git", "fetch", "-q", str(far.there), "a")
    with subprocess.Popen(careless, cwd=fresh, start_new_session=True) as waiting:  # noqa: ASYNC220  # shows that git waits for ever
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(0.5)
        os.killpg(waiting.pid, signal.SIGKILL)
    remote = GitRemote(fresh, url=str(far.there), environ=os.environ)
    async with asyncio.timeout(10):
        assert await remote.fetch("a", header={}) == theirs


async def test_a_branch_follows_without_a_checkout_and_in_a_clean_one(far: Far) -> None:
    base = far.git(far.repo, "rev-parse", "HEAD")
    (far.repo / "README.md").write_text("two\n")
    far.git(far.repo, "commit", "-qam", "two")
    two = far.git(far.repo, "rev-parse", "HEAD")
    far.git(far.repo, "reset", "-q", "--hard", base)
    far.git(far.repo, "branch", "a")
    (far.repo / "notes").write_text("untracked\n")
    remote = far.remote()
    for branch in ("a", "main"):
        assert await remote.follow(branch, two)
        assert await remote.follow(branch, two)  # again
        assert await remote.follow(branch, base)  # held already
        assert far.git(far.repo, "rev-parse", branch) == two
    assert (far.repo / "README.md").read_text() == "two\n"
    assert far.git(far.repo, "status", "--porcelain") == "?? notes"
    assert await remote.holds(two, base)
    assert not await remote.holds(base, two)
    assert not await remote.holds(two, MISSING)


@pytest.mark.parametrize("state", ["changed", "staged", "in the way", "diverged", "no branch"])
async def test_a_branch_does_not_follow_where_something_could_be_lost(
    state: str, far: Far, git_picture: Callable[[Path], Mapping[str, str]]
) -> None:
    base = far.git(far.repo, "rev-parse", "HEAD")
    (far.repo / "new").write_text("theirs\n")
    far.git(far.repo, "add", "new")
    far.git(far.repo, "commit", "-qm", "theirs")
    theirs = far.git(far.repo, "rev-parse", "HEAD")
    far.git(far.repo, "reset", "-q", "--hard", base)
    if state in {"changed", "staged"}:
        (far.repo / "README.md").write_text("mine\n")
    if state == "staged":
        far.git(far.repo, "add", "README.md")
    if state == "in the way":
        (far.repo / "new").write_text("mine\n")
    if state == "diverged":
        far.commit("mine")
    before = git_picture(far.repo)
    branch = "nope" if state == "no branch" else "main"
    assert not await far.remote().follow(branch, theirs)
    assert not await far.remote().follow(branch, MISSING)
    assert git_picture(far.repo) == before


@pytest.mark.parametrize("kind", ["shallow", "partial", "bare", "worktree", "detached", "sha256"])
async def test_unusual_repositories_push_and_fetch_as_well(
    kind: str, far: Far, tmp_path: Path
) -> None:
    repo = tmp_path / kind
    far.land("main", far.commit("one"))
    far.git(far.there, "config", "uploadpack.allowFilter", "true")
    there = tmp_path / "sha256.git" if kind == "sha256" else far.there
    make = {
        "shallow": ("clone", "-q", "--depth=1", f"file://{far.there}", str(repo)),
        "partial": ("clone", "-q", "--filter=blob:none", f"file://{far.there}", str(repo)),
        "bare": ("clone", "-q", "--bare", str(far.there), str(repo)),
        "worktree": ("worktree", "add", "-q", "-b", "w", str(repo)),
        "detached": ("worktree", "add", "-q", "--detach", str(repo)),
        "sha256": ("init", "-q", "--object-format=sha256", str(repo)),
    }
    far.git(far.repo, *make[kind])
    if kind == "sha256":
        far.git(tmp_path, "init", "-q", "--bare", "--object-format=sha256", str(there))
    if kind != "bare":
        far.git(repo, "commit", "-q", "--allow-empty", "-m", "Work")
    sha = far.git(repo, "rev-parse", "HEAD")
    remote = GitRemote(repo, url=str(there), environ=os.environ)
    assert await remote.push("a", sha, expected=None, header={}) == DONE
    if kind != "sha256":
        far.git(far.repo, "fetch", "-q", str(there), "a")
        far.git(far.repo, "switch", "-q", "--detach", "FETCH_HEAD")
        newer = far.commit("newer")
        far.land("a", newer)
        assert await remote.fetch("a", header={}) == newer
    else:
        assert await remote.fetch("a", header={}) == sha
        wrong = GitRemote(repo, url=str(far.there), environ=os.environ)
        refused = await wrong.push("a", sha, expected=None, header={})
        assert "SHA-1 and SHA-256 do not mix" in refused.reason
