"""What wakes the owner of a resting lifecycle: an instant of its state, or a free place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.machine import events as on
from lifecycle.machine.states import (
    ACTIVE,
    BackingOff,
    Capturing,
    Queued,
    Verifying,
    next_instant,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from lifecycle.admission import Admission
    from lifecycle.clock import Timer
    from lifecycle.machine.states import State
    from lifecycle.parts import Parts


class Alarm:
    """One timer and one claim to a place, for one lifecycle."""

    def __init__(
        self,
        parts: Parts,
        agent_id: str,
        *,
        tell: Callable[[on.Event], None],
        wake: Callable[[], None],
        admission: Admission,
    ) -> None:
        self._parts = parts
        self._agent_id = agent_id
        self._tell = tell
        self._wake = wake
        self._admission = admission
        self._timer: Timer | None = None
        self._timer_at: float | None = None
        self._granted = False

    def arm(self, state: State, *, draining: bool) -> None:
        """See to it that the next instant of the state, or a place, wakes the owner."""
        now = self._parts.clock.now()
        places = self._parts.places
        instant = next_instant(state)
        if holds_no_place_yet(state) and not draining:
            if instant is not None and instant <= now:
                places.ask(self._agent_id, self._grant_retry)
                instant = None
        elif _wants_place(state) and not draining:
            instant = state.until if isinstance(state, BackingOff) else now
            if instant <= now:
                places.ask(self._agent_id, self._grant, self._admission.may)
                instant = None
        elif places.waiting(self._agent_id):
            places.give_back(self._agent_id)
        if instant != self._timer_at:
            self._set(instant, state)

    def admitted(self) -> None:
        """Note that the grant arrived at the owner."""
        self._granted = False

    def rest(self, state: State) -> None:
        """Give the place back at rest, unless it was granted just now and is still to be used."""
        places = self._parts.places
        if not places.holds(self._agent_id) or self._granted:
            return
        if not isinstance(state, ACTIVE):
            self._admission.unused()
            places.give_back(self._agent_id)
        elif holds_no_place_yet(state):
            # Others may work meanwhile; what this attempt may use stays set aside for it.
            places.give_back(self._agent_id)

    def close(self) -> None:
        """Wake nobody any more and hold nothing."""
        if self._timer is not None:
            self._timer.cancel()
        self._admission.unused()
        self._parts.places.give_back(self._agent_id)

    def _set(self, instant: float | None, state: State) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at, self._timer = instant, None
        if instant is not None:
            told = not (isinstance(state, (BackingOff, Queued)) or holds_no_place_yet(state))
            self._timer = self._parts.clock.call_at(instant, lambda: self._due(told=told))

    def _due(self, *, told: bool) -> None:
        self._timer, self._timer_at = None, None
        if told:
            self._tell(on.DeadlinePassed(at=self._parts.clock.now()))
        self._wake()

    def _grant(self) -> None:
        self._granted = True
        self._tell(self._admission.ticket())

    def _grant_retry(self) -> None:
        self._granted = True
        self._tell(on.DeadlinePassed(at=self._parts.clock.now()))


def holds_no_place_yet(state: State) -> bool:
    """Tell whether an attempt whose process is gone waits to be captured or judged once more."""
    return isinstance(state, (Capturing, Verifying)) and state.again_at is not None


def _wants_place(state: State) -> bool:
    return isinstance(state, BackingOff) or (isinstance(state, Queued) and not state.waiting_on)
