"""Ordinary work goes on in a sandbox, and what belongs to the repository stays as it is."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

import pytest

from runtime.isolation.workspace_sandbox import OpenedPaths
from runtime.workspaces.worktrees_dir import default_worktrees_dir
from tests.runtime.isolation.conftest import IDENTITY, Site
from tests.runtime.isolation.inside import run, sh

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Cli = Callable[..., str]

MAIL = "communications.json"


def test_commits_in_a_sandbox_arrive_on_the_branch(site: Site, git_cli: Cli) -> None:
    if (sandbox := site.sandbox()) is None:
        return
    script = "echo 2 > two.txt && git add . && git commit -qm Two && git log --oneline | wc -l"
    for total in (2, 3):
        done = sh(sandbox, script.replace("two", f"f{total}"), home=site.home, **IDENTITY)
        assert (done.returncode, done.stdout.strip()) == (0, str(total))
    assert git_cli(site.repo, "log", "-1", "--format=%s", "agent/own") == "Two"
    assert git_cli(site.own, "status", "--porcelain") == ""
    assert git_cli(site.repo, "reflog", "agent/own").count("commit: Two") == 2
    git_cli(site.repo, "fsck", "--strict")


def test_commits_work_again_after_all_refs_were_packed(site: Site, git_cli: Cli) -> None:
    git_cli(site.repo, "pack-refs", "--all", "--prune")
    if (sandbox := site.sandbox()) is None:
        return
    done = sh(sandbox, "git commit -q --allow-empty -m Packed", home=site.home, **IDENTITY)
    assert done.returncode == 0, done.stdout
    assert git_cli(site.repo, "log", "-1", "--format=%s", "agent/own") == "Packed"


def test_files_belong_to_the_user_who_runs_the_sandbox(site: Site) -> None:
    if (sandbox := site.sandbox()) is None:
        return
    assert sh(sandbox, "mkdir d && echo x > d/f", home=site.home).returncode == 0
    for name in ("d", "d/f"):
        facts = (site.own / name).stat()
        assert (facts.st_uid, facts.st_gid) == (os.getuid(), os.getgid())


def test_python_and_the_signal_command_work(site: Site) -> None:
    if (sandbox := site.sandbox()) is None:
        return
    mailbox = site.own / MAIL
    env = {
        "HOME": str(site.home),
        "PATH": os.defpath,
        "LOOPWRIGHT_COMM_FILE": str(mailbox),
        "LOOPWRIGHT_AGENT_ID": "own",
        "LOOPWRIGHT_TASK_ID": "T001",
        "LOOPWRIGHT_SPAWN_ID": "spawn-1",
    }
    signalling = ("-m", "orchestrator.cli.main", "signal", "task_complete", "--summary", "Done")
    done = run(sandbox, sys.executable, "-P", *signalling, env=env)
    assert done.returncode == 0, done.stdout
    assert json.loads(mailbox.read_text())["own"]["breakpoint"]["summary"] == "Done"


def test_the_home_and_temporary_folder_are_there_to_write_and_gone_afterwards(site: Site) -> None:
    if (sandbox := site.sandbox()) is None:
        return
    script = "echo x > ~/new && echo x > $TMPDIR/new && ls ~ $TMPDIR"
    done = sh(sandbox, script, home=site.home, TMPDIR=str(site.home / "tmp"))
    assert done.returncode == 0, done.stdout
    assert ".gitconfig" not in done.stdout
    assert not (site.home / "new").exists()


def test_what_is_opened_by_settings_is_open_and_nothing_around_it(
    site: Site, tmp_path: Path
) -> None:
    for name in ("docs", "cache", "private"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").write_text(name)
    sandbox = site.sandbox(
        OpenedPaths(readable=(tmp_path / "docs",), writable=(tmp_path / "cache",))
    )
    if sandbox is None:
        return
    script = f"cd {tmp_path}; cat */f; echo more > docs/f; echo more > cache/f; ls private"
    said = sh(sandbox, script, home=site.home).stdout
    assert "docs" in said
    assert "cache" in said
    assert "private/f" not in said
    assert (tmp_path / "docs" / "f").read_text() == "docs"
    assert (tmp_path / "cache" / "f").read_text() == "more\n"
    assert (tmp_path / "private" / "f").read_text() == "private"


def test_the_summary_is_readable_where_all_around_it_is_hidden(site: Site) -> None:
    folder = site.repo / ".loopwright" / "summaries"
    folder.mkdir(parents=True)
    for name in ("1.md", "2.md"):
        (folder / name).write_text(f"summary {name}")
    if (sandbox := site.sandbox(OpenedPaths(readable=(folder / "1.md",)))) is None:
        return
    said = sh(
        sandbox, f"ls {folder}; cat {folder}/*; echo x > {folder}/1.md", home=site.home
    ).stdout
    assert "summary 1.md" in said
    assert "2.md" not in said
    assert (folder / "1.md").read_text() == "summary 1.md"


def test_a_sign_in_can_be_read_and_not_changed(site: Site) -> None:
    key = site.home / ".claude" / ".credentials.json"
    key.parent.mkdir()
    key.write_text("token")
    (key.parent / "history").write_text("private")
    if (sandbox := site.sandbox(OpenedPaths(login="claude"))) is None:
        return
    script = (
        "cat ~/.claude/*; cat ~/.claude/.credentials.json; echo x > ~/.claude/.credentials.json"
    )
    said = sh(sandbox, script + "; mkdir ~/.claude/projects && echo made", home=site.home).stdout
    assert "token" in said
    assert "private" not in said
    assert "made" in said
    assert key.read_text() == "token"
    assert sorted(path.name for path in key.parent.iterdir()) == [".credentials.json", "history"]


def plants(site: Site) -> dict[str, tuple[Path, str]]:
    """Name what an agent would change to have its programs run outside, or others' work changed."""
    common = site.repo / ".git"
    own = common / "worktrees" / "own"
    pack = next((common / "objects" / "pack").glob("*.pack"))
    return {
        "config": (common / "config", "echo '[core]' >> {}"),
        "hook": (common / "hooks" / "post-checkout", "echo x > {}"),
        "attributes": (common / "info" / "attributes", "echo x > {}"),
        "alternates": (common / "objects" / "info" / "alternates", "echo x > {}"),
        "worktree config": (own / "config.worktree", "echo x > {}"),
        "commondir": (own / "commondir", "echo /tmp > {}"),
        "back pointer": (own / "gitdir", "echo /tmp > {}"),
        "pointer": (site.own / ".git", "rm -f {}; echo gitdir: /tmp > {}"),
        "main": (common / "refs" / "heads" / "main", "echo 0 > {}"),
        "head": (common / "HEAD", "echo 0 > {}"),
        "packed history": (pack, "rm -f {}"),
        "other worktree": (common / "worktrees" / "other" / "HEAD", "echo 0 > {}"),
        "other files": (site.other / "README.md", "echo 0 > {}"),
        "checkout": (site.repo / "README.md", "echo 0 > {}"),
    }


