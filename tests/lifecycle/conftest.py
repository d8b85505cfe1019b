"""Fixtures of the loop's tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.begun import begun
from tests.lifecycle.world import World

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Return a user's repository with one commit on main."""
    begun(tmp_path / "repo", {"a.txt": "a\n", "test_a.py": "assert True\n"})
    return World(tmp_path)
