"""Notices what people and other programs asked for in the store, and hands each request on once.

What a request means, and who it concerns, is not known here. The same look
shows whether the store is still that of the repository.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lifecycle.clock import Timer
    from lifecycle.parts import Parts
    from lifecycle.record import Request

LOOK_EVERY = 0.5
"""Seconds between two looks; requests are read only if somebody wrote meanwhile."""
_UNREAD = ("unread", "unread")


class Wishes:
    """The open requests of one repository."""

    def __init__(
        self,
        parts: Parts,
        hand_on: Callable[[Request], Awaitable[bool]],
        lost: Callable[[str], None],
    ) -> None:
        self._parts = parts
        self._lost = lost
        """Called once, when the store that is looked into is not the repository's any more."""
        self._hand_on = hand_on
        """Says whether it took the request; one it cannot take yet is shown to it again."""
        self.handed: set[int] = set()
        """Requests that somebody has in hand already."""
        self._stamps: tuple[object, object] = _UNREAD
        """Of the store, at the latest two looks; a write may hide in the instant of the first."""
        self._timer: Timer | None = None
        self._reading: asyncio.Task[None] | None = None
        self._ended = False

    def listen(self) -> None:
        """Look from now on."""
        self._timer = self._parts.clock.call_at(self._parts.clock.now() + LOOK_EVERY, self._look)

    def end(self) -> None:
        """Look no more once what is being read now is handed on."""
        self._ended = True

    async def aclose(self) -> None:
        """Stop looking; what a person asked for and is under way is carried to its end."""
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
        if self._reading is not None:
            await asyncio.gather(self._reading, return_exceptions=True)

    def _look(self) -> None:
        if gone := self._parts.gone():
            self._lost(gone)
            return
        self._parts.places.serve()  # the limit may have been raised meanwhile
        stamp = self._parts.store.stamp()
        news = self._stamps != (stamp, stamp)
        self._stamps = (stamp, self._stamps[0])
        if not news:
            self.listen()
            return
        self._reading = asyncio.get_running_loop().create_task(self._read())
        self._reading.add_done_callback(self._have_read)

    def _have_read(self, reading: asyncio.Task[None]) -> None:
        if not reading.cancelled() and (problem := reading.exception()) is not None:
            self._parts.report("lifecycle_requests_failed", reason=str(problem))
        if not self._ended:
            self.listen()

    async def _read(self) -> None:
        open_now = await self._parts.store.requests()
        self.handed &= {request.request_id for request in open_now}
        for request in open_now:
            if request.request_id in self.handed:
                continue
            if await self._hand_on(request):
                self.handed.add(request.request_id)
            else:
                self._stamps = _UNREAD
