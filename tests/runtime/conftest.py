"""Fixtures of the runtime tests: a stage for processes, and git without this machine's settings."""

from __future__ import annotations

import hashlib
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.begun import begun
from tests.runtime.process_fixtures import Stage, staged

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    """Return a stage for processes, on which nothing may be left."""
    async with staged(tmp_path) as stage:
        yield stage


@pytest.fixture
def git_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a home folder of its own, with a configured git user."""
    home = tmp_path / "home"
    home.mkdir()
    config = home / ".gitconfig"
    config.write_text(
        "[user]\n\tname = Ada\n\temail = ada@example.org\n[init]\n\tdefaultBranch = main\n"
    )
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    return home


@pytest.fixture
def git_cli(git_home: Path) -> Callable[..., str]:
    """Return the git of a user: `git_cli(folder, "status")` gives what git prints."""
    assert git_home.is_dir()

    def run(folder: Path, *args: str) -> str:
        done = subprocess.run(
            ["git", *args], cwd=folder, capture_output=True, check=False, stdin=subprocess.DEVNULL
        )
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        return done.stdout.decode(errors="replace").rstrip("\n")

    return run


@pytest.fixture
def git_repo(tmp_path: Path, git_cli: Callable[..., str]) -> Path:
    """Return a user's repository with one commit on main and two files."""
    repo = begun(tmp_path / "repo", {"README.md": "hello\n", "src/app.py": "print(1)\n"})
    git_cli(repo, "update-index", "-q", "--refresh")
    return repo


@pytest.fixture
def git_picture(git_cli: Callable[..., str]) -> Callable[[Path], dict[str, str]]:
    """Return a picture of everything in a checkout that only its user may change."""

    def picture(repo: Path) -> dict[str, str]:
        seen = {"status": git_cli(repo, "--no-optional-locks", "status", "--porcelain=v2", "-b")}
        ours = repo / ".loopwright"
        files = [path for path in repo.rglob("*") if path.is_file() and ours not in path.parents]
        for path in files:
            inside = path.relative_to(repo)
            theirs = inside.parts[0] != ".git" or inside.parts[1] in {"HEAD", "index", "config"}
            if theirs:
                seen[str(inside)] = hashlib.sha256(path.read_bytes()).hexdigest()
        return seen

    return picture
