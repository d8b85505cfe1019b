"""Writes what only people read: soon, outside the event loop, and several at once.

Each hand-over to a thread makes the loop wait for the interpreter, just when the next attempt is to
start. It must not be given what an agent reads, or what has to survive a crash.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

GATHERS = 0.02
"""Seconds that writings are collected before they are handed over."""
AGAIN = 1.0
"""Seconds until it is tried again to hand them over, where no thread can be had."""


class BackgroundWriter:
    """The writings of one runner, in their order; call it on one event loop's thread."""

    def __init__(self) -> None:
        self._writings: list[Callable[[], object]] = []
        self._writing: asyncio.Future[None] | None = None
        self._closed = False

    def note(self, write: Callable[[], object]) -> None:
        """Have something written; it must report its faults itself."""
        if self._closed:
            raise RuntimeError("nothing is written any more: the runner has ended")
        if not self._writings and self._writing is None:
            asyncio.get_running_loop().call_later(GATHERS, self._hand_over)
        self._writings.append(write)

    async def aclose(self) -> None:
        """Write what is left; nothing may be noted any more."""
        self._closed = True
        if self._writing is not None:
            await self._writing
        _write(self._writings)

    def _hand_over(self) -> None:
        if self._closed or self._writing is not None:
            return
        loop = asyncio.get_running_loop()
        try:
            self._writing = loop.run_in_executor(None, _write, self._writings)
        except RuntimeError:
            loop.call_later(AGAIN, self._hand_over)
            return
        self._writings = []
        self._writing.add_done_callback(self._written)

    def _written(self, _: object) -> None:
        self._writing = None
        if self._writings:
            self._hand_over()


def _write(writings: Sequence[Callable[[], object]]) -> None:
    for write in writings:
        with contextlib.suppress(Exception):  # a fault of one must not take others along
            write()
