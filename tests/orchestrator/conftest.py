"""Fixtures of the tests of commands."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests import warm
from tests.orchestrator.filled import Cli, build_blank, build_filled
from tests.orchestrator.loopkit import BIN, World

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Return a repository with one commit and quick settings."""
    return World(tmp_path)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder on the PATH for agent programs; no other agent program is there."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{BIN}:/usr/local/bin:/usr/bin:/bin")
    return folder


@pytest.fixture(scope="session")
def filled_once(tmp_path_factory: pytest.TempPathFactory, clean_home: Path) -> Path:
    """Return a repository with records of a real loop; tests must only read it."""
    return build_filled(tmp_path_factory.mktemp("filled") / "repo", clean_home)


@pytest.fixture
def filled(filled_once: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Return the command line on a repository that a loop has filled; only to read from."""
    return Cli(filled_once, capsys)


@pytest.fixture(scope="session")
def blank_once(tmp_path_factory: pytest.TempPathFactory, clean_home: Path) -> Path:
    """Return a repository with one commit, to copy from."""
    return build_blank(tmp_path_factory.mktemp("blank") / "repo", clean_home)


@pytest.fixture
def empty(blank_once: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Return the command line on a repository where nothing ran yet."""
    return Cli(shutil.copytree(blank_once, tmp_path / "repo").resolve(), capsys)


@pytest.fixture(scope="session", autouse=True)
def _warm(clean_home: Path) -> None:
    """Start what runners are forked from; it stays with this process to its end."""
    del clean_home
    warm.begin()
