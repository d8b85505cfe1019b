"""A worker's process: its machine, the assignments it takes, and how it leaves.

Must not decide anything; what it does with an assignment is `lifecycle.worker`.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from lifecycle.worker.build import worker_machine
from lifecycle.worker.worker import Worker
from orchestrator.engines.temporal import hosts, options
from orchestrator.engines.temporal.activities import Acting

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from temporalio.client import Client

    from lifecycle.settings import Settings
    from orchestrator.engines.temporal.options import Queues


@asynccontextmanager
async def working(  # noqa: PLR0913  # all by name
    client: Client,
    queues: Queues,
    repo: Path,
    *,
    name: str,
    settings: Settings,
    lease: float = options.LEASE,
) -> AsyncIterator[Worker]:
    """Take assignments in a clone; at the end hand on, saved and pushed, what is under way."""
    acting = Acting(client, name)
    async with worker_machine(repo, name=name, settings=settings) as (machine, travel):
        acting.acts = worker = Worker(machine, tell=acting.tell, lease=lease, travel=travel)
        await worker.start()
        agents = settings.max_live_agents
        takes, obeys = hosts.acts(client, queues, acting, name=name, agents=agents, lease=lease)
        try:
            async with obeys:
                taking = asyncio.create_task(takes.run(), name=f"assignments of {name}")
                try:
                    yield worker
                finally:
                    # No new ones from now on; those it has come to rest by their own orders.
                    leaving = asyncio.create_task(takes.shutdown(), name=f"end of {name}")
                    await worker.drain()
                    await asyncio.gather(leaving, taking)
        finally:
            await worker.aclose()
