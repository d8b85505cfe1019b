"""What of the user's checkout goes along, and where it may be written."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from runtime.setup.copies import copy_in, named, signature
from runtime.setup.facts import GitSetupFacts
from tests.lifecycle.world import git

if TYPE_CHECKING:
    from pathlib import Path


def _checkout(tmp_path: Path, *files: str) -> Path:
    repo = tmp_path / "repo"
    for name in files:
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_text(name)
    return repo


def test_files_folders_and_globs_are_copied_but_no_tracked_file(tmp_path: Path) -> None:
    repo = _checkout(tmp_path, ".env", "app/.env", "conf/a.ini", "conf/deep/b.ini", "a.py")
    assert named(repo, [".env"], ()) == (".env",)
    assert named(repo, ["**/.env"], ()) == (".env", "app/.env")
    assert named(repo, ["conf"], {"conf/a.ini"}) == ("conf/deep/b.ini",)
    assert named(repo, ["*.py", "gone"], {"a.py"}) == ()


def test_no_folder_behind_a_link_that_git_tracks_is_looked_through(tmp_path: Path) -> None:
    repo = _checkout(tmp_path, "packages/a/.env", "mine/.env", "packages/b/deep/.env")
    disk = tmp_path / "disk"
    (disk / "deep").mkdir(parents=True)
    (disk / "deep" / ".env").write_text("another's")
    (repo / "packages" / "lnk").symlink_to(disk)
    (repo / "packages" / "on").symlink_to("lnk/deep")
    both = ("packages/a/.env", "packages/b/deep/.env")
    os.utime(disk, (0, 1))
    for pattern in ("packages/*/**/.env", "packages/*", "packages", "packages/**/.env"):
        assert named(repo, [pattern], (), {"packages/lnk"}) == both
    assert disk.stat().st_atime == 0, "listing a folder leaves a later time"
    (repo / "own").symlink_to(disk)
    assert named(repo, ["own/**/.env"], (), {"packages/lnk"}) == ("own/deep/.env",)


def test_installed_packages_and_the_runners_own_files_stay_unless_they_are_named(
    tmp_path: Path,
) -> None:
    repo = _checkout(
        tmp_path, ".venv/a", "web/node_modules/b", ".loopwright/state.db", ".git/config", "x"
    )
    assert named(repo, ["**", "*"], ()) == ("x",)
    assert named(repo, [".venv"], ()) == (".venv/a",)
    assert named(repo, ["web/node_modules/"], ()) == ("web/node_modules/b",)


def test_a_copy_has_content_and_mode_and_replaces_what_is_there(tmp_path: Path) -> None:
    repo = _checkout(tmp_path, "bin/tool")
    (repo / "bin" / "tool").chmod(0o750)
    target = tmp_path / "target"
    (target / "bin").mkdir(parents=True)
    (target / "bin" / "tool").write_text("older")
    assert copy_in(repo, ["bin/tool"], target) == ()
    assert (target / "bin" / "tool").read_text() == "bin/tool"
    assert (target / "bin" / "tool").stat().st_mode & 0o777 == 0o750
    assert copy_in(repo, ["gone"], target) == ("gone: No such file or directory",)


def test_no_link_in_the_target_leads_a_copy_elsewhere(tmp_path: Path) -> None:
    repo = _checkout(tmp_path, "conf/key", ".env")
    target, outside = tmp_path / "target", tmp_path / "outside"
    target.mkdir()
    outside.mkdir()
    (outside / "env").write_text("mine")
    (target / "conf").symlink_to(outside)
    (target / ".env").symlink_to(outside / "env")
    copy_in(repo, ["conf/key", ".env"], target)
    assert [path.name for path in outside.iterdir()] == ["env"]
    assert (outside / "env").read_text() == "mine"
    assert (target / ".env").read_text() == ".env"


def test_pipes_and_links_to_nothing_are_left_out(tmp_path: Path) -> None:
    repo = _checkout(tmp_path, "conf/key")
    os.mkfifo(repo / "conf" / "pipe")
    (repo / "conf" / "dangling").symlink_to("nowhere")
    (repo / "conf" / "link").symlink_to("key")
    target = tmp_path / "target"
    target.mkdir()
    names = named(repo, ["conf"], ())
    assert copy_in(repo, names, target) == ()
    assert sorted(path.name for path in (target / "conf").iterdir()) == ["key", "link"]
    assert (target / "conf" / "link").read_text() == "conf/key"


def test_a_changed_file_changes_the_signature(tmp_path: Path) -> None:
    repo = _checkout(tmp_path, ".env")
    before = signature(repo, [".env", "gone"])
    (repo / ".env").write_text("another content")
    assert signature(repo, [".env", "gone"]) != before


async def test_the_include_file_names_what_no_commit_holds(tmp_path: Path) -> None:
    repo = _checkout(
        tmp_path, ".env", "app/.env", "tracked.env", "skip.env", ".venv/x.env", "other.txt",
        "node_modules/y.env",
    )  # fmt: skip
    git(repo, "init", "-q", "-b", "main")
    (repo / ".gitignore").write_text(".env\n.venv\nnode_modules\n")
    git(repo, "add", "tracked.env", ".gitignore")
    git(repo, "-c", "user.name=A", "-c", "user.email=a@b", "commit", "-qm", "one")
    facts = GitSetupFacts(repo)
    assert await facts.included() == ()
    (repo / ".worktreeinclude").write_text("# secrets\n*.env\n.env\n!skip.env\n.venv\n")
    assert await facts.included() == (".env", "app/.env")
