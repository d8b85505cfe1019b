"""The events of a provider: a durable, numbered log and its subscribers.

Owns order, uniqueness and durability of events, and how long they are kept. Must not know what
they are about.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from bisect import bisect_right
from typing import TYPE_CHECKING

from ci.errors import ProviderError
from ci.events import CIEvent
from ci.interface import EventBatch
from ci.json_model import read_document

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ci.ports import Documents

    Handler = Callable[[CIEvent], None]
    Kept = tuple[int, CIEvent]

KEPT = 5_000
"""Events that can be read back; of older ones only the ids are known, so that none is repeated."""
AT_ONCE = 100
"""Events that are deleted together."""
DOCUMENTS = 1_000
"""Kept at most; the ids of older events are deleted."""


class EventLog:
    """Publishes each event once, after it is stored. Only one task may publish at a time."""

    def __init__(self, collection: str) -> None:
        self._collection = collection
        self._handlers: dict[object, Handler] = {}
        self._documents: Documents | None = None
        self._kept: list[Kept] = []
        """With their numbers, which only grow: the newest event is never deleted."""
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
        """Read which events were published already, and delete the oldest if there are too many."""
        self._documents = documents
        await self._forgotten.open(documents)
        bodies = await documents.all(self._collection)
        self._kept = [
            (int(key), read_document(CIEvent, self._collection, key, bodies[key].get("event")))
            for key in sorted(bodies, key=int)
        ]
        self._known = {event.event_id for _, event in self._kept}
        while count := self._too_old():
            await self._forget(min(count, AT_ONCE))

    def knows(self, event_id: str) -> bool:
        """Return whether this event was published already."""
        return event_id in self._known or event_id in self._forgotten

    async def publish(self, event: CIEvent) -> None:
        """Store the event, then call the subscribers; an event with a known id is ignored."""
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
            # The event is stored and published; what cannot be deleted now is deleted later.
            with contextlib.suppress(Exception):
                await self._forget(AT_ONCE)

    async def since(self, cursor: int) -> EventBatch:
        """Return what was published after the cursor, as far as it is still stored."""
        self._opened()
        later = self._kept[bisect_right(self._kept, cursor, key=_number) :]
        return EventBatch(
            events=tuple(event for _, event in later), cursor=later[-1][0] if later else cursor
        )

    async def flush(self) -> None:
        """Return when the subscribers have received every published event."""
        told = asyncio.Event()
        asyncio.get_running_loop().call_soon(told.set)
        await told.wait()

    def _too_old(self) -> int:
        """Count the events that may be deleted; never the newest, as it holds the number."""
        # By number, not by age: what happened long ago may have been published just now.
        return max(0, len(self._kept) - KEPT)

    async def _forget(self, count: int) -> None:
        documents, old = self._opened(), self._kept[:count]
        # First: after a crash between the two, nothing may be published again.
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


class ForgottenIds:
    """Digests of the ids of deleted events, so that none is published again."""

    def __init__(self, collection: str) -> None:
        self._collection = collection
        self._documents: Documents | None = None
        self._held: dict[str, list[str]] = {}
        self._digests: set[str] = set()

    async def open(self, documents: Documents) -> None:
        """Read the digests."""
        self._documents = documents
        bodies = await documents.all(self._collection)
        self._held = {key: list(bodies[key]["ids"]) for key in sorted(bodies)}
        self._digests = {digest for held in self._held.values() for digest in held}

    def __contains__(self, event_id: str) -> bool:
        """Return whether an event with this id was deleted."""
        return _digest(event_id) in self._digests

    async def add(self, number: int, event_ids: Sequence[str]) -> None:
        """Store the ids of deleted events; `number` is that of the newest of them."""
        if self._documents is None:
            return
        key, digests = f"{number:012}", [_digest(each) for each in event_ids]
        await self._documents.put(self._collection, key, {"ids": digests})
        self._held[key] = digests
        self._digests.update(digests)
        while len(self._held) > DOCUMENTS:
            oldest = next(iter(self._held))
            await self._documents.delete(self._collection, oldest)
            self._digests.difference_update(self._held.pop(oldest))


def _digest(event_id: str) -> str:
    return hashlib.sha256(event_id.encode(errors="replace")).hexdigest()[:16]


def _number(kept: Kept) -> int:
    return kept[0]
