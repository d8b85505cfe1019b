"""What commands open of this engine: the coordinator's owners, and a worker.

Reads the settings of a repository once, as each process begins. Must not decide anything.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, cast

from lifecycle.worker.branch_travel import BranchTravel
from orchestrator.engines.temporal.connection import connect
from orchestrator.engines.temporal.coordinator import coordinating
from orchestrator.engines.temporal.options import Queues
from orchestrator.engines.temporal.owners import RemoteOwners
from orchestrator.engines.temporal.payloads import CONVERTER
from orchestrator.engines.temporal.worker import working
from orchestrator.errors import ConfigError
from runtime.remote.remote import GitRemote, url_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from lifecycle.services import MachineServices
    from lifecycle.settings import Settings
    from lifecycle.worker.coordinator_link import CoordinatorLink
    from lifecycle.worker.worker import Worker
    from runtime.workspace import WorkspaceManager

DIGITS = 12
"""Of the hash of a remote's address, in the names of queues."""


def queues_of(repo: Path, settings: Settings) -> Queues:
    """Return the queues of a repository, which all its machines know by its remote."""
    if settings.temporal_queue_prefix:
        return Queues(settings.temporal_queue_prefix)
    address = url_of(repo, settings.remote)
    if address is None:
        raise ConfigError(
            f'{repo} has no remote "{settings.remote}", by which its machines hand branches on: '
            f"`git remote add {settings.remote} ADDRESS`"
        )
    # The same repository by ssh and by https, with whoever's name and password.
    _, _, place = address.rpartition("://")
    _, _, place = place.rpartition("@")
    plain = place.replace(":", "/").rstrip("/").removesuffix(".git").lower()
    return Queues(f"lw.{hashlib.sha256(plain.encode()).hexdigest()[:DIGITS]}")


@asynccontextmanager
async def remote_owners(
    repo: Path, settings: Settings, environ: Mapping[str, str]
) -> AsyncIterator[RemoteOwners]:
    """Decide by workflows, and keep what they decide, for as long as this is open."""
    queues = queues_of(repo, settings)
    client = await connect(settings, environ, data_converter=CONVERTER)

    def travel(machine: MachineServices) -> BranchTravel:
        remote = GitRemote(
            repo,
            name=settings.remote,
            url=url_of(repo, settings.remote),
            environ=os.environ,
            timeout=settings.push_timeout,
        )
        return BranchTravel(cast("WorkspaceManager", machine.workspaces), machine.branches, remote)

    async with coordinating(client, queues, lease=settings.lease) as decider:
        yield RemoteOwners(decider, travel)


@asynccontextmanager
async def worker_of(
    repo: Path,
    name: str,
    settings: Settings,
    environ: Mapping[str, str],
    link: CoordinatorLink | None = None,
) -> AsyncIterator[Worker]:
    """Be a worker of a repository for as long as this is open; the coordinator hears by `link`."""
    queues = queues_of(repo, settings)
    client = await connect(settings, environ, data_converter=CONVERTER)
    async with working(
        client, queues, repo, name=name, settings=settings, lease=settings.lease, link=link
    ) as worker:
        yield worker
