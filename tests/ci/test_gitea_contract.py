"""Gitea, served as its documentation says, keeps the rules of every provider."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import pytest

from tests.ci.contract import ProviderContract
from tests.ci.gitea_world import gitea_world
from tests.ci.remote_world import RemoteWorld

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[RemoteWorld]:
    async with gitea_world(tmp_path / "served") as served:
        made = RemoteWorld(
            served,
            repo=served.repo,
            origin=served.bare,
            commit=functools.partial(served.commit, push=False),
            release=served.release,
            folder=tmp_path / "state",
        )
        await made.start()
        yield made
        await made.aclose()


class TestGitea(ProviderContract):
    pass