PLANTS = (
    *("config", "hook", "attributes", "alternates", "worktree config", "commondir"),
    *("back pointer", "pointer", "main", "head", "packed history", "other worktree"),
    *("other files", "checkout"),
)


@pytest.mark.parametrize("name", PLANTS)
def test_nothing_can_be_planted_in_the_repository(name: str, site: Site) -> None:
    path, change = plants(site)[name]
    sandbox = site.sandbox()
    before = path.read_bytes() if path.exists() else b""
    if sandbox is not None:
        sh(sandbox, change.format(path, path), home=site.home)
        assert (path.read_bytes() if path.exists() else b"") == before
    # The same change works where there is no sandbox.
    assert os.system(change.format(path, path)) == 0  # noqa: S605  # as an agent would
    assert (path.read_bytes() if path.exists() else b"gone") != before


def test_a_workspace_cannot_be_swapped_for_another_folder(site: Site) -> None:
    if (sandbox := site.sandbox()) is None:
        return
    script = f"cd /; mv {site.own} {site.own}.old || rm -rf {site.own}/.git"
    assert sh(sandbox, script, home=site.home).returncode != 0
    assert (site.own / ".git").is_file()


def test_a_worktree_that_is_hidden_is_not_pruned_from_inside(site: Site, git_cli: Cli) -> None:
    if (sandbox := site.sandbox()) is None:
        return
    sh(
        sandbox,
        "git worktree prune --expire=now; git gc --prune=now -q",
        home=site.home,
        **IDENTITY,
    )
    assert git_cli(site.repo, "worktree", "list").count("agent/") == 2
    git_cli(site.repo, "fsck", "--strict")


def test_a_repository_that_borrows_its_objects_works_too(
    site: Site, tmp_path: Path, git_cli: Cli
) -> None:
    borrowing = tmp_path / "borrowing"
    git_cli(tmp_path, "clone", "-q", "--shared", str(site.repo), str(borrowing))
    folder = default_worktrees_dir(borrowing) / "own"
    git_cli(borrowing, "worktree", "add", "-q", "-b", "agent/own", str(folder))
    lent = Site(borrowing, site.home, folder, site.other)
    if (sandbox := lent.sandbox()) is None:
        return
    done = sh(sandbox, "git commit -q --allow-empty -m Lent", home=lent.home, **IDENTITY)
    assert done.returncode == 0, done.stdout
