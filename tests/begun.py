"""Repositories with a first commit, written as files: to make one takes git three processes."""

from __future__ import annotations

import functools
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

WHO = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false")


@dataclass(frozen=True)
class Kept:
    """All of a folder, to be written elsewhere: folders first, and files with their modes."""

    folders: tuple[str, ...]
    files: tuple[tuple[str, int, bytes], ...]

    @classmethod
    def of(cls, top: Path) -> Kept:
        """Read it; there must be no links in it."""
        paths = sorted(top.rglob("*"))
        assert not any(path.is_symlink() for path in paths)
        return cls(
            tuple(str(path.relative_to(top)) for path in paths if path.is_dir()),
            tuple(
                (str(path.relative_to(top)), path.stat().st_mode & 0o777, path.read_bytes())
                for path in paths
                if path.is_file()
            ),
        )

    def write(self, top: Path) -> None:
        """Write it to a folder, which is made."""
        top.mkdir(parents=True, exist_ok=True)
        for name in self.folders:
            os.mkdir(f"{top}/{name}")  # noqa: PTH102  # a thousand repositories are written
        for name, mode, content in self.files:
            handle = os.open(f"{top}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            os.write(handle, content)
            os.close(handle)


def begun(repo: Path, files: Mapping[str, str]) -> Path:
    """Give a folder that is not there yet a repository with these files on main."""
    _kept(tuple(files.items())).write(repo)
    return repo


@functools.cache
def _kept(files: tuple[tuple[str, str], ...]) -> Kept:
    with tempfile.TemporaryDirectory() as name:
        repo = Path(name)
        _git(repo, "init", "--quiet", "-b", "main")
        for path, text in files:
            (repo / path).parent.mkdir(parents=True, exist_ok=True)
            (repo / path).write_text(text)
        _git(repo, "add", "-A")
        _git(repo, *WHO, "commit", "--quiet", "-m", "first")
        for sample in (repo / ".git" / "hooks").glob("*.sample"):
            sample.unlink()
        return Kept.of(repo)


def _git(repo: Path, *args: str) -> None:
    subprocess.run(("git", *args), cwd=repo, check=True)
