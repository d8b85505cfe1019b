"""What ends the rest of a lifecycle: an instant of its state, a free slot, or what a look finds.

A provider that asks a forge by itself is told what is waited for; all else is looked at here, and
only what is new is emitted.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lifecycle.machine import effects as do
from lifecycle.machine import events as on
from lifecycle.machine.rules.blocks import waits_for_ci
from lifecycle.machine.states import (
    ACTIVE,
    BackingOff,
    Blocked,
    Capturing,
    PrPending,
    Queued,
    Verifying,
    next_instant,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ci.interface import CIWatch
    from lifecycle.clock import Timer
    from lifecycle.machine.effects import Effect
    from lifecycle.machine.events import Event
    from lifecycle.machine.states import State
    from lifecycle.owner.admission import Admission
    from lifecycle.services import SharedServices

LOOK_TOGETHER = 0.05
"""A look may come this share of its interval early."""
LOOK_AT_LEAST_EVERY = 1.0
"""Seconds; a retry interval of zero must not make looking at a wait a busy loop."""


class Wakeups:
    """One timer and one claim to a slot, for one lifecycle."""

    def __init__(
        self,
        shared: SharedServices,
        agent_id: str,
        *,
        emit: Callable[[on.Event], None],
        wake: Callable[[], None],
        admission: Admission,
    ) -> None:
        self._shared = shared
        self._agent_id = agent_id
        self._emit = emit
        self._wake = wake
        self._admission = admission
        self._timer: Timer | None = None
        self._timer_at: float | None = None
        self._granted = False

    def arm(self, state: State, *, draining: bool) -> None:
        """Make the next instant of the state, or a slot, wake the owner."""
        now = self._shared.clock.now()
        slots = self._shared.slots
        instant = next_instant(state)
        if holds_no_place_yet(state) and not draining:
            if instant is not None and instant <= now:
                self._ask(self._grant_retry)
                instant = None
        elif not draining and (
            isinstance(state, BackingOff) or (isinstance(state, Queued) and not state.waiting_on)
        ):
            instant = state.until if isinstance(state, BackingOff) else now
            if instant <= now:
                self._ask(self._grant, self._admission.may)
                instant = None
        elif slots.waiting(self._agent_id):
            slots.give_back(self._agent_id)
        if instant != self._timer_at:
            self._set(instant, state)

    def _ask(self, grant: Callable[[], None], *may: Callable[[], bool]) -> None:
        if not self._granted:  # else it has one, and is about to use it
            self._shared.slots.ask(self._agent_id, grant, *may)

    def admitted(self) -> None:
        """Note that the grant arrived at the owner."""
        self._granted = False

    def rest(self, state: State) -> None:
        """Give the slot back at rest, unless it was granted just now and is still to be used."""
        slots = self._shared.slots
        if not slots.holds(self._agent_id) or self._granted:
            return
        if not isinstance(state, ACTIVE):
            self._shared.accounts.gone(self._agent_id)
            slots.give_back(self._agent_id)
        elif holds_no_place_yet(state):
            # Others may work meanwhile; what this attempt may use stays set aside for it.
            slots.give_back(self._agent_id)

    def close(self) -> None:
        """Wake nobody any more and hold nothing."""
        if self._timer is not None:
            self._timer.cancel()
        self._shared.accounts.gone(self._agent_id)
        self._shared.slots.give_back(self._agent_id)

    def _set(self, instant: float | None, state: State) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at, self._timer = instant, None
        if instant is not None:
            told = not (isinstance(state, (BackingOff, Queued)) or holds_no_place_yet(state))
            self._timer = self._shared.clock.call_at(instant, lambda: self._due(told=told))

    def _due(self, *, told: bool) -> None:
        self._timer, self._timer_at = None, None
        if told:
            self._emit(on.DeadlinePassed(at=self._shared.clock.now()))
        self._wake()

    def _grant(self) -> None:
        self._granted = True
        self._emit(self._admission.ticket())

    def _grant_retry(self) -> None:
        self._granted = True
        self._emit(on.DeadlinePassed(at=self._shared.clock.now()))


def holds_no_place_yet(state: State) -> bool:
    """Tell whether an attempt whose process is gone waits to be captured or judged once more."""
    return isinstance(state, (Capturing, Verifying)) and state.again_at is not None


class WaitPolling:
    """Polling of one lifecycle; hundreds may rest beside it, so nothing is woken without need."""

    def __init__(  # noqa: PLR0913  # all by name
        self,
        shared: SharedServices,
        *,
        state: Callable[[], State],
        ask: Callable[[Effect], Awaitable[Event | None]],
        found: Callable[[Event], None],
        failed: Callable[[BaseException], None],
        watch: Callable[[State], CIWatch | None],
        busy: Callable[[], bool],
    ) -> None:
        """`busy` tells whether an order is out: what that finds is not looked for beside it."""
        self._watch_for = watch
        self._busy = busy
        self._shared = shared
        self._state = state
        self._ask = ask
        self._found = found
        self._failed = failed
        self._watched: CIWatch | None = None
        self._unwatch: Callable[[], None] | None = None
        self._timer: Timer | None = None
        self._look: asyncio.Task[None] | None = None
        self._closed = False

    def arm(self, *, draining: bool) -> None:
        """Poll from time to time while the state is a wait."""
        self._have_watched(None if draining else self._watch_for(self._state()))
        state = self._state()
        ci = self._shared.ci
        looks = ci is not None and ci.looks and self._watched is not None
        asked_after = looks and isinstance(state, PrPending)
        rests = isinstance(state, (Blocked, PrPending)) and not draining and not asked_after
        if not rests or self._busy():
            self._cancel()
        elif self._timer is None and self._look is None:
            pause = max(self._shared.settings().retry_interval, LOOK_AT_LEAST_EVERY)
            # Many wait; those that look at nearly the same time do it in one waking of the loop.
            when = self._shared.clock.now() + pause
            when -= when % (pause * LOOK_TOGETHER)
            self._timer = self._shared.clock.call_at(when, self.now)

    def now(self) -> None:
        """Poll at once."""
        self._cancel()
        order = None if self._busy() else self._order(self._state())
        if order is None:
            self.arm(draining=self._closed)
            return
        self._look = asyncio.get_running_loop().create_task(self._at(order))
        self._look.add_done_callback(self._looked)

    async def aclose(self) -> None:
        """Stop polling."""
        self._closed = True
        self._have_watched(None)
        look = self._look
        self._cancel()
        if look is not None:
            await asyncio.gather(look, return_exceptions=True)

    def _have_watched(self, watch: CIWatch | None) -> None:
        """Tell the provider what is waited for, if that has changed."""
        ci = self._shared.ci
        if ci is None or watch == self._watched:
            return
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None
        self._watched = watch
        if watch is not None:
            self._unwatch = ci.watch(watch)
            for told in self._shared.watched:
                told(watch)

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
        ci = self._shared.ci
        asks_ci = ci is not None and not ci.tells_all and bool(state.head) and waits_for_ci(state)
        return asks_ci or any(name in self._shared.completed for name in state.word.blocked_on)

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
