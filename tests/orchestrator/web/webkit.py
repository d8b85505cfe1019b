"""A real server on a real port over a real engine on a real repository, and clients for it."""

from __future__ import annotations

import asyncio
import io
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx

from lifecycle.loop import AgentLifecycleLoop
from lifecycle.plan import Plan
from orchestrator.config.settings import SettingsReader
from orchestrator.runner.server_interface import RunnerPort
from orchestrator.runner.service import Service
from orchestrator.runner.signals import SignalHandler
from orchestrator.runner.workload import Workload
from orchestrator.web.app import guarded
from orchestrator.web.bound_server import bound
from orchestrator.web.server import Server
from orchestrator.web.services import ServerServices
from orchestrator.wording.live_view import PlainView
from runtime.branches import BranchManager
from runtime.process import TerminalManager
from runtime.workspace import WorkspaceManager
from tests.orchestrator.loopkit import World
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from ci.webhooks.receiver import Receiver
    from lifecycle.engine.engine import LocalEngine
    from lifecycle.store.sqlite.store import SqliteStore
    from orchestrator.web.edge.connection import OpenConnections

PATIENCE = 20.0
TOKEN = "a-token-of-the-tests-0123456789"  # noqa: S105  # opens nothing but these
WORKER_TOKEN = "a-token-of-their-workers-0123456789"  # noqa: S105  # as above
SSE = {"accept": "text/event-stream"}


@dataclass
class Site:
    """One server and what it stands on."""

    world: World
    engine: LocalEngine
    services: ServerServices
    server: Server
    client: httpx.AsyncClient
    """Has the token."""
    reports: list[tuple[str, dict[str, object]]]

    @property
    def port(self) -> int:
        return int(self.server.url.rpartition(":")[2])

    @property
    def store(self) -> SqliteStore:
        return self.engine.shared.store

    async def get(self, path: str, status: int = 200, **more: Any) -> Any:
        """Get something of the API and check what is answered."""
        answer = await self.client.get(f"/api/v1{path}", **more)
        assert answer.status_code == status, answer.text
        return answer.json()

    async def post(self, path: str, body: Any = None, status: int = 200, **more: Any) -> Any:
        """Ask for a change and check what is answered."""
        answer = await self.client.post(f"/api/v1{path}", json=body or {}, **more)
        assert answer.status_code == status, answer.text
        return answer.json()

    async def add(self, name: str, script: object, **more: Any) -> str:
        """Add a task whose agent plays a script; returns its agent."""
        command = self.world.script(name, script)
        body = {"text": f"Do {name}", "name": name, "command": command, **more}
        found: str = (await self.post("/lifecycles", body, 201))["lifecycle"]["agent_id"]
        return found

    async def comes_to(self, kind: str, agent_id: str) -> None:
        """Wait until a lifecycle is in a work state."""

        async def there() -> bool:
            record = await self.store.get(agent_id)
            return record is not None and type(record.work).__name__ == kind

        await until(there, f"{agent_id} is {kind}")


@dataclass
class _Stays:
    stays: bool = True
    used_at: float | None = None

    async def decisions(self) -> int:
        return 0

    async def run(self, runner: RunnerPort, over: Callable[[], Awaitable[None]]) -> None:
        """Is never asked to."""


@dataclass
class Options:
    """What differs from a server as users have it."""

    receiver: Callable[[LocalEngine], Receiver] | None = None
    connections: OpenConnections | None = None
    most_streams: int = 100
    hosts: frozenset[str] = frozenset()
    budgets: dict[str, int | None] = field(default_factory=dict)


@asynccontextmanager
async def site(folder: Path, options: Options | None = None) -> AsyncIterator[Site]:
    """Serve a fresh repository."""
    options = options or Options()
    world = World(folder)
    loop = AgentLifecycleLoop(
        repo_dir=world.repo,
        plan=Plan(tasks=()),
        ci_provider=None,
        terminal_manager=TerminalManager(world.repo),
        branch_manager=BranchManager(world.repo),
        workspace_manager=WorkspaceManager(world.repo),
        settings=SettingsReader(world.repo, environ={}),
    )
    reports: list[tuple[str, dict[str, object]]] = []
    async with loop.opened() as engine:
        engine.shared.report = lambda event, /, **fields: reports.append((event, fields))
        signals = SignalHandler(lambda _: None)
        service = Service(engine, PlainView(io.StringIO()), signals, revives=True)
        running = asyncio.create_task(service.run(Workload((), beside=_Stays())))
        runner = RunnerPort(
            engine,
            service.audit,
            lambda _: None,
            receiver=options.receiver(engine) if options.receiver else None,
            budgets=lambda: options.budgets,
        )
        try:
            async with ServerServices(
                runner,
                token=TOKEN,
                worker_token=WORKER_TOKEN,
                most_streams=options.most_streams,
            ) as services:
                app = guarded(services, hosts=lambda: options.hosts)
                sock = bound("127.0.0.1", 0)
                async with (
                    Server(
                        app,
                        sock,
                        report=engine.shared.report,
                        closing=services.leave,
                        connections=options.connections,
                    ) as server,
                    client_of(server.url) as client,
                ):
                    yield Site(world, engine, services, server, client, reports)
        finally:
            await service.shutdown()
            await running


def client_of(url: str, token: str = TOKEN) -> httpx.AsyncClient:
    """Return a client that has the token."""
    headers = {"authorization": f"Bearer {token}"} if token else {}
    return httpx.AsyncClient(
        base_url=url,
        headers=headers,
        timeout=PATIENCE,
        trust_env=False,
        # Less than the server keeps a connection that nobody uses: a busy machine meets its end.
        limits=httpx.Limits(keepalive_expiry=1.0),
        verify=False,  # noqa: S501  # there is no TLS; to prepare for it takes longer than to ask
    )


@dataclass
class Event:
    """A server-sent event as a client reads it."""

    name: str = "message"
    id: str = ""
    data: Any = None


async def events(answer: httpx.Response) -> AsyncIterator[Event]:
    """Read the events of a stream; heartbeats are passed over."""
    found = Event()
    async for line in answer.aiter_lines():
        if not line:
            if found.data is not None:
                yield found
            found = Event()
            continue
        key, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if key == "data":
            found.data = json.loads(value)
        elif key == "id":
            found.id = value
        elif key == "event":
            found.name = value


async def raw(port: int, data: bytes) -> bytes:
    """Send bytes as they are and return all that is answered until the connection ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        await writer.drain()
        async with asyncio.timeout(PATIENCE):
            return await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()
