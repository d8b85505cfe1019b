"""Notices what people and other programs asked for in the store, and hands each request on once.

One inbox for all of it: what is asked of a lifecycle goes to the engine, what is asked of the
runner itself (`lifecycle.record`) to its server. What a request means is not known here. The
same look shows whether the store is still that of the repository.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from lifecycle.machine.runner_orders import RunnerOrder

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lifecycle.clock import Timer
    from lifecycle.record import OperatorRequest
    from lifecycle.services import SharedServices

    Server = Callable[[Any], Awaitable[tuple[str, str]]]
    """Carries an order out; returns why it could not be, or nothing, and the result."""

LOOK_EVERY = 0.5
"""Seconds between two looks; requests are read only if somebody wrote meanwhile."""
_UNREAD = ("unread", "unread")


class RequestPoller:
    """The open requests of one repository."""

    def __init__(
        self,
        shared: SharedServices,
        hand_on: Callable[[OperatorRequest], Awaitable[bool]],
        lost: Callable[[str], None],
    ) -> None:
        self._shared = shared
        self._lost = lost
        """Called once, when the store that is looked into is not the repository's any more."""
        self._hand_on = hand_on
        """Says whether it took the request; one it cannot take yet is shown to it again."""
        self.handed: set[int] = set()
        """Requests that somebody has in hand already."""
        self._servers: dict[type[RunnerOrder], Server] = {}
        self._serving: set[asyncio.Task[None]] = set()
        self._stamps: tuple[object, object] = _UNREAD
        """Of the store, at the latest two looks; a write may hide in the instant of the first."""
        self._timer: Timer | None = None
        self._reading: asyncio.Task[None] | None = None
        self._hurried = False
        """Somebody asked while open requests were being read."""
        self._ended = False

    def serve(self, kind: type[RunnerOrder], server: Server) -> None:
        """Have orders of a kind carried out by this, those that wait already as well."""
        self._servers[kind] = server
        self._stamps = _UNREAD

    def listen(self) -> None:
        """Look from now on."""
        self._timer = self._shared.clock.call_at(self._shared.clock.now() + LOOK_EVERY, self._look)

    def hurry(self) -> None:
        """Look now: somebody in this process has just asked for something."""
        if self._timer is None or self._ended:
            return
        self._stamps = _UNREAD
        if self._reading is None or self._reading.done():
            self._timer.cancel()
            self._look()
        else:
            self._hurried = True

    def end(self) -> None:
        """Look no more once what is being read now is handed on."""
        self._ended = True

    async def aclose(self) -> None:
        """Stop looking; what is asked of a lifecycle and is under way is carried to its end."""
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
        if self._reading is not None:
            await asyncio.gather(self._reading, return_exceptions=True)
        await self.break_off()

    async def break_off(self) -> None:
        """Serve no order any more; one that is cut short is for the next runner."""
        self._servers.clear()
        for serving in self._serving:
            serving.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def _look(self) -> None:
        if gone := self._shared.gone():
            self._lost(gone)
            return
        self._shared.slots.serve()  # the limit may have been raised meanwhile
        stamp = self._shared.store.change_marker()
        news = self._stamps != (stamp, stamp)
        self._stamps = (stamp, self._stamps[0])
        if not news:
            self.listen()
            return
        self._reading = asyncio.get_running_loop().create_task(self._read())
        self._reading.add_done_callback(self._have_read)

    def _have_read(self, reading: asyncio.Task[None]) -> None:
        if not reading.cancelled() and (problem := reading.exception()) is not None:
            self._shared.report("lifecycle_requests_failed", reason=str(problem))
        if self._ended:
            return
        self.listen()
        if self._hurried:
            self._hurried = False
            self.hurry()

    async def _read(self) -> None:
        open_now = await self._shared.store.requests()
        self.handed &= {request.request_id for request in open_now}
        for request in open_now:
            if request.request_id in self.handed:
                continue
            if isinstance(request.event, RunnerOrder):
                self._take_order(request, request.event)
            elif await self._hand_on(request):
                self.handed.add(request.request_id)
            else:
                self._stamps = _UNREAD

    # --- what the runner itself is asked for --------------------------------------------------

    def _take_order(self, request: OperatorRequest, order: RunnerOrder) -> None:
        """Have an order served; one that nobody serves here stays open."""
        server = self._servers.get(type(order))
        if server is None:
            return
        self.handed.add(request.request_id)
        task = asyncio.get_running_loop().create_task(
            self._serve(request.request_id, order, server), name=f"serving {order.verb}"
        )
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, request_id: int, order: RunnerOrder, server: Server) -> None:
        store, mask = self._shared.store, self._shared.masker.mask
        try:
            await store.begin_request(request_id)
            refusal, text = await server(order)
            await store.answer_request(request_id, mask(refusal), mask(text))
        except Exception as problem:  # noqa: BLE001  # it stays open for the next runner
            reason = mask(f"{order.verb}: {problem}")
            self._shared.report("runner_order_failed", subject=order.subject, reason=reason)
