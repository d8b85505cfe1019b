"""Fixtures of the loop's tests."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.lifecycle.world import World, git

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def first_commit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a repository with one commit, to be copied."""
    repo = tmp_path_factory.mktemp("template") / "repo"
    repo.mkdir()
    git(repo, "init", "-q", "-b", "main")
    (repo / "a.txt").write_text("a\n")
    (repo / "test_a.py").write_text("assert True\n")
    git(repo, "add", ".")
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false")
    git(repo, *who, "commit", "-qm", "first")
    return repo


@pytest.fixture
def world(tmp_path: Path, first_commit: Path) -> World:
    """Return a user's repository with one commit on main."""
    shutil.copytree(first_commit, tmp_path / "repo")
    return World(tmp_path)
