"""The real package managers take time and a network, so they are used only where it is asked for.

LOOPWRIGHT_TEST_SETUPS=1 asks for it; without it these tests are not collected.
"""

from __future__ import annotations

import os

import pytest

from tests.setups.tools import home, search_path

collect_ignore_glob = [] if os.environ.get("LOOPWRIGHT_TEST_SETUPS") == "1" else ["test_*.py"]


@pytest.fixture(scope="session")
def tools() -> str:
    """Return a PATH with all of them, installed before any clock runs."""
    home()
    return search_path()


@pytest.fixture(scope="session", autouse=True)
def _tools_are_there(tools: str) -> None:
    """Install while the home is still the real one."""
    del tools
