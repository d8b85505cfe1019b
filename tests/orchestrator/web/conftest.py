"""Fixtures of the tests of the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.orchestrator.loopkit import World

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Return a repository with one commit and quick settings."""
    return World(tmp_path)
