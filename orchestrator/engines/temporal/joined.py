"""What commands open of this engine: the coordinator's owners, and a worker.

Reads the settings of a repository once, as each process begins. Must not decide anything.
"""

from __future__ import annotations

import hashlib
import platform
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from lifecycle.worker.branch_travel import BranchTravel, no_header
from orchestrator.engines.temporal.connection import joined
from orchestrator.engines.temporal.coordinator import coordinating
from orchestrator.engines.temporal.options import Queues
from orchestrator.engines.temporal.owners import RemoteOwners
from orchestrator.engines.temporal.placement import Pollers
from orchestrator.engines.temporal.worker import working
from orchestrator.errors import ConfigError
from runtime.remote.remote import GitRemote, url_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from pathlib import Path

    from lifecycle.reporting import Report
    from lifecycle.services import MachineServices
    from lifecycle.settings import Settings
    from lifecycle.worker.coordinator_link import CoordinatorLink
    from lifecycle.worker.worker import Worker
    from runtime.masking.masker import Masker
    from runtime.workspace import WorkspaceManager

    SignIn = Callable[[], Awaitable[Mapping[str, str]]]

DIGITS = 12
"""Of the hash of a remote's address, in the names of queues."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPlace:
    """Where a worker works, and by what."""

    name: str
    repo: Path
    settings: Settings
    report: Report
    masker: Masker
    header: SignIn | None = None
    """What signs in at the remote."""
    link: CoordinatorLink | None = None


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
    repo: Path, settings: Settings, environ: Mapping[str, str], header: SignIn | None = None
) -> AsyncIterator[RemoteOwners]:
    """Decide by workflows, and keep what they decide, for as long as this is open.

    `header` signs in at a remote that is reached over https.
    """
    queues = queues_of(repo, settings)
    client = await joined(settings, environ, f"coordinator@{platform.node()}")

    def travel(machine: MachineServices) -> BranchTravel:
        remote = GitRemote(
            repo,
            name=settings.remote,
            url=url_of(repo, settings.remote),
            environ=environ,
            timeout=settings.push_timeout,
        )
        workspaces = cast("WorkspaceManager", machine.workspaces)
        return BranchTravel(workspaces, machine.branches, remote, header or no_header)

    async with coordinating(client, queues, lease=settings.lease) as decider:
        owners = RemoteOwners(decider, travel, Pollers(client, queues))
        try:
            yield owners
        finally:
            await owners.aclose()


@asynccontextmanager
async def worker_of(place: WorkerPlace, environ: Mapping[str, str]) -> AsyncIterator[Worker]:
    """Be a worker of a repository for as long as this is open."""
    settings = place.settings
    queues = queues_of(place.repo, settings)
    client = await joined(settings, environ, f"{place.name}@{platform.node()}")
    async with working(
        *(client, queues, place.repo),
        name=place.name,
        settings=settings,
        lease=settings.lease,
        link=place.link,
        report=place.report,
        header=place.header or no_header,
        masker=place.masker,
        environ=environ,
    ) as worker:
        yield worker
