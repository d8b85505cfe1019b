"""The facts that a lifecycle's owner has not taken yet, in order, and what wakes it.

Owns the waiting. It must not know what a fact means.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lifecycle.mask_values import masked

if TYPE_CHECKING:
    from lifecycle.machine.events import Event
    from runtime.masking.masker import Masker


@dataclass(frozen=True, slots=True)
class Item:
    """A fact in the inbox and what it settles."""

    event: Event
    effect_id: str = ""
    request_id: int = 0


class OwnerInbox:
    """The facts that wait for one owner."""

    def __init__(self, masker: Masker) -> None:
        self._masker = masker
        self._items: deque[Item] = deque()
        self._asked: dict[int, asyncio.Event] = {}
        """Requests that were put here, and whether the owner is done with them."""
        self._in_hand = 0
        """The request that the owner took last."""
        self._news = asyncio.Event()
        self._failure: BaseException | None = None

    def __bool__(self) -> bool:
        return bool(self._items)

    def put(self, event: Event, effect_id: str = "", request_id: int = 0) -> None:
        """Add a fact; what was put here under a request's id is not added again."""
        if request_id:
            if request_id in self._asked:
                return
            self._asked[request_id] = asyncio.Event()
        self._items.append(Item(masked(event, self._masker), effect_id, request_id))
        self._news.set()

    def take(self) -> Item:
        """Take the next; the one before is dealt with."""
        self._deal()
        item = self._items.popleft()
        self._in_hand = item.request_id
        return item

    async def dealt_with(self, request_id: int) -> None:
        """Wait until the owner is done with a request, or for good with everything."""
        if (over := self._asked.get(request_id)) is not None:
            await over.wait()

    def close(self) -> None:
        """Say that the owner takes nothing any more."""
        for over in self._asked.values():
            over.set()

    def _deal(self) -> None:
        if self._in_hand:
            self._asked[self._in_hand].set()
            self._in_hand = 0

    def requests(self) -> set[int]:
        """Return the requests among what was not taken."""
        return {item.request_id for item in self._items if item.request_id}

    def wake(self) -> None:
        """Have the owner look around, also without a fact."""
        self._news.set()

    def fail(self, problem: BaseException | None) -> None:
        """Wake the owner; with a defect, `check` raises it from now on."""
        if problem is not None:
            self._failure = problem
        self._news.set()

    def check(self) -> None:
        """Raise the defect that was told, if any."""
        if self._failure is not None:
            raise self._failure

    async def woken(self) -> None:
        """Wait until somebody wakes the owner, whatever is in here already."""
        self._news.clear()
        await self._news.wait()

    async def wait(self) -> None:
        """Wait until there is something to take, or to look around for."""
        self._deal()
        if not self._items and self._failure is None:
            await self.woken()
