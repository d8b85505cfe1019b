"""Counts the scheduling turns of the runner for the lifecycles that are paused for some turns.

A turn is one scheduling round: an attempt of any lifecycle begins. Where none does for
`retry_interval` seconds, that counts as a turn, so that pauses end also when all are paused. How
many turns a pause has left is in its record, and what follows is decided by the machine.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lifecycle.machine import events as on
from lifecycle.machine.states import is_held

if TYPE_CHECKING:
    from collections.abc import Callable

    from lifecycle.clock import Timer
    from lifecycle.machine.states import State
    from lifecycle.reporting import Committed
    from lifecycle.services import SharedServices

SHORTEST_WAIT = 0.01
"""Seconds; a `retry_interval` of 0 must not keep the runner busy."""


class TurnPauses:
    """Counts turns; `tell` passes a fact to the owner of a lifecycle."""

    def __init__(self, shared: SharedServices, emit: Callable[[str, on.Event], object]) -> None:
        self.number = 0
        """Turns that passed since this runner began."""
        self._followers: list[Callable[[], None]] = []
        self._shared = shared
        self._emit = emit
        self._waiting: set[str] = set()
        """Lifecycles that this process runs and whose records say that they count turns."""
        self._timer: Timer | None = None
        self._over = False
        shared.observers.append(self._news)

    def follow(self, each: Callable[[], None]) -> Callable[[], None]:
        """Call this with each turn, until the function that is returned is called."""
        self._followers.append(each)
        self._arm()
        return partial(self._followers.remove, each)

    def close(self) -> None:
        """Let no more turns pass."""
        self._over = True
        self._disarm()

    def owned(self, agent_id: str, state: State | None) -> None:
        """Take note that a lifecycle is run here, and how it is."""
        if state is not None and state.tally.pause_turns and is_held(state):
            self._waiting.add(agent_id)
            self._arm()
        else:
            self._waiting.discard(agent_id)

    def left(self, agent_id: str) -> None:
        """Take note that nobody runs it here any more."""
        self._waiting.discard(agent_id)

    def _news(self, news: Committed) -> None:
        fact, state = news.fact, news.record.work
        if isinstance(fact, on.Admitted):
            self._pass()
        if isinstance(fact, on.PersonEvent | on.TurnPassed):
            self.owned(news.agent_id, state)

    def _pass(self) -> None:
        self.number += 1
        for agent_id in tuple(self._waiting):
            self._emit(agent_id, on.TurnPassed(at=self._shared.clock.now()))
        for each in tuple(self._followers):
            each()
        self._disarm()
        self._arm()

    def _arm(self) -> None:
        """Let a turn pass later, if somebody waits for it and none comes before."""
        if self._over or self._timer is not None or not (self._waiting or self._followers):
            return
        clock = self._shared.clock
        wait = max(self._shared.settings().retry_interval, SHORTEST_WAIT)
        self._timer = clock.call_at(clock.now() + wait, self._idle)

    def _idle(self) -> None:
        self._timer = None
        self._pass()

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
