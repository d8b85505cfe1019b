"""Whether the store takes a write at this moment: by writing something tiny.

Owns how often that is tried, and how long each try took. Must not outlast a health check.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lifecycle.errors import LifecycleError
from lifecycle.fleet.spawner.metrics import Metrics

if TYPE_CHECKING:
    from lifecycle.fleet.spawner.metrics import HistogramShot
    from lifecycle.store.sqlite.store import SqliteStore

COLLECTION = "server"
KEY = "probe"
FRESH = 1.5
"""Seconds for which an answer holds, so that checks cost one write at most."""
PATIENCE = 1.0
"""Seconds after which a write that is still under way counts as impossible."""
WRITE = "store.write"


class StoreProbe:
    """Writes now and then, and reports the result."""

    def __init__(
        self, store: SqliteStore, *, fresh: float = FRESH, patience: float = PATIENCE
    ) -> None:
        self._store = store
        self._fresh = fresh
        self._patience = patience
        self._known: tuple[float, str] | None = None
        self._trying: asyncio.Task[str] | None = None
        self._metrics = Metrics()

    async def look(self) -> str:
        """Return why the store cannot be written; nothing if it can."""
        clock = asyncio.get_running_loop().time
        if self._known is not None and clock() - self._known[0] < self._fresh:
            return self._known[1]
        if self._trying is None:
            self._trying = asyncio.get_running_loop().create_task(self._try(), name="store probe")
        trying = self._trying
        await asyncio.wait({trying}, timeout=self._patience)
        if trying.done():
            self._trying = None if self._trying is trying else self._trying
            found = trying.result()
        else:
            found = f"a write has not come to its end after {self._patience:g} s"
        self._known = (clock(), found)
        return found

    def latency(self) -> HistogramShot | None:
        """Return how long the writes took."""
        return self._metrics.snapshot().histograms.get(WRITE)

    async def aclose(self) -> None:
        """End what is being tried."""
        if self._trying is not None:
            self._trying.cancel()
            await asyncio.gather(self._trying, return_exceptions=True)

    async def _try(self) -> str:
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            await self._store.put(COLLECTION, KEY, {})
        except LifecycleError as problem:
            return str(problem)
        self._metrics.took(WRITE, clock() - began)
        return ""
