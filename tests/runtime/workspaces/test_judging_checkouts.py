"""A judging checkout holds the files of one commit and nothing else, whatever was done to it."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from runtime.workspaces.judging_checkouts import JudgingCheckouts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Cli = Callable[..., str]


@pytest.fixture
def checkouts(git_repo: Path, tmp_path: Path) -> JudgingCheckouts:
    return JudgingCheckouts(git_repo, root=tmp_path / "judging")


def commit(cli: Cli, repo: Path, files: dict[str, str | None]) -> str:
    for name, text in files.items():
        if text is None:
            (repo / name).unlink()
            continue
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_text(text)
    cli(repo, "add", "-A", "--", ".", ":!.loopwright")
    cli(repo, "commit", "-qm", "next")
    return cli(repo, "rev-parse", "HEAD").strip()


def files_of(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".git" not in path.relative_to(folder).parts
    }


def spoil(folder: Path) -> None:
    """Do what a verify command may do: change, add, remove and replace."""
    stat = (folder / "check.sh").stat()
    (folder / "check.sh").write_text("exit 0\n")
    os.utime(folder / "check.sh", ns=(stat.st_atime_ns, stat.st_mtime_ns))
    (folder / "src" / "lib.py").unlink()
    (folder / "ignored").mkdir()
    (folder / "ignored" / "helper.py").write_text("x = 1\n")
    (folder / ".git" / "config").write_text("[core]\n\tfsmonitor = false\n\tignoreStat = true\n")
    (folder / ".git" / "info" / "attributes").write_text("* ident working-tree-encoding=UTF-16\n")
    (folder / "nested" / ".git").mkdir(parents=True)


async def test_each_commit_is_laid_out_whole_whatever_was_done_to_the_one_before(
    checkouts: JudgingCheckouts, git_repo: Path, git_cli: Cli
) -> None:
    files = {"check.sh": "exit 1\n", "src/lib.py": "a\n", ".gitignore": "ignored\n"}
    odd = {"odd ü\nname": "x", ".gitattributes": "secret export-ignore\n", "secret": "s"}
    first = commit(git_cli, git_repo, {**files, **odd})
    folder = await checkouts.lay_out("a", first)
    at_first = files_of(folder)
    assert set(at_first) >= {*files, *odd}
    spoil(folder)
    assert set(await checkouts.changed("a")) == {"check.sh", "src/lib.py"}
    assert await checkouts.lay_out("a", first) == folder
    assert files_of(folder) == at_first
    assert await checkouts.changed("a") == ()
    assert await checkouts.untracked("a") == ()
    second = commit(git_cli, git_repo, {"src/lib.py": None, "src.txt": "new\n"})
    spoil(folder)
    await checkouts.lay_out("a", second)
    assert files_of(folder)["src.txt"] == "new\n"
    assert git_cli(folder, "status", "--porcelain") == ""
    assert git_cli(folder, "rev-parse", "HEAD").strip() == second


async def test_what_is_to_be_kept_stays_unless_the_commit_has_files_there(
    checkouts: JudgingCheckouts, git_repo: Path, git_cli: Cli
) -> None:
    first = commit(git_cli, git_repo, {"a.txt": "a", "pkg/a.txt": "a"})
    folder = await checkouts.lay_out("a", first)
    for name in (".venv/bin", "pkg/node_modules/x", "other/deep"):
        (folder / name).mkdir(parents=True)
        (folder / name / "file").write_text("made")
    keep = (".venv/", "pkg/node_modules/")
    assert set(await checkouts.untracked("a")) == {*keep, "other/"}
    await checkouts.lay_out("a", first, keep=keep)
    assert set(await checkouts.untracked("a")) == set(keep)
    gone = commit(git_cli, git_repo, {"pkg/a.txt": None})
    await checkouts.lay_out("a", gone, keep=keep)
    assert (folder / "pkg/node_modules/x/file").read_text() == "made"
    planted = commit(git_cli, git_repo, {".venv/bin/pytest": "exit 0"})
    await checkouts.lay_out("a", planted, keep=keep)
    assert files_of(folder / ".venv") == {"bin/pytest": "exit 0"}


async def test_what_the_repository_says_has_no_say_in_what_is_laid_out(
    checkouts: JudgingCheckouts, git_repo: Path, git_cli: Cli
) -> None:
    sha = commit(git_cli, git_repo, {"run.sh": "exit 1\n", "deep/x.txt": "x\n", "id": "$Id$\n"})
    (git_repo / ".git/info/attributes").write_text("* eol=crlf text ident\n")
    git_cli(git_repo, "config", "core.symlinks", "false")
    git_cli(git_repo, "config", "core.autocrlf", "true")
    git_cli(git_repo, "sparse-checkout", "set", "--no-cone", "/run.sh")
    folder = await checkouts.lay_out("a", sha)
    assert (folder / "run.sh").read_bytes() == b"exit 1\n"
    assert (folder / "id").read_bytes() == b"$Id$\n"
    assert (folder / "deep/x.txt").exists()


async def test_a_checkout_that_cannot_be_reused_is_recreated(
    checkouts: JudgingCheckouts, git_repo: Path, git_cli: Cli, tmp_path: Path
) -> None:
    sha = commit(git_cli, git_repo, {"a/b/c.txt": "c\n"})
    folder = await checkouts.lay_out("a", sha)
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "b").mkdir(parents=True)
    (elsewhere / "b" / "c.txt").write_text("mine\n")
    (folder / "a" / "b" / "c.txt").unlink()
    (folder / "a" / "b").rmdir()
    (folder / "a").rmdir()
    (folder / "a").symlink_to(elsewhere)
    (git_repo / ".loopwright/judging/a.index").write_bytes(b"garbage")
    await checkouts.lay_out("a", sha)
    assert (folder / "a/b/c.txt").read_text() == "c\n"
    assert not (folder / "a").is_symlink()
    assert (elsewhere / "b" / "c.txt").read_text() == "mine\n"
    await checkouts.remove("a")
    await checkouts.remove("a")
    assert not folder.exists()


async def test_a_clock_that_went_back_has_everything_laid_out_again(
    checkouts: JudgingCheckouts, git_repo: Path, git_cli: Cli
) -> None:
    sha = commit(git_cli, git_repo, {"a.txt": "a\n"})
    folder = await checkouts.lay_out("a", sha)
    before = (folder / "a.txt").stat().st_ctime_ns
    index = git_repo / ".loopwright/judging/a.index"
    ahead = index.stat().st_mtime_ns + 3600 * 10**9
    os.utime(index, ns=(ahead, ahead))
    await checkouts.lay_out("a", sha)
    assert (folder / "a.txt").stat().st_ctime_ns != before


async def test_a_git_that_a_killed_runner_left_is_ended_first(
    checkouts: JudgingCheckouts, git_repo: Path, git_cli: Cli
) -> None:
    sha = commit(git_cli, git_repo, {"a.txt": "a\n"})
    index = git_repo / ".loopwright/judging/a.index"
    index.parent.mkdir(parents=True)
    index.with_name("a.index.lock").touch()
    env = {**os.environ, "GIT_INDEX_FILE": str(index)}
    with subprocess.Popen(["sleep", "60"], env=env) as left:  # noqa: ASYNC220  # as one would be left
        await checkouts.lay_out("a", sha)
        assert left.poll() == -signal.SIGKILL


async def test_what_lies_in_a_submodule_goes_unless_it_is_to_be_kept(
    checkouts: JudgingCheckouts, git_repo: Path, git_cli: Cli
) -> None:
    git_cli(git_repo, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},dep")
    git_cli(git_repo, "commit", "-qm", "a submodule")
    sha = git_cli(git_repo, "rev-parse", "HEAD").strip()
    folder = await checkouts.lay_out("a", sha)
    (folder / "dep" / "file").write_text("made")
    assert await checkouts.untracked("a") == ("dep/",)
    await checkouts.lay_out("a", sha, keep=("dep/",))
    assert (folder / "dep" / "file").exists()
    await checkouts.lay_out("a", sha)
    assert list((folder / "dep").iterdir()) == []
    assert await checkouts.changed("a") == ()


async def test_a_shallow_clone_has_its_history_as_far_as_it_goes(
    git_repo: Path, git_cli: Cli, tmp_path: Path
) -> None:
    for number in range(3):
        commit(git_cli, git_repo, {"a.txt": f"{number}\n"})
    clone = tmp_path / "clone"
    git_cli(tmp_path, "clone", "-q", "--depth", "2", f"file://{git_repo}", str(clone))
    sha = git_cli(clone, "rev-parse", "HEAD").strip()
    folder = await JudgingCheckouts(clone, root=tmp_path / "judging").lay_out("a", sha)
    assert len(git_cli(folder, "log", "--format=%H").split()) == 2


async def test_nothing_behind_a_link_in_the_checkout_is_removed(
    checkouts: JudgingCheckouts, git_repo: Path, git_cli: Cli, tmp_path: Path
) -> None:
    sha = commit(git_cli, git_repo, {"data/one.bin": "pointer\n"})
    folder = await checkouts.lay_out("a", sha)
    (folder / "data" / "one.bin").write_text("fetched\n")
    await checkouts.hold("a", ["data/one.bin"])
    mine = tmp_path / "mine"
    mine.mkdir()
    (folder / "data").rename(tmp_path / "away")
    (folder / "data").symlink_to(mine)
    (mine / "one.bin").write_text("mine\n")
    await checkouts.lay_out("a", sha)
    assert (folder / "data" / "one.bin").read_text() == "pointer\n"
    assert (mine / "one.bin").read_text() == "mine\n"
