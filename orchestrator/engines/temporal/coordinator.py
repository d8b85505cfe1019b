"""The coordinator's process: it hosts workflows, keeps commits, and has a decider for its engine.

Must not know what a lifecycle does, nor open a repository: who runs the engine does.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from orchestrator.engines.temporal import hosts, options
from orchestrator.engines.temporal.activities import Keepers
from orchestrator.engines.temporal.client import TemporalDecider

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from temporalio.client import Client

    from orchestrator.engines.temporal.options import Queues


@asynccontextmanager
async def coordinating(
    client: Client, queues: Queues, *, lease: float = options.LEASE
) -> AsyncIterator[TemporalDecider]:
    """Decide and keep for as long as this is open; the engine is to be closed before."""
    keepers = Keepers()
    async with hosts.decides(client, queues), hosts.keeps(client, queues, keepers):
        yield TemporalDecider(client, queues, keepers, lease)
