"""Fixtures of the whole suite: every test runs in clean surroundings and leaves none dirty."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

from tests.fuzzing import examples
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

# On a busy machine one example may take any time: that is no defect.
settings.register_profile(
    "suite",
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("suite")


def pytest_xdist_auto_num_workers() -> int:
    """Run more tests at once than there are cores: many wait for a process or a clock."""
    return (os.cpu_count() or 1) * 3 // 2 or 1
