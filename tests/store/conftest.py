"""One store of each kind, and proof that none leaves a thread behind."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from lifecycle.clock import SteppedClock
from lifecycle.store.memory import MemoryStore
from lifecycle.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from lifecycle.store.port import LifecycleStore


def store_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "loopwright-store"]


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock(1000.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".loopwright" / "state.db"


@pytest.fixture(params=["memory", "sqlite"])
async def store(
    request: pytest.FixtureRequest, path: Path, clock: SteppedClock
) -> AsyncIterator[LifecycleStore]:
    made: MemoryStore | SqliteStore
    if request.param == "memory":
        made = MemoryStore(clock=clock.now)
    else:
        made = await SqliteStore.open(path, clock=clock.now)
    async with made:
        yield made
    assert not store_threads()


@pytest.fixture
async def sqlite_store(path: Path, clock: SteppedClock) -> AsyncIterator[SqliteStore]:
    async with await SqliteStore.open(path, clock=clock.now) as made:
        yield made
