"""The one door for git: what it passes on, what it refuses to run, and how it ends."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING

import pytest

from runtime.errors import GitError, RepositoryError
from runtime.git.git import Git, inspect_repository
from tests.runtime.process_fixtures import alive
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


async def test_output_error_and_code_come_back_as_they_are(git_repo: Path) -> None:
    result = await Git().run(
        "rev-parse", "--verify", "--quiet", "nowhere", cwd=git_repo, check=False
    )
    assert (result.code, result.stdout) == (1, b"")
    assert (
        await Git().run("cat-file", "blob", "HEAD:README.md", cwd=git_repo)
    ).stdout == b"hello\n"


async def test_a_failure_names_the_folder_the_words_of_git_and_the_command(git_repo: Path) -> None:
    with pytest.raises(GitError) as caught:
        await Git().run("checkout", "no such branch", cwd=git_repo)
    assert "pathspec" in str(caught.value)
    assert f"git -C {git_repo} checkout 'no such branch'" in str(caught.value)
    assert caught.value.code == 1


async def test_input_is_read_and_without_input_nothing_waits(git_repo: Path) -> None:
    git = Git()
    blob = (await git.run("hash-object", "--stdin", cwd=git_repo, input=b"x" * 1_000_000)).text
    assert len(blob) == 40
    assert len((await git.run("hash-object", "--stdin", cwd=git_repo)).text) == 40


async def test_a_missing_folder_and_a_missing_git_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(GitError, match="no folder"):
        await Git().run("status", cwd=tmp_path / "gone")
    with pytest.raises(GitError, match="install git"):
        await Git({"PATH": str(tmp_path)}).run("status", cwd=tmp_path)


async def test_a_name_with_nul_is_refused_without_a_process(git_repo: Path) -> None:
    with pytest.raises(GitError, match="NUL"):
        await Git().run("show", "a\0b", cwd=git_repo)


async def test_too_slow_git_is_stopped_with_its_children(git_repo: Path, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    alias = f"alias.slow=!echo $$ > '{pid_file}'; exec sleep 60"
    for limit in (0.3, 3.0, 30.0):  # longer where it takes longer to begin
        with pytest.raises(GitError, match="did not end within") as caught:
            await Git().run("-c", alias, "slow", cwd=git_repo, timeout=limit)
        assert str(git_repo) in str(caught.value)
        if _written(pid_file):
            break
    await until(lambda: not alive(int(pid_file.read_text())))


async def test_a_cancelled_call_leaves_no_process(git_repo: Path, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    alias = f"alias.slow=!echo $$ > '{pid_file}'; exec sleep 60"
    call = asyncio.create_task(Git().run("-c", alias, "slow", cwd=git_repo))
    await until(lambda: _written(pid_file))
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await until(lambda: not alive(int(pid_file.read_text())))


def _written(path: Path) -> bool:
    return path.exists() and path.read_text().endswith("\n")


async def test_inherited_git_variables_do_not_lead_elsewhere(
    git_repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, git_cli: Callable[..., str]
) -> None:
    head = git_cli(git_repo, "rev-parse", "HEAD")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    monkeypatch.setenv("GIT_TRACE", str(tmp_path / "trace"))
    assert (await Git().run("rev-parse", "HEAD", cwd=git_repo)).text == head
    assert not (tmp_path / "trace").exists()
    assert inspect_repository(git_repo).head_commit == head


async def test_the_users_identity_is_known(git_repo: Path) -> None:
    assert "Ada" in (await Git().run("var", "GIT_AUTHOR_IDENT", cwd=git_repo)).text


async def test_at_most_four_git_processes_run_at_once(git_repo: Path, tmp_path: Path) -> None:
    running = tmp_path / "running"
    running.mkdir()
    alias = (
        f"alias.count=!touch '{running}/'$$; ls '{running}' | wc -l; sleep 0.05; rm '{running}/'$$"
    )
    results = await asyncio.gather(
        *(Git().run("-c", alias, "count", cwd=git_repo) for _ in range(16))
    )
    assert 1 < max(int(result.text) for result in results) <= 4


async def test_waiting_for_git_takes_no_thread(git_repo: Path) -> None:
    before = threading.active_count()
    calls = [asyncio.create_task(Git().run("status", cwd=git_repo)) for _ in range(8)]
    most = 0
    while not all(call.done() for call in calls):
        most = max(most, threading.active_count())
        await asyncio.sleep(0)
    assert most == before


async def test_without_pidfd_git_runs_and_is_stopped_all_the_same(
    git_repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    assert (await Git().run("rev-parse", "--is-bare-repository", cwd=git_repo)).text == "false"
    with pytest.raises(GitError, match="did not end within"):
        await Git().run("-c", "alias.slow=!exec sleep 60", "slow", cwd=git_repo, timeout=0.2)


async def test_an_older_git_than_needed_is_refused_with_both_versions(git_repo: Path) -> None:
    git = Git()
    await git.require((2, 0), "this", cwd=git_repo)
    with pytest.raises(GitError, match=r"merging needs git 99\.1 or newer, this is 2"):
        await git.require((99, 1), "merging", cwd=git_repo)


def test_facts_of_an_ordinary_repository(git_repo: Path, git_cli: Callable[..., str]) -> None:
    facts = inspect_repository(git_repo / "src")
    assert facts.root == git_repo
    assert facts.git_dir == facts.common_dir == git_repo / ".git"
    assert facts.head_commit == git_cli(git_repo, "rev-parse", "HEAD")
    assert (facts.branch, facts.is_bare, facts.is_detached) == ("main", False, False)
    facts.require_usable()


def test_facts_of_a_detached_head_and_of_a_worktree(
    git_repo: Path, tmp_path: Path, git_cli: Callable[..., str]
) -> None:
    git_cli(git_repo, "worktree", "add", "-q", "--detach", str(tmp_path / "wt"))
    facts = inspect_repository(tmp_path / "wt")
    assert (facts.branch, facts.is_detached) == (None, True)
    assert facts.root == tmp_path / "wt"
    assert facts.common_dir == git_repo / ".git"
    assert facts.git_dir == git_repo / ".git" / "worktrees" / "wt"


def test_what_cannot_host_workspaces_is_told_with_what_to_do(
    tmp_path: Path, git_cli: Callable[..., str]
) -> None:
    with pytest.raises(RepositoryError, match="git init"):
        inspect_repository(tmp_path)
    with pytest.raises(RepositoryError, match="git init"):
        inspect_repository(tmp_path / "gone")

    empty = tmp_path / "empty"
    git_cli(tmp_path, "init", "-q", str(empty))
    facts = inspect_repository(empty)
    assert (facts.head_commit, facts.branch) == (None, "main")
    with pytest.raises(RepositoryError, match="--allow-empty"):
        facts.require_usable()

    bare = tmp_path / "bare.git"
    git_cli(tmp_path, "init", "-q", "--bare", str(bare))
    facts = inspect_repository(bare)
    assert facts.is_bare
    with pytest.raises(RepositoryError, match="git clone"):
        facts.require_usable()
