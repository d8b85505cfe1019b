"""The lifecycle that all providers share: bind, start, subscribe, read events back.

Owns the order of these steps and the error for a call in the wrong order. Must not know what a
provider works with.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, TypeVar

from ci.errors import ProviderError
from ci.event_log import EventLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci.events import CIEvent
    from ci.interface import EventBatch
    from ci.ports import ProviderPorts

Work = TypeVar("Work")


class BaseProvider(Generic[Work]):
    """A provider with its own event log; `_work` holds the parts of a started one."""

    name: str

    def __init__(self, events: str) -> None:
        """`events` names the collection of documents that keeps its events."""
        self._log = EventLog(events)
        self._life = asyncio.Lock()
        self._ports: ProviderPorts | None = None
        self._work: Work | None = None

    def bind(self, ports: ProviderPorts) -> None:
        """Set what it works with; the same ports again change nothing, even while it runs."""
        if self._work is not None and ports != self._ports:
            raise ProviderError(
                "this provider is running with other ports: aclose() it before bind()"
            )
        self._ports = ports

    def subscribe(self, handler: Callable[[CIEvent], None]) -> Callable[[], None]:
        """Call the handler with every later event; the returned function unsubscribes it."""
        return self._log.subscribe(handler)

    async def events_since(self, cursor: int) -> EventBatch:
        """Return the events after the cursor; 0 for all."""
        self._started()
        return await self._log.since(cursor)

    def _started(self) -> Work:
        self._bound()
        if self._work is None:
            raise ProviderError(f"the {self.name} provider is not running: await start() first")
        return self._work

    def _bound(self) -> ProviderPorts:
        if self._ports is None:
            raise ProviderError(
                f"the {self.name} provider is not bound yet: call bind(ProviderPorts(...)) first, "
                "then await start() (AgentLifecycleLoop does both by itself)"
            )
        return self._ports
