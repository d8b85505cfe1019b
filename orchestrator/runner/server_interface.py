"""What the server may use of the runner, and nothing else of it.

Must not decide anything, and must not import `web`: a runner may run without a server.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from ci.webhooks.receiver import Receiver
    from lifecycle.audit import Audit
    from lifecycle.engine.engine import LocalEngine
    from lifecycle.reporting import Report
    from lifecycle.settings import Settings
    from lifecycle.store.sqlite.store import SqliteStore

API = "api"
"""Who asked, where the request does not say."""


def _no_budgets() -> Mapping[str, int | None]:
    return {}


@dataclass(slots=True)
class RunnerPort:
    """One runner, as its server sees it."""

    engine: LocalEngine
    audit: Audit
    tell: Callable[[str], None]
    """Shows a line at the terminal."""
    receiver: Receiver | None = None
    """Without one no webhook is accepted."""
    budgets: Callable[[], Mapping[str, int | None]] = _no_budgets
    """How many requests each forge still allows, by its name."""
    draining: Callable[[], bool] = lambda: False
    """Whether the runner is shutting down."""
    adding: asyncio.Lock = field(default_factory=asyncio.Lock)
    """One addition at a time: ids must still be free when the record is written."""

    @property
    def store(self) -> SqliteStore:
        """The records; there must be no second store on their file in this process."""
        return self.engine.shared.store

    @property
    def repo(self) -> Path:
        """The repository."""
        return self.engine.machine.repo

    @property
    def report(self) -> Report:
        """Where log events go."""
        return self.engine.shared.report

    def serves_at(self, url: str) -> None:
        """Tell other programs, and who writes links, where the server answers."""
        shared = self.engine.shared
        shared.address = url
        shared.announce(url=url)

    def settings(self) -> Settings:
        """Return the settings as they are now."""
        return self.engine.shared.settings()

    def now(self) -> float:
        """Return the present instant."""
        return self.engine.shared.clock.now()


class Beside(Protocol):
    """What runs beside the loops of a runner."""

    stays: bool
    """Whether the runner lives on when no loop is left."""

    @property
    def used_at(self) -> float | None:
        """When somebody who is signed in last asked for something; None if nobody did."""
        ...

    async def decisions(self) -> int:
        """Return how many lifecycles wait for a person's decision."""
        ...

    async def run(self, runner: RunnerPort, over: Callable[[], Awaitable[None]]) -> None:
        """Serve until `over` returns."""
        ...
