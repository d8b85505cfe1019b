"""The local provider keeps the rules of every provider."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.ci.contract import ProviderContract
from tests.ci.local.local_world import LocalWorld

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[LocalWorld]:
    local = LocalWorld(tmp_path)
    await local.start()
    yield local
    await local.close()


class TestLocalProvider(ProviderContract):
    pass
