"""What the server needs of the runner, and nothing else of it.

Owns no decision. Imports nothing of the web: a runner without a server has an office all the same.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from lifecycle.audit import Audit
    from lifecycle.engine import Engine
    from lifecycle.parts import Report
    from lifecycle.settings import Settings
    from lifecycle.store.port import LifecycleStore

API = "api"
"""Who asked, where the request names nobody."""


class Reception(Protocol):
    """What became of a webhook request at the door."""

    @property
    def status(self) -> int:
        """The HTTP status of the answer."""
        ...

    @property
    def text(self) -> str:
        """For the sender; tells a stranger nothing."""
        ...

    @property
    def key(self) -> str:
        """Of the delivery, if there is one."""
        ...

    @property
    def fresh(self) -> bool:
        """Whether it is kept, and was not known before."""
        ...

    @property
    def reason(self) -> str:
        """For our own log; nothing if all is well."""
        ...


class Receiver(Protocol):
    """Takes webhook requests; returned means judged and, if it was right, kept."""

    async def take(self, provider: str, headers: Mapping[str, str], raw: bytes) -> Reception:
        """Judge a request by its raw bytes, and keep it."""
        ...


def _no_budgets() -> Mapping[str, int | None]:
    return {}


@dataclass(slots=True)
class Office:
    """One runner, as its server sees it."""

    engine: Engine
    audit: Audit
    tell: Callable[[str], None]
    """Shows the person at the terminal a line."""
    receiver: Receiver | None = None
    """Without one no webhook is taken."""
    budgets: Callable[[], Mapping[str, int | None]] = _no_budgets
    """How many requests each forge still allows, by its name."""
    draining: Callable[[], bool] = lambda: False
    """Whether the runner is on its way to its end."""
    adding: asyncio.Lock = field(default_factory=asyncio.Lock)
    """One addition at a time: who counts must not be overtaken before it writes."""

    @property
    def store(self) -> LifecycleStore:
        """The records; there must be no second store on their file in this process."""
        return self.engine.parts.store

    @property
    def repo(self) -> Path:
        """The repository."""
        return self.engine.parts.repo

    @property
    def report(self) -> Report:
        """Where log events go."""
        return self.engine.parts.report

    def settings(self) -> Settings:
        """Return the settings as they are now."""
        return self.engine.parts.settings()

    def now(self) -> float:
        """Return the present instant."""
        return self.engine.parts.clock.now()


class Beside(Protocol):
    """What runs beside the loops of a runner."""

    stays: bool
    """Whether the runner lives on when no loop is left."""

    async def run(self, office: Office, over: Callable[[], Awaitable[None]]) -> None:
        """Serve until `over` returns."""
        ...
