"""Fixtures of the whole suite: every test runs in clean surroundings and leaves none dirty."""

from __future__ import annotations

from tests.hygiene import (
    _leaves_nothing_behind,
    _own_surroundings,
    clean_home,
    pytest_configure,
)

__all__ = ["_leaves_nothing_behind", "_own_surroundings", "clean_home", "pytest_configure"]
