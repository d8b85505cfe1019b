"""A server that plays a forge."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.ci.forge_server import ForgeServer, forge_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def server() -> AsyncIterator[ForgeServer]:
    async with forge_server() as running:
        yield running
