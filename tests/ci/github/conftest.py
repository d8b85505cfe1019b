"""GitHub as emulate serves it, and as a small server plays it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.ci.forge_server import forge_server
from tests.ci.github.github_served import Served, check_requests
from tests.ci.github.github_world import EmulatedWorld

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.ci.github.emulated import Emulated


@pytest.fixture
async def world(tmp_path: Path, emulated: Emulated) -> AsyncIterator[EmulatedWorld]:
    async with EmulatedWorld.running(tmp_path, emulated) as world:
        yield world


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with forge_server() as server:
        served = Served(server)
        yield served
        await served.forge.aclose()
        check_requests(server)
