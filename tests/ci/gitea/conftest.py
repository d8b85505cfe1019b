"""A served Gitea."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.ci.gitea.gitea_world import GiteaWorld

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[GiteaWorld]:
    async with GiteaWorld.running(tmp_path / "world") as served:
        yield served
