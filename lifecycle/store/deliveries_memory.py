"""Deliveries that are gone with their process."""

from __future__ import annotations

from itertools import count, islice
from typing import TYPE_CHECKING

from ci.inbox import BATCH_BYTES, DeliveryState
from lifecycle.store.deliveries_rows import delivery_row, key_span, row_delivery, settled, up_to
from lifecycle.store.rows import check_count, check_limit, storable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from ci.inbox import Delivery, Hint


class MemoryDeliveries:
    """Keeps deliveries in the order they came; `check` refuses once the store is closed."""

    def __init__(self, check: Callable[[], None]) -> None:
        self._check = check
        self._cursors = count(1)
        self._kept: dict[str, tuple[int, Delivery]] = {}

    async def add(self, delivery: Delivery) -> bool:
        """Keep it; False, and nothing changed, if one of this key is known already."""
        self._check()
        stored = row_delivery((0, *delivery_row(delivery)))
        if stored.key in self._kept:
            return False
        self._kept[stored.key] = (next(self._cursors), stored)
        return True

    async def waiting(
        self, *, limit: int = 100, without: Collection[str] = (), most_bytes: int = BATCH_BYTES
    ) -> tuple[Delivery, ...]:
        """Return what was received and not worked on yet, the oldest first."""
        check_count(limit)
        new = (each for each in self._in(DeliveryState.RECEIVED) if each.key not in without)
        return tuple(islice(up_to(most_bytes, new), limit))

    async def unmatched(self, *, limit: int = 1000) -> tuple[Delivery, ...]:
        """Return what nothing waited for yet, the oldest first, without bodies."""
        check_count(limit)
        return tuple(_bare(each) for each in self._in(DeliveryState.UNMATCHED))[:limit]

    def _in(self, state: DeliveryState) -> Iterator[Delivery]:
        self._check()
        return (each for _, each in self._kept.values() if each.state is state)

    async def settle(
        self,
        keys: Sequence[str],
        state: DeliveryState,
        outcome: str,
        *,
        at: float,
        hint: Hint | None = None,
    ) -> None:
        """Note what became of them; the hint is kept for a later match."""
        self._check()
        for key in map(storable, keys):
            if key in self._kept:
                cursor, found = self._kept[key]
                changes = {
                    "state": state,
                    "outcome": storable(outcome),
                    "settled_at": settled(state, at),
                    "hint": hint or found.hint,
                }
                self._kept[key] = (cursor, found.model_copy(update=changes))

    async def get(self, key: str) -> Delivery | None:
        """Return one, whole."""
        self._check()
        _, found = self._kept.get(storable(key), (0, None))
        return found

    async def list(
        self, *, state: DeliveryState | None = None, provider: str | None = None,
        before: int | None = None, limit: int = 50,
    ) -> tuple[tuple[int, Delivery], ...]:  # fmt: skip
        """Return a page, the newest first, each with its cursor and without its body."""
        self._check()
        check_limit(limit)
        found = [
            (cursor, _bare(each))
            for cursor, each in reversed(self._kept.values())
            if (state is None or each.state is state)
            and (provider is None or each.provider == provider)
            and (before is None or cursor < before)
        ]
        return tuple(found[:limit])

    async def keys(self, start: str, *, limit: int = 10) -> tuple[str, ...]:
        """Return keys that begin with a text."""
        self._check()
        check_count(limit)
        first, after = key_span(start)
        return tuple(sorted(key for key in self._kept if first <= key < after)[:limit])

    async def prune(self, before: float) -> int:
        """Forget what was received before this instant and is worked on; returns how many."""
        self._check()
        gone = [
            key
            for key, (_, each) in self._kept.items()
            if each.received_at < before and each.state is not DeliveryState.RECEIVED
        ]
        for key in gone:
            del self._kept[key]
        return len(gone)


def _bare(delivery: Delivery) -> Delivery:
    return delivery.model_copy(update={"body": b""})
