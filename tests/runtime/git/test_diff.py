"""What differs between two commits is told file by file, whatever the files are called."""

from __future__ import annotations

import asyncio
import subprocess
from typing import TYPE_CHECKING

import pytest

from runtime.branches import BranchManager
from runtime.git.diff_parsing import LONGEST_LINE, pairs
from tests.begun import begun

if TYPE_CHECKING:
    from pathlib import Path

    from runtime.git.diff_parsing import FileChange


def _git(repo: Path, *args: str) -> str:
    done = subprocess.run(["git", *args], cwd=repo, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _committed(repo: Path) -> str:
    _git(repo, "add", "-A")
    _git(repo, "commit", "-qm", "work")
    return _git(repo, "rev-parse", "HEAD")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    twenty = "".join(f"line {number}\n" for number in range(1, 21))
    files = {"a.py": twenty, "old.txt": twenty, "run.sh": "echo\n", "gone.txt": "x\n", "b": "1\n"}
    return begun(tmp_path / "repo", files)


def _diff(repo: Path, old: str, new: str, *, words: bool = False) -> dict[str, FileChange]:
    async def read() -> dict[str, FileChange]:
        diff = BranchManager(repo).diff
        files = await diff.files(old, new)
        return {each.path: each for each in await diff.hunks(old, new, files, words=words)}

    return asyncio.run(read())


def test_each_kind_of_change_is_told(repo: Path) -> None:
    old = _git(repo, "rev-parse", "HEAD")
    (repo / "a.py").write_text((repo / "a.py").read_text().replace("line 10\n", "new\nmore\n"))
    _git(repo, "mv", "old.txt", "renamed.txt")
    (repo / "run.sh").chmod(0o755)
    (repo / "gone.txt").unlink()
    (repo / "data").write_bytes(b"\0\1")
    (repo / "b").unlink()
    (repo / "b").symlink_to("a.py")
    found = _diff(repo, old, _committed(repo))
    assert {path: each.kind for path, each in found.items()} == {
        "a.py": "modified", "renamed.txt": "renamed", "run.sh": "modified", "gone.txt": "deleted",
        "data": "added", "b": "type changed",
    }  # fmt: skip
    assert (found["a.py"].added, found["a.py"].removed) == (2, 1)
    (hunk,) = found["a.py"].hunks
    told = [(line.kind, line.text, line.old, line.new) for line in hunk.lines[2:7]]
    assert told == [
        (" ", "line 9", 9, 9),
        ("-", "line 10", 10, 0),
        ("+", "new", 0, 10),
        ("+", "more", 0, 11),
        (" ", "line 11", 11, 12),
    ]
    assert found["renamed.txt"].old_path == "old.txt"
    assert not found["renamed.txt"].hunks
    assert found["run.sh"].mode == "made executable"
    assert found["data"].binary
    assert found["b"].mode == "was a file, is a symbolic link"
    assert [line.text for hunk in found["b"].hunks for line in hunk.lines][:2] == ["1", "a.py"]


def test_no_name_of_a_file_hides_what_another_changed(repo: Path) -> None:
    old = _git(repo, "rev-parse", "HEAD")
    names = ("*", "x\ndiff --git a/y b/y\n--- a", ":(top)b", "tab\there", '"quoted"', "-p")
    for number, name in enumerate(names):
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_text(f"content {number}\n")
    found = _diff(repo, old, _committed(repo))
    assert len(found) == len(names)
    for number, name in enumerate(names):
        (hunk,) = found[name].hunks
        assert [line.text for line in hunk.lines] == [f"content {number}"], name


def test_lines_that_look_like_a_patch_are_content(repo: Path) -> None:
    old = _git(repo, "rev-parse", "HEAD")
    text = "-- a/x\n++ b/x\n@@ -1 +1 @@\ndiff --git a/q b/q\n"
    (repo / "b").write_text(f"1\n{text}")
    (hunk,) = _diff(repo, old, _committed(repo))["b"].hunks
    assert [line.text for line in hunk.lines if line.kind == "+"] == text.splitlines()


def test_a_line_is_cut_and_says_so(repo: Path) -> None:
    old = _git(repo, "rev-parse", "HEAD")
    (repo / "b").write_text("x" * 1_000_000)
    (hunk,) = _diff(repo, old, _committed(repo))["b"].hunks
    long = next(line for line in hunk.lines if line.kind == "+")
    assert long.text.endswith(f"[{1_000_000 - LONGEST_LINE} more characters]")


def test_changed_words_are_told_within_their_line(repo: Path) -> None:
    old = _git(repo, "rev-parse", "HEAD")
    (repo / "a.py").write_text((repo / "a.py").read_text().replace("line 10\n", "line ten\n"))
    (hunk,) = _diff(repo, old, _committed(repo), words=True)["a.py"].hunks
    (changed,) = [line for line in hunk.lines if line.kind == "~"]
    assert changed.parts == ((" ", "line "), ("-", "10"), ("+", "ten"))
    assert changed.text == "line ten"


def test_side_by_side_what_came_stands_beside_what_went(repo: Path) -> None:
    old = _git(repo, "rev-parse", "HEAD")
    (repo / "a.py").write_text((repo / "a.py").read_text().replace("line 10\n", "new\nmore\n"))
    (hunk,) = _diff(repo, old, _committed(repo))["a.py"].hunks
    told = [(left and left.text, right and right.text) for left, right in pairs(hunk)]
    assert told[2:6] == [
        ("line 9", "line 9"), ("line 10", "new"), (None, "more"), ("line 11", "line 11"),
    ]  # fmt: skip
