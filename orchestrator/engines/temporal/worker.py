"""A worker's process: its machine, the assignments it takes, and how it leaves.

Must not decide anything; what it does with an assignment is `lifecycle.worker`.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from lifecycle.reporting import logged
from lifecycle.worker.branch_travel import no_header
from lifecycle.worker.build import worker_machine
from lifecycle.worker.worker import Worker
from orchestrator.engines.temporal import hosts, options
from orchestrator.engines.temporal.activities import Acting

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from pathlib import Path

    from temporalio.client import Client

    from lifecycle.reporting import Report
    from lifecycle.settings import Settings
    from lifecycle.worker.coordinator_link import CoordinatorLink
    from orchestrator.engines.temporal.options import Queues
    from runtime.masking.masker import Masker


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
    report: Report = logged,
    header: Callable[[], Awaitable[Mapping[str, str]]] = no_header,
    masker: Masker | None = None,
    environ: Mapping[str, str] = os.environ,
) -> AsyncIterator[Worker]:
    """Take assignments in a clone; at the end hand on, saved and pushed, what is under way.

    By the `link` the coordinator hears of it, and gets logs and summaries.
    """
    agents, labels = settings.max_live_agents, settings.labels
    acting = Acting(client, name, agents)
    opened = worker_machine(
        repo,
        name=name,
        settings=settings,
        report=report,
        header=header,
        masker=masker,
        environ=environ,
    )
    async with opened as (machine, travel), AsyncExitStack() as linked:
        acting.acts = worker = Worker(machine, tell=acting.tell, lease=lease, travel=travel)
        await worker.start()
        if link is not None:
            await linked.enter_async_context(link.opened(machine, worker))
        obeys, *takes = hosts.acts(
            client, queues, acting, name=name, agents=agents, lease=lease, labels=labels
        )
        try:
            async with obeys:
                taking = [asyncio.create_task(each.run()) for each in takes]
                try:
                    yield worker
                finally:
                    # No new ones from now on; those it has come to rest by their own orders.
                    leaving = [asyncio.create_task(each.shutdown()) for each in takes]
                    await worker.drain()
                    await asyncio.gather(*leaving, *taking)
        finally:
            await worker.aclose()
