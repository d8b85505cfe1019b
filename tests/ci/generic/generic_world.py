"""A generic provider that can be started again, and deliveries for it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any

from ci.forge.merge_rules import Rules
from ci.generic.provider import GenericProvider
from ci.interface import CIWatch
from ci.ports import ProviderPorts
from ci.webhook_delivery import Delivery
from lifecycle.clock import SteppedClock
from tests.ci.ports import GitRepository, JsonDocuments, ShellCommands
from tests.ci.webhooks.inboxes import BRANCH, SHA, check

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from ci.events import CIEvent, CIEventType
    from ci.verdict import VerdictStatus

WATCH = CIWatch(key="agent-T1", branch=BRANCH, sha=SHA)


class World:
    """A generic provider that can be started again."""

    def __init__(self, tmp_path: Path, **settings: Any) -> None:
        self.folder = tmp_path
        self.settings = settings
        self.rules = Rules()
        self.clock = SteppedClock()
        self.commands = ShellCommands()
        self.documents = JsonDocuments()
        self.events: list[CIEvent] = []
        self.provider = self.new_provider()

    def new_provider(self) -> GenericProvider:
        provider = GenericProvider(rules=lambda: self.rules, chance=lambda: 0.5, **self.settings)
        provider.subscribe(self.events.append)
        return provider

    async def start(self) -> None:
        self.provider.bind(
            ProviderPorts(
                repository=GitRepository(self.folder),
                commands=self.commands,
                documents=self.documents,
                now=self.clock.now,
                folder=self.folder,
                call_at=self.clock.call_at,
            )
        )
        await self.provider.start()

    async def restart(self) -> None:
        await self.provider.aclose()
        self.provider = self.new_provider()
        await self.start()

    async def report(self, status: str = "passed", sha: str = SHA, **more: Any) -> bool:
        return await self.provider.report(delivery(check(status, sha, **more), self.clock.now()))

    async def status(self, sha: str = SHA) -> VerdictStatus:
        return (await self.provider.verdict(sha)).status

    async def told(self) -> list[tuple[CIEventType, str]]:
        await asyncio.sleep(0)
        return [(event.type, event.sha) for event in self.events]


def delivery(body: object, at: float, provider: str = "generic") -> Delivery:
    return Delivery(
        key="generic:1",
        provider=provider,
        event="check",
        received_at=at,
        headers={},
        body=json.dumps(body).encode(),
    )


@contextlib.asynccontextmanager
async def running(folder: Path, **settings: Any) -> AsyncIterator[World]:
    world = World(folder, **settings)
    await world.start()
    try:
        yield world
    finally:
        await world.provider.aclose()
