"""Who may have a live agent now: a fair queue for a limited number of slots."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def _always() -> bool:
    return True


class Slots:
    """Hands out slots in the order they were asked for. The limit may change at any time."""

    def __init__(self, limit: Callable[[], int]) -> None:
        self._limit = limit
        self._held: set[str] = set()
        self._queue: OrderedDict[str, tuple[Callable[[], None], Callable[[], bool]]] = OrderedDict()

    def ask(self, who: str, granted: Callable[[], None], may: Callable[[], bool] = _always) -> None:
        """Call `granted` once there is a slot and it may be used; a second call replaces this."""
        if who in self._held and may():
            granted()
            return
        self._held.discard(who)
        self._queue[who] = granted, may
        self.serve()

    def give_back(self, who: str) -> None:
        """Return a slot, or leave the queue; harmless if it had neither."""
        self._queue.pop(who, None)
        if who in self._held:
            self._held.discard(who)
            self.serve()

    def holds(self, who: str) -> bool:
        """Tell whether it has a slot."""
        return who in self._held

    def waiting(self, who: str) -> bool:
        """Tell whether it is in the queue."""
        return who in self._queue

    def serve(self) -> None:
        """Hand out what is free; call it when the limit grew, or more may be used."""
        for who, (granted, may) in tuple(self._queue.items()):
            if len(self._held) >= self._limit():
                return
            if who in self._queue and may():
                del self._queue[who]
                self._held.add(who)
                granted()
