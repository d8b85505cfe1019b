"""What the endpoints of one server work with, made once and closed together.

Must not answer anything.
"""

from __future__ import annotations

import secrets
from collections import Counter
from typing import TYPE_CHECKING, Self

from lifecycle.fleet.registry import AgentRegistry
from lifecycle.fleet.spawner import AgentSpawner
from orchestrator.web.census import Census
from orchestrator.web.hooks import Hooks
from orchestrator.web.hub import Hub
from orchestrator.web.probe import Probe
from orchestrator.web.problems import busy
from orchestrator.web.streams import Stream, Streams

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starlette.responses import Response

    from orchestrator.web.office import Office

MOST_STREAMS = 100


class Desk:
    """The parts behind the endpoints; `async with` listens to the engine."""

    def __init__(self, office: Office, *, most_streams: int = MOST_STREAMS) -> None:
        self.office = office
        self.hub = Hub()
        self.streams = Streams(office.store, self.hub, secrets.token_hex(4))
        self.most_streams = most_streams
        self.spawner = AgentSpawner(
            office.store,
            AgentRegistry(),
            clock=office.engine.parts.clock,
            audit=office.audit,
            report=office.report,
        )
        self.census = Census(office.engine, self.spawner.metrics)
        self.probe = Probe(office.store)
        self.hooks = Hooks(office.receiver, report=office.report)
        self.turned_away: Counter[str] = Counter()
        """Requests that the guard refused, by why."""
        self.leaving = False
        """Whether the server is on its way to its end."""

    async def __aenter__(self) -> Self:
        """Listen."""
        self.office.engine.parts.observers.append(self.hub.news)
        await self.census.begin()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Listen no more."""
        self.leave()
        self.census.end()
        observers = self.office.engine.parts.observers
        if self.hub.news in observers:
            observers.remove(self.hub.news)
        await self.probe.aclose()
        await self.spawner.aclose()

    def stream(self, pieces: AsyncGenerator[bytes]) -> Response:
        """Return a stream, unless there are too many."""
        if self.hub.listeners >= self.most_streams:
            raise busy(f"{self.hub.listeners} streams are open")
        if self.leaving:
            raise busy("the server is on its way to its end")
        return Stream(pieces)

    def leave(self) -> None:
        """End the streams; from now on nobody is told that we are ready."""
        self.leaving = True
        self.hub.close()
