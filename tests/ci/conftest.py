"""What tests of more than one room use: one emulated GitHub, and what GitHub says of its API."""

from __future__ import annotations

import pytest

from tests.ci.github.emulated import emulated
from tests.tools import github_api, github_graphql

__all__ = ["emulated"]


@pytest.fixture(scope="session", autouse=True)
def described() -> None:
    """Fetch the descriptions before any test, which may write nowhere."""
    github_api.described()
    github_graphql.described()
