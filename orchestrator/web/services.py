"""What the endpoints of one server work with, made once and closed together.

Must not answer anything.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from typing import TYPE_CHECKING, Self

from lifecycle.fleet.api.registry import AgentRegistry
from lifecycle.fleet.spawner.spawner import AgentSpawner
from orchestrator.web.edge.passes import SpentPasses
from orchestrator.web.edge.problems import busy
from orchestrator.web.edge.visitors import Door
from orchestrator.web.edge.webhooks import Hooks
from orchestrator.web.edge.worker_uploads import WorkerUploads
from orchestrator.web.handed_in import HandedIn
from orchestrator.web.live.board_state import BoardState
from orchestrator.web.live.counters import LifecycleCounters
from orchestrator.web.live.hub import StreamHub
from orchestrator.web.live.page_news import PageNews
from orchestrator.web.live.search_keeper import SearchKeeper
from orchestrator.web.live.store_probe import StoreProbe
from orchestrator.web.live.streams import Stream, Streams
from orchestrator.web.reading.configuration import Doctor
from orchestrator.web.reading.reviews import ReviewReading

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starlette.responses import Response

    from orchestrator.runner.server_interface import RunnerPort

MOST_STREAMS = 100
SPENT = "web.spent"
"""Where links that were used and sessions that were ended are kept."""


class ServerServices:
    """The parts behind the endpoints; `async with` listens to the engine."""

    def __init__(
        self,
        runner: RunnerPort,
        *,
        token: str,
        worker_token: str = "",
        most_streams: int = MOST_STREAMS,
        door: Door | None = None,
    ) -> None:
        """`door` is that of all repositories, where this is one of several.

        Without a `worker_token` no worker can hand anything in.
        """
        self.runner = runner
        self.several = door is not None
        """Whether others are served at the same address."""
        spent = SpentPasses(self.keep_spent)
        own = Door(token, now=runner.now, spent=spent, worker_token=worker_token)
        self.door = (door or own).at(runner.repo)
        self.hub = StreamHub()
        self.streams = Streams(runner.store, self.hub, secrets.token_hex(4))
        self.most_streams = most_streams
        self.spawner = AgentSpawner(
            runner.store,
            AgentRegistry(),
            clock=runner.engine.shared.clock,
            audit=runner.audit,
            report=runner.report,
            retention=None,
        )
        self.board = BoardState(runner)
        self.pages = PageNews(self.streams.boot, runner.report)
        self.counters = LifecycleCounters(runner.engine, self.spawner.metrics)
        self.probe = StoreProbe(runner.store)
        self.doctor = Doctor(runner)
        self.search = SearchKeeper(runner)
        self.reviews = ReviewReading(runner)
        self.hooks = Hooks(runner.receiver, report=runner.report)
        handed_in = HandedIn(runner, self.search)
        self.worker_uploads = WorkerUploads(
            self.door,
            check=handed_in.check,
            keep=handed_in.keep,
            seen=handed_in.seen,
            most=lambda: runner.settings().log_cap_bytes,
        )
        self.turned_away: Counter[str] = Counter()
        """Requests that the guard refused, by why."""
        self.leaving = False
        """Whether the server is shutting down."""
        self._writing: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        """Listen."""
        await self._learn_spent()
        self.runner.engine.shared.observers.append(self.board.news)
        self.runner.engine.shared.observers.append(self.hub.news)
        self.runner.engine.shared.observers.append(self.pages.news)
        await self.counters.begin()
        self.search.begin()
        # What every page counts; it is read beside the loops.
        reading = asyncio.get_running_loop().create_task(self.board.look(), name="the board")
        self._writing.add(reading)
        reading.add_done_callback(self._writing.discard)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Listen no more."""
        self.leave()
        await asyncio.gather(*self._writing, return_exceptions=True)
        self.counters.end()
        observers = self.runner.engine.shared.observers
        for each in (self.hub.news, self.board.news, self.pages.news):
            if each in observers:
                observers.remove(each)
        await self.pages.aclose()
        await self.search.aclose()
        await self.probe.aclose()
        await self.spawner.aclose()

    async def _learn_spent(self) -> None:
        """Take in which links and sessions ended before, and drop those that are too old anyway."""
        for id_, told in (await self.runner.store.all(SPENT)).items():
            if told["until"] > self.runner.now():
                self.door.spent.learn(id_, told["until"])
            else:
                await self.runner.store.remove(SPENT, id_)

    @property
    def place(self) -> str:
        """What one signs in to, for people."""
        return self.runner.repo.name

    async def note_sign_in(self, name: str, role: str) -> None:
        """Record who signed in, and as what."""
        await self.runner.audit.record("sign_in", name, role, "done", "")

    def keep_spent(self, id_: str, until: float) -> None:
        """Remember over a restart that a pass counts no more."""
        writing = asyncio.get_running_loop().create_task(
            self.runner.store.put(SPENT, id_, {"until": until}), name="note of a spent pass"
        )
        self._writing.add(writing)
        writing.add_done_callback(self._writing.discard)

    def stream(self, pieces: AsyncGenerator[bytes]) -> Response:
        """Return a stream, unless there are too many."""
        if self.hub.listeners >= self.most_streams:
            raise busy(f"{self.hub.listeners} streams are open")
        if self.leaving:
            raise busy("the server is shutting down")
        return Stream(pieces)

    def leave(self) -> None:
        """End the streams; from now on `/readyz` says not ready."""
        self.leaving = True
        self.hub.close()
        self.pages.close()
