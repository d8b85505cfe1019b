"""The events of a provider: a durable, numbered log and the subscribers it is told to.

Owns order, uniqueness and durability of events, and how long they are kept. Must not know what
they are about.
"""

from __future__ import annotations

import asyncio
import contextlib
from bisect import bisect_right
from typing import TYPE_CHECKING

from pydantic import ValidationError

from ci.errors import ProviderError
from ci.events import CIEvent
from ci.feed_ids import ForgottenIds
from ci.interface import EventBatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci.interface import Documents

    Handler = Callable[[CIEvent], None]
    Kept = tuple[int, CIEvent]

KEPT = 5_000
"""Events that can be read back; of older ones only the ids are known, so that none is told anew."""
AT_ONCE = 100
"""Events that are forgotten together."""


class Feed:
    """Tells each event once, after it is kept. Publishing is for one task at a time."""

    def __init__(self, collection: str) -> None:
        self._collection = collection
        self._handlers: dict[object, Handler] = {}
        self._documents: Documents | None = None
        self._kept: list[Kept] = []
        """By their numbers, which rise for ever: the newest event is never forgotten."""
        self._known: set[str] = set()
        self._forgotten = ForgottenIds(f"{collection}.ids")

    def subscribe(self, handler: Handler) -> Callable[[], None]:
        """Add a subscriber; the returned function removes it, at once and any number of times."""
        ticket = object()
        self._handlers[ticket] = handler

        def unsubscribe() -> None:
            self._handlers.pop(ticket, None)

        return unsubscribe

    async def open(self, documents: Documents) -> None:
        """Read which events were told already, and forget the oldest of too many."""
        self._documents = documents
        await self._forgotten.open(documents)
        bodies = await documents.all(self._collection)
        self._kept = [
            (int(key), _event(self._collection, key, bodies[key]))
            for key in sorted(bodies, key=int)
        ]
        self._known = {event.event_id for _, event in self._kept}
        while count := self._too_old():
            await self._forget(min(count, AT_ONCE))

    def knows(self, event_id: str) -> bool:
        """Tell whether this event was told already."""
        return event_id in self._known or event_id in self._forgotten

    async def publish(self, event: CIEvent) -> None:
        """Keep the event, then tell it; one whose id is known is neither kept nor told."""
        if self.knows(event.event_id):
            return
        number = self._kept[-1][0] + 1 if self._kept else 1
        await self._opened().put(
            self._collection, f"{number:012}", {"event": event.model_dump(mode="json")}
        )
        self._kept.append((number, event))
        self._known.add(event.event_id)
        loop = asyncio.get_running_loop()
        for ticket in tuple(self._handlers):
            # A callback of its own per handler: the loop reports the error of one that fails,
            # and the others are called as if nothing had happened.
            loop.call_soon(self._tell, ticket, event)
        if self._too_old() >= AT_ONCE:
            # The event is kept and told; what cannot be forgotten now is forgotten another time.
            with contextlib.suppress(Exception):
                await self._forget(AT_ONCE)

    async def since(self, cursor: int) -> EventBatch:
        """Return what was told after the cursor, as far as it is not forgotten."""
        self._opened()
        later = self._kept[bisect_right(self._kept, cursor, key=_number) :]
        return EventBatch(
            events=tuple(event for _, event in later), cursor=later[-1][0] if later else cursor
        )

    async def flush(self) -> None:
        """Return when every event that was published has been told."""
        told = asyncio.Event()
        asyncio.get_running_loop().call_soon(told.set)
        await told.wait()

    def _too_old(self) -> int:
        """Count the events that may be forgotten; never the newest, as it holds the number."""
        # By number, not by age: what happened long ago may have been told just now.
        return max(0, len(self._kept) - KEPT)

    async def _forget(self, count: int) -> None:
        documents, old = self._opened(), self._kept[:count]
        # First: a crash between the two must not have anything told anew.
        await self._forgotten.add(old[-1][0], [event.event_id for _, event in old])
        await asyncio.gather(
            *(documents.delete(self._collection, f"{number:012}") for number, _ in old)
        )
        del self._kept[:count]
        self._known.difference_update(event.event_id for _, event in old)

    def _tell(self, ticket: object, event: CIEvent) -> None:
        handler = self._handlers.get(ticket)
        if handler is not None:
            handler(event)

    def _opened(self) -> Documents:
        if self._documents is None:
            raise ProviderError("the event log is not open: start() the provider first")
        return self._documents


def _number(kept: Kept) -> int:
    return kept[0]


def _event(collection: str, key: str, body: dict[str, object]) -> CIEvent:
    try:
        return CIEvent.model_validate(body.get("event"))
    except ValidationError as fault:
        raise ProviderError(
            f"record {key} of {collection} is not readable ({fault.errors()[0]['msg']}); it was "
            "damaged or written by another version: mend it, or delete it to have it forgotten"
        ) from fault
