"""The one server of all repositories: begun before any of them is opened, ended after the last.

Importing this module imports FastAPI and uvicorn.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.web.bound_server import hosts_of
from orchestrator.web.repositories.common_services import CommonServices
from orchestrator.web.repositories.front import Front
from orchestrator.web.repositories.mount import MountedRepository
from orchestrator.web.server import Server, url_of
from orchestrator.web.token import VARIABLE, WORKER_VARIABLE

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence

    from lifecycle.reporting import Report
    from orchestrator.runner.repositories import ServedRepository

    Mount = Callable[[ServedRepository], MountedRepository]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInputs:
    """What the server is made of."""

    sock: socket.socket
    host: str
    token: str
    worker_token: str
    allowed_hosts: Collection[str]
    environ: Mapping[str, str]
    now: Callable[[], float]
    report: Report


@asynccontextmanager
async def served(
    repositories: Sequence[ServedRepository], inputs: ServerInputs
) -> AsyncIterator[Mount]:
    """Serve while the block runs; gives what a repository runs beside its loops."""
    common = CommonServices(
        repositories,
        url=url_of(inputs.sock),
        token=inputs.token,
        now=inputs.now,
        worker_token=inputs.worker_token,
    )

    def hosts() -> frozenset[str]:
        return hosts_of(inputs.host, inputs.allowed_hosts)

    def mount(repository: ServedRepository) -> MountedRepository:
        secrets = {VARIABLE: inputs.token, WORKER_VARIABLE: inputs.worker_token}
        return MountedRepository(
            repository, common, token=inputs.token, hosts=hosts, secrets=secrets
        )

    front = await asyncio.to_thread(
        Front, common, environ=inputs.environ, hosts=hosts, report=inputs.report
    )
    async with Server(front, inputs.sock, report=inputs.report, closing=common.leave):
        yield mount
