"""Writes what only people read: soon, in a thread of its own, and several at once.

Each hand-over to a thread makes the loop wait for the interpreter, just when the next attempt is to
start. It must not be given what an agent reads, or what has to survive a crash.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

GATHERS = 0.02
"""Seconds that writings are collected before they are handed over."""


class Scribe:
    """The writings of one runner, in their order; call it on one event loop's thread."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "loopwright-scribe")
        self._writings: list[Callable[[], object]] = []
        self._closed = False

    def note(self, write: Callable[[], object]) -> None:
        """Have something written; it must report its faults itself."""
        if self._closed:
            raise RuntimeError("nothing is written any more: the runner has ended")
        if not self._writings:
            asyncio.get_running_loop().call_later(GATHERS, self._hand_over)
        self._writings.append(write)

    async def aclose(self) -> None:
        """Write what is left; nothing may be noted any more."""
        self._closed = True
        self._hand_over()
        await asyncio.to_thread(self._thread.shutdown)

    def _hand_over(self) -> None:
        writings, self._writings = self._writings, []
        for write in writings:  # each by itself: a fault of one must not take others along
            self._thread.submit(write)
