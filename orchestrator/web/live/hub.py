"""Wakes streams when the engine decided something, and keeps the latest news for reconnects.

Owns who listens. Must not read the store: what was decided is there before it is told here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lifecycle.state_words import spelled, word_on

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lifecycle.reporting import Committed

KEPT = 2000
"""News that a stream over all lifecycles can still be given after it was away."""
_SENT = ("agent_id", "event", "before", "after", "at")


@dataclass(slots=True, eq=False)
class StreamListener:
    """One stream."""

    agent_id: str | None
    """None for all lifecycles."""
    woken: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, slots=True)
class NewsItem:
    """A piece of news as it is sent, and its number."""

    number: int
    body: dict[str, Any]


class StreamHub:
    """Receives news and wakes the streams that listen."""

    def __init__(self) -> None:
        self.closed = False
        self.latest: deque[NewsItem] = deque(maxlen=KEPT)
        self._number = 0
        self._of_one: dict[str, set[StreamListener]] = {}
        self._of_all: set[StreamListener] = set()

    @property
    def number(self) -> int:
        """Of the latest piece of news."""
        return self._number

    @property
    def listeners(self) -> int:
        """How many streams are open."""
        return len(self._of_all) + sum(map(len, self._of_one.values()))

    def news(self, news: Committed) -> None:
        """Take what was decided."""
        self._number += 1
        # Without the record: thousands of them would be kept alive.
        body = {name: getattr(news, name) for name in _SENT}
        body |= {"state": spelled(word_on(news.record)), "record_state": news.record.state.value}
        self.latest.append(NewsItem(self._number, body))
        for listener in (*self._of_one.get(news.agent_id, ()), *self._of_all):
            listener.woken.set()

    def close(self) -> None:
        """End all streams."""
        self.closed = True
        for listener in (*self._of_all, *(one for each in self._of_one.values() for one in each)):
            listener.woken.set()

    @contextmanager
    def listening(self, agent_id: str | None = None) -> Iterator[StreamListener]:
        """Listen to one lifecycle or to all."""
        listener = StreamListener(agent_id)
        mine = self._of_all if agent_id is None else self._of_one.setdefault(agent_id, set())
        mine.add(listener)
        try:
            yield listener
        finally:
            mine.discard(listener)
            if agent_id is not None and not mine and self._of_one.get(agent_id) is mine:
                del self._of_one[agent_id]
