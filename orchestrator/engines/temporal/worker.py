"""A worker's process: its machine, the assignments it takes, and how it leaves.

Must not decide anything; what it does with an assignment is `lifecycle.worker`.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
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
    from lifecycle.worker.coordinator_link import CoordinatorLink
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
    link: CoordinatorLink | None = None,
) -> AsyncIterator[Worker]:
    """Take assignments in a clone; at the end hand on, saved and pushed, what is under way.

    By the `link` the coordinator hears of it, and gets logs and summaries.
    """
    acting = Acting(client, name)
    async with (
        worker_machine(repo, name=name, settings=settings) as (machine, travel),
        AsyncExitStack() as linked,
    ):
        acting.acts = worker = Worker(machine, tell=acting.tell, lease=lease, travel=travel)
        await worker.start()
        if link is not None:
            await linked.enter_async_context(link.opened(machine, worker))
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
