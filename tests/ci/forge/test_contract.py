"""Each forge, served as its documentation says, keeps the rules of every provider."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from tests.ci.contract import ProviderContract
from tests.ci.forge.remote_world import RemoteWorld
from tests.ci.github.github_world import EmulatedWorld

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.ci.forge.forge_world import ForgeWorld, ServedWorld
    from tests.ci.github.emulated import Emulated


@contextlib.asynccontextmanager
async def provider_on(forge: ForgeWorld, folder: Path) -> AsyncIterator[RemoteWorld]:
    world = RemoteWorld(forge, folder)
    await world.start()
    yield world
    await world.aclose()


class TestServed(ProviderContract):
    @pytest.fixture
    async def world(
        self, served_type: type[ServedWorld[Any]], tmp_path: Path
    ) -> AsyncIterator[RemoteWorld]:
        async with (
            served_type.running(tmp_path / "forge", pushes=False) as forge,
            provider_on(forge, tmp_path / "state") as world,
        ):
            yield world


class TestGitHub(ProviderContract):
    @pytest.fixture
    async def world(self, emulated: Emulated, tmp_path: Path) -> AsyncIterator[RemoteWorld]:
        async with (
            EmulatedWorld.running(tmp_path, emulated, pushes=False) as forge,
            provider_on(forge, tmp_path / "state") as world,
        ):
            yield world
