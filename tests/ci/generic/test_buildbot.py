"""A real CI server through the generic hook: its red build wakes with the log, then it is green."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest

from ci.events import CIEvent, CIEventType
from ci.forge.merge_rules import Rules
from ci.generic.provider import GenericProvider
from ci.interface import CIWatch
from ci.ports import ProviderPorts
from ci.verdict import VerdictStatus
from ci.webhook_delivery import DeliveryState
from ci.webhooks.dispatcher import DeliveryDispatcher
from ci.webhooks.receiver import Receiver
from lifecycle.clock import SystemClock
from tests.ci.generic.buildbot import buildbot
from tests.ci.ports import GitRepository, JsonDocuments, ShellCommands, git
from tests.ci.webhooks.inboxes import BRANCH, SECRET, inbox
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from ci.ports import Cancellable

NOW = SystemClock().now
RED = "echo the sum is wrong; exit 3\n"
GREEN = "echo all is well\n"


def call_at(at: float, callback: Callable[[], None]) -> Cancellable:
    return asyncio.get_running_loop().call_later(at - NOW(), callback)


async def anything(*_: str) -> bool:
    return True


@contextlib.asynccontextmanager
async def endpoint(receiver: Receiver) -> AsyncIterator[str]:
    """Serve the generic hook over HTTP."""
    connections: set[asyncio.Task[None]] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = dict(line.split(": ", 1) for line in head[1:] if line)
        size = next(
            int(value) for name, value in headers.items() if name.lower() == "content-length"
        )
        receipt = await receiver.take("generic", headers, await reader.readexactly(size))
        text = receipt.text.encode()
        writer.write(
            f"HTTP/1.1 {receipt.status} x\r\nContent-Length: {len(text)}\r\n"
            "Connection: close\r\n\r\n".encode()
            + text
        )
        await writer.drain()
        writer.close()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(answer(reader, writer))
        connections.add(task)
        task.add_done_callback(connections.discard)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hooks/generic"
    while connections:
        await asyncio.gather(*connections, return_exceptions=True)


class Origin:
    """A bare repository and a clone that pushes to it."""

    def __init__(self, folder: Path) -> None:
        self.bare, self.clone = folder / "origin.git", folder / "clone"
        self.clone.mkdir()
        git(folder, "init", "-q", "--bare", "-b", "main", str(self.bare))
        git(self.clone, "init", "-q", "-b", "main")
        self.push("main", GREEN)

    def push(self, branch: str, script: str) -> str:
        git(self.clone, "checkout", "-q", "-B", branch)
        (self.clone / "check.sh").write_text(script)
        git(self.clone, "add", ".")
        git(self.clone, "commit", "-q", "-m", branch)
        code, _ = git(self.clone, "push", "-q", str(self.bare), branch)
        assert code == 0
        return git(self.clone, "rev-parse", "HEAD")[1].decode().strip()


def said_of(what: str, log: Path) -> Callable[[], str]:
    return lambda: f"{what}:\n{log.read_text(errors='replace')[-6000:]}"


@pytest.mark.timeout(150)
async def test_a_real_ci_server_tells_red_with_its_log_and_then_green(tmp_path: Path) -> None:
    origin = await asyncio.to_thread(Origin, tmp_path)
    events: list[CIEvent] = []
    provider = GenericProvider(rules=Rules)
    provider.subscribe(events.append)
    provider.bind(
        ProviderPorts(
            repository=GitRepository(origin.clone),
            commands=ShellCommands(),
            documents=JsonDocuments(),
            now=NOW,
            folder=tmp_path / "state",
            call_at=call_at,
        )
    )
    await provider.start()

    async def is_(sha: str, wanted: VerdictStatus) -> bool:
        return (await provider.verdict(sha)).status is wanted

    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(provider.aclose)
        deliveries = await stack.enter_async_context(inbox(tmp_path))
        dispatcher = DeliveryDispatcher(
            deliveries, provider, ours=anything, now=NOW, report=lambda _: None
        )
        await stack.enter_async_context(dispatcher)
        receiver = Receiver(
            deliveries, secrets={"generic": lambda: (SECRET,)}, now=NOW, wake=dispatcher.wake
        )
        url = await stack.enter_async_context(endpoint(receiver))
        log = await stack.enter_async_context(
            buildbot(tmp_path / "buildbot", origin.bare, url=url, secret=SECRET)
        )
        red = await asyncio.to_thread(origin.push, BRANCH, RED)
        await provider.pushed(BRANCH, red)
        provider.watch(CIWatch(key="agent-T1", branch=BRANCH, sha=red))
        await until(lambda: is_(red, VerdictStatus.RED), said_of("red verdict", log))
        [failed] = (await provider.verdict(red)).failed
        assert failed.name == "buildbot/unit"
        assert "unit test" in failed.summary
        assert failed.excerpt.strip() == "the sum is wrong"

        green = await asyncio.to_thread(origin.push, BRANCH, GREEN)
        await provider.pushed(BRANCH, green)
        provider.watch(CIWatch(key="agent-T1", branch=BRANCH, sha=green))
        await until(lambda: is_(green, VerdictStatus.GREEN), said_of("green verdict", log))
        assert await is_(red, VerdictStatus.RED)

        async def all_settled() -> bool:
            return not await deliveries.waiting()

        await until(all_settled, said_of("end of the deliveries", log))
        kept = [delivery for _, delivery in await deliveries.list()]
        assert {delivery.state for delivery in kept} <= {
            DeliveryState.MATCHED,
            DeliveryState.UNMATCHED,
        }
        assert "checked at once for agent-T1" in {delivery.outcome for delivery in kept}
    ends = [event for event in events if event.type is not CIEventType.BUILD_STARTED]
    assert [(event.type, event.sha) for event in ends] == [
        (CIEventType.BUILD_FAILURE, red),
        (CIEventType.BUILD_SUCCESS, green),
    ]
    assert ends[0].excerpt.strip() == "the sum is wrong"
