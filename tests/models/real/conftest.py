"""The real programs are large and slow to install, so they are driven only where that is asked for.

LOOPWRIGHT_TEST_AGENTS=1 asks for it; without it these tests are not collected.
"""

from __future__ import annotations

import os

import pytest

from tests.models.server import model_server
from tests.tools.agents.installed import installed

__all__ = ["model_server"]

collect_ignore_glob = [] if os.environ.get("LOOPWRIGHT_TEST_AGENTS") == "1" else ["test_*.py"]


@pytest.fixture(scope="session", autouse=True)
def _programs() -> None:
    """Install them while the home is still the real one, and before any clock runs."""
    installed()
