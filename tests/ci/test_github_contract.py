"""GitHub, as emulate serves it, keeps the rules of every provider."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.ci.contract import ProviderContract
from tests.ci.emulated import emulated
from tests.ci.github_world import EmulatedWorld
from tests.ci.remote_world import RemoteWorld

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.ci.emulated import Emulated

__all__ = ["emulated"]


@pytest.fixture
async def world(tmp_path: Path, emulated: Emulated) -> AsyncIterator[RemoteWorld]:
    served = EmulatedWorld(tmp_path, emulated, pushes=False)
    await served.start()
    made = RemoteWorld(
        served,
        repo=served.root,
        origin=served.origin,
        commit=served.commit,
        release=served.release,
        folder=tmp_path / "state",
    )
    await made.start()
    yield made
    await made.aclose()
    await served.aclose()


class TestGitHub(ProviderContract):
    pass
