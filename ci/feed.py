"""The events of a provider: a durable, numbered log and the subscribers it is told to.

Owns order, uniqueness and durability of events. Must not know what they are about.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ci.errors import ProviderError
from ci.events import CIEvent
from ci.interface import EventBatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci.interface import Documents

    Handler = Callable[[CIEvent], None]


class Feed:
    """Tells each event once, after it is kept. Publishing is for one task at a time."""

    def __init__(self, collection: str) -> None:
        self._collection = collection
        self._handlers: dict[object, Handler] = {}
        self._documents: Documents | None = None
        self._known: set[str] = set()
        self._last = 0

    def subscribe(self, handler: Handler) -> Callable[[], None]:
        """Add a subscriber; the returned function removes it, at once and any number of times."""
        ticket = object()
        self._handlers[ticket] = handler

        def unsubscribe() -> None:
            self._handlers.pop(ticket, None)

        return unsubscribe

    async def open(self, documents: Documents) -> None:
        """Read which events were told already."""
        self._documents = documents
        bodies = await documents.all(self._collection)
        self._known = {str(body["event"]["event_id"]) for body in bodies.values()}
        self._last = max((int(key) for key in bodies), default=0)

    async def publish(self, event: CIEvent) -> None:
        """Keep the event, then tell it; one whose id is known is neither kept nor told."""
        if event.event_id in self._known:
            return
        await self._opened().put(
            self._collection, f"{self._last + 1:012}", {"event": event.model_dump(mode="json")}
        )
        self._last += 1
        self._known.add(event.event_id)
        loop = asyncio.get_running_loop()
        for ticket in tuple(self._handlers):
            # A callback of its own per handler: the loop reports the error of one that fails,
            # and the others are called as if nothing had happened.
            loop.call_soon(self._tell, ticket, event)

    async def since(self, cursor: int) -> EventBatch:
        """Read back what was told after the cursor."""
        bodies = await self._opened().all(self._collection)
        later = sorted(key for key in bodies if int(key) > cursor)
        return EventBatch(
            events=tuple(CIEvent.model_validate(bodies[key]["event"]) for key in later),
            cursor=int(later[-1]) if later else cursor,
        )

    async def flush(self) -> None:
        """Return when every event that was published has been told."""
        told = asyncio.Event()
        asyncio.get_running_loop().call_soon(told.set)
        await told.wait()

    def _tell(self, ticket: object, event: CIEvent) -> None:
        handler = self._handlers.get(ticket)
        if handler is not None:
            handler(event)

    def _opened(self) -> Documents:
        if self._documents is None:
            raise ProviderError("the event log is not open: start() the provider first")
        return self._documents
