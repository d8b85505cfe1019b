"""Looks again and again at what a parked lifecycle waits for, and leaves a trace only of news.

A provider that asks a forge by itself is told what is waited for; all else is looked at here.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lifecycle.machine import effects as do
from lifecycle.machine.blocks import waits_for_ci
from lifecycle.machine.states import Blocked, PrPending

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ci.interface import Watch
    from lifecycle.clock import Timer
    from lifecycle.machine.effects import Effect
    from lifecycle.machine.events import Event
    from lifecycle.machine.states import State
    from lifecycle.parts import Parts

LOOK_TOGETHER = 0.05
"""A look may come this share of its interval early."""
LOOK_AT_LEAST_EVERY = 1.0
"""Seconds; a retry interval of zero must not make looking at a wait a busy loop."""


class Looks:
    """The looks of one lifecycle; hundreds may rest beside it, so nothing is woken for nothing."""

    def __init__(  # noqa: PLR0913  # all by name
        self,
        parts: Parts,
        *,
        state: Callable[[], State],
        ask: Callable[[Effect], Awaitable[Event | None]],
        found: Callable[[Event], None],
        failed: Callable[[BaseException], None],
        watch: Callable[[State], Watch | None],
    ) -> None:
        self._watch_for = watch
        self._parts = parts
        self._state = state
        self._ask = ask
        self._found = found
        self._failed = failed
        self._watched: Watch | None = None
        self._unwatch: Callable[[], None] | None = None
        self._timer: Timer | None = None
        self._look: asyncio.Task[None] | None = None
        self._closed = False

    def arm(self, *, draining: bool) -> None:
        """Look from time to time while the state is a wait."""
        self._have_watched(None if draining else self._watch_for(self._state()))
        state = self._state()
        asked_after = self._watched is not None and isinstance(state, PrPending)
        rests = isinstance(state, (Blocked, PrPending)) and not draining and not asked_after
        if not rests:
            self._cancel()
        elif self._timer is None and self._look is None:
            pause = max(self._parts.settings().retry_interval, LOOK_AT_LEAST_EVERY)
            # Many wait; those that look at nearly the same time do it in one waking of the loop.
            when = self._parts.clock.now() + pause
            when -= when % (pause * LOOK_TOGETHER)
            self._timer = self._parts.clock.call_at(when, self.now)

    def now(self) -> None:
        """Look at once."""
        self._cancel()
        order = self._order(self._state())
        if order is None:
            self.arm(draining=self._closed)
            return
        self._look = asyncio.get_running_loop().create_task(self._at(order))
        self._look.add_done_callback(self._looked)

    async def aclose(self) -> None:
        """Look no more."""
        self._closed = True
        self._have_watched(None)
        look = self._look
        self._cancel()
        if look is not None:
            await asyncio.gather(look, return_exceptions=True)

    def _have_watched(self, watch: Watch | None) -> None:
        """Tell the provider what is waited for, if it asks by itself and that has changed."""
        ci = self._parts.ci
        if ci is None or not ci.looks or watch == self._watched:
            return
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None
        self._watched = watch
        if watch is not None:
            self._unwatch = ci.watch(watch)
            self._parts.appeared(watch)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._look is not None:
            # What it would find is about a wait that is over.
            self._look.cancel()
            self._look = None

    def _order(self, state: State) -> Effect | None:
        match state:
            case Blocked(word=word, head=head) if self._may_be_unblocked(state):
                return do.LookAtBlockers(blocked_on=word.blocked_on, head=head)
            case PrPending(number=number) if number is not None:
                return do.LookAtPullRequest(number=number)
            case PrPending(url=url, word=word):
                return do.OpenPullRequest(url=url, summary=word.summary)
            case _:
                return None

    def _may_be_unblocked(self, state: Blocked) -> bool:
        """Tell without asking anybody whether a look could find news."""
        ci = self._parts.ci
        asks_ci = ci is not None and not ci.tells_all and bool(state.head) and waits_for_ci(state)
        return asks_ci or any(name in self._parts.completed for name in state.word.blocked_on)

    async def _at(self, order: Effect) -> None:
        event = await self._ask(order)
        if event is not None:
            self._found(event)

    def _looked(self, look: asyncio.Task[None]) -> None:
        if look is not self._look:
            return
        self._look = None
        if not look.cancelled() and (problem := look.exception()) is not None:
            self._failed(problem)
        elif not self._closed:
            self.arm(draining=False)
