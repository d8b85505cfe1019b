"""The wheel, built and installed once for all tests that run it."""

from __future__ import annotations

import pytest

from tests.acceptance.installed_wheel import Installed, install


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Return an environment with the wheel."""
    return install(tmp_path_factory.mktemp("wheel"))
