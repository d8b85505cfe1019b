"""A store, and proof that it leaves no thread behind."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from lifecycle.clock import SteppedClock
from lifecycle.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


def store_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "loopwright-store"]


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock(1000.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".loopwright" / "state.db"


@pytest.fixture
async def store(path: Path, clock: SteppedClock) -> AsyncIterator[SqliteStore]:
    async with await SqliteStore.open(path, clock=clock.now) as made:
        yield made
    assert not store_threads()
