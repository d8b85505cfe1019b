"""Whether what the set-up made is as it was made."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from runtime.setup import manifest
from runtime.setup.manifest import Damage, compare, load, remove_new, save, take

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MADE = ("deps/", ".env")


@pytest.fixture
def top(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    (folder / "deps" / "bin").mkdir(parents=True)
    (folder / "deps" / "bin" / "tool").write_text("exit 1")
    (folder / "deps" / "link").symlink_to("bin/tool")
    (folder / ".env").write_text("A=1")
    return folder


def _edit(top: Path) -> None:
    tool = top / "deps" / "bin" / "tool"
    before = tool.stat()
    tool.write_text("exit 0")
    os.utime(tool, ns=(before.st_atime_ns, before.st_mtime_ns))


def _swap(top: Path) -> None:
    (top / "forged").write_text("exit 0")
    (top / "forged").replace(top / "deps" / "bin" / "tool")


def _relink(top: Path) -> None:
    (top / "deps" / "link").unlink()
    (top / "deps" / "link").symlink_to("bin/more")


def _move(top: Path) -> None:
    (top / "deps" / "bin").rename(top / "deps" / "away")
    (top / "deps" / "bin").mkdir()
    (top / "deps" / "bin" / "tool").write_text("exit 0")


@pytest.mark.parametrize(("change", "seen"), [
    (_edit, "deps/bin/tool"), (_swap, "deps/bin/tool"), (_relink, "deps/link"),
    (_move, "deps/bin/tool"),
    (lambda top: (top / ".env").unlink(), ".env"),
    (lambda top: (top / "deps" / "bin" / "tool").chmod(0o777), "deps/bin/tool"),
])  # fmt: skip
def test_every_change_is_seen(top: Path, change: Callable[[Path], None], seen: str) -> None:
    known = take(top, MADE)
    assert compare(top, MADE, known) == Damage((), ())
    change(top)
    assert seen in compare(top, MADE, known).changed


def test_what_is_new_is_removed_and_the_rest_stays(top: Path) -> None:
    known = take(top, MADE)
    (top / "deps" / "cache" / "deep").mkdir(parents=True)
    (top / "deps" / "cache" / "deep" / "a.pyc").touch()
    (top / "deps" / "bin" / "more").touch()
    (top / "beside").touch()
    found = compare(top, MADE, known)
    assert set(found.new) == {
        "deps/cache", "deps/cache/deep", "deps/cache/deep/a.pyc", "deps/bin/more",
    }  # fmt: skip
    remove_new(top, found)
    assert compare(top, MADE, known) == Damage((), ())
    assert (top / "beside").exists()


def test_another_name_of_a_file_is_no_change_and_another_content_is(top: Path) -> None:
    """Caches of package tools link their files; others make and remove such links all the time."""
    tool, cached = top / "deps" / "bin" / "tool", top / "cached"
    cached.hardlink_to(tool)
    known = take(top, MADE)
    (top / "again").hardlink_to(cached)
    assert compare(top, MADE, known) == Damage((), ())
    cached.write_text("exit 0")
    assert compare(top, MADE, known).changed == ("deps/bin/tool",)


def test_a_list_that_was_kept_says_the_same(top: Path, tmp_path: Path) -> None:
    known = take(top, MADE)
    save(tmp_path / "own" / "list", known)
    assert load(tmp_path / "own" / "list") == known
    (tmp_path / "own" / "list").write_text("[1, {")
    assert load(tmp_path / "own" / "list") is None


def test_after_the_clock_went_back_nothing_is_believed(top: Path) -> None:
    known = take(top, MADE)
    later = manifest.Manifest(known.taken_ns + 3_600_000_000_000, known.entries)
    assert compare(top, MADE, later).changed
