"""What a lifecycle's owner has still to hear, in the order it came, and what wakes it.

Owns the waiting. It must not know what a fact means.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lifecycle.masking import masked

if TYPE_CHECKING:
    from lifecycle.machine.events import Event
    from runtime.masking import Masker


@dataclass(frozen=True, slots=True)
class Item:
    """A fact in the inbox and what it settles."""

    event: Event
    effect_id: str = ""
    request_id: int = 0


class Inbox:
    """The facts that wait for one owner."""

    def __init__(self, masker: Masker) -> None:
        self._masker = masker
        self._items: deque[Item] = deque()
        self._news = asyncio.Event()
        self._failure: BaseException | None = None

    def __bool__(self) -> bool:
        return bool(self._items)

    @property
    def first(self) -> Item | None:
        """The next to be taken, which stays."""
        return self._items[0] if self._items else None

    def put(self, event: Event, effect_id: str = "", request_id: int = 0) -> None:
        """Add a fact."""
        self._items.append(Item(masked(event, self._masker), effect_id, request_id))
        self._news.set()

    def take(self) -> Item:
        """Take the next."""
        return self._items.popleft()

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
        if not self._items and self._failure is None:
            await self.woken()

    async def wait_a_moment(self, seconds: float) -> None:
        """Wait for a fact, but not for longer; being woken without one does not end it.

        However late the loop is, it has looked at what is ready before the moment is over.
        """
        over = False

        def ring() -> None:
            nonlocal over
            over = True
            self._news.set()

        timer = asyncio.get_running_loop().call_later(seconds, ring)
        try:
            while not (self._items or self._failure is not None or over):
                await self.woken()
        finally:
            timer.cancel()
