"""A served GitLab."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.ci.gitlab.gitlab_world import GitLabWorld

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[GitLabWorld]:
    async with GitLabWorld.running(tmp_path / "world") as served:
        yield served
