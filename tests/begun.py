"""Repositories with a first commit, unpacked instead of made: that takes git three processes."""

from __future__ import annotations

import functools
import subprocess
import tarfile
import tempfile
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

WHO = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false")


def begun(repo: Path, files: Mapping[str, str]) -> Path:
    """Give a folder that is not there yet a repository with these files on main."""
    with tarfile.open(fileobj=BytesIO(_packed(tuple(files.items())))) as tar:
        tar.extractall(repo, filter="data")
    return repo


@functools.cache
def _packed(files: tuple[tuple[str, str], ...]) -> bytes:
    with tempfile.TemporaryDirectory() as name:
        repo, packed = Path(name), BytesIO()
        _git(repo, "init", "--quiet", "-b", "main")
        for path, text in files:
            (repo / path).parent.mkdir(parents=True, exist_ok=True)
            (repo / path).write_text(text)
        _git(repo, "add", "-A")
        _git(repo, *WHO, "commit", "--quiet", "-m", "first")
        for sample in (repo / ".git" / "hooks").glob("*.sample"):
            sample.unlink()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            tar.add(repo, arcname=".")
    return packed.getvalue()


def _git(repo: Path, *args: str) -> None:
    subprocess.run(("git", *args), cwd=repo, check=True)
