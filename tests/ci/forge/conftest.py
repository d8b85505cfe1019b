"""A scripted forge, and those that are served from this process over a real repository."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.ci.forge.scripted_forge import Scene, scene_of
from tests.ci.gitea.gitea_world import GiteaWorld
from tests.ci.gitlab.gitlab_world import GitLabWorld

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.ci.forge.forge_world import ServedWorld


@pytest.fixture(params=[GiteaWorld, GitLabWorld])
def served_type(request: pytest.FixtureRequest) -> type[ServedWorld[Any]]:
    found: type[ServedWorld[Any]] = request.param
    return found


@pytest.fixture
async def served(
    served_type: type[ServedWorld[Any]], tmp_path: Path
) -> AsyncIterator[ServedWorld[Any]]:
    """Yield one of which a test can say what it answers."""
    async with served_type.running(tmp_path / "world") as world:
        yield world


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene_of(tmp_path) as scene:
        yield scene
