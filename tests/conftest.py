"""Fixtures of the whole suite: every test runs in clean surroundings and leaves none dirty."""

from __future__ import annotations

import os

from tests.hygiene import (
    _leaves_nothing_behind,
    _own_surroundings,
    clean_home,
    pytest_collection_finish,
    pytest_configure,
)

__all__ = [
    "_leaves_nothing_behind",
    "_own_surroundings",
    "clean_home",
    "pytest_collection_finish",
    "pytest_configure",
]


def pytest_xdist_auto_num_workers() -> int:
    """Run more tests at once than there are cores: many wait for a process or a clock."""
    return (os.cpu_count() or 1) * 3 // 2 or 1
