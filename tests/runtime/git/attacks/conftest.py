"""What all tests of planted programs start from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.runtime.git.attacks.bed import new_repository

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a repository to copy; nothing may be changed in it."""
    repo = tmp_path_factory.mktemp("template") / "repo"
    new_repository(repo)
    return repo
