"""The wheel, built and installed once for all tests that run it, and what GitHub describes."""

from __future__ import annotations

import pytest

from tests import warm
from tests.acceptance.installed_wheel import Installed, install
from tests.ci.conftest import described

__all__ = ["described", "installed"]


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Return an environment with the wheel."""
    return install(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session", autouse=True)
def _warm(clean_home: object) -> None:
    """Start what runners are forked from; it stays with this process to its end."""
    del clean_home
    warm.begin()
