"""Asks after everything that waits on one forge: one timer, one round at a time.

Owns when each thing is asked after (`ci.pace`) and that rounds do not overlap. What asking means,
and what follows from an answer, is the business of who made it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ci.budget import Budget
from ci.pace import FIRST, RECONCILE, Pace, fresh

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ci.interface import Timer

TOGETHER = 0.05
"""What is due within this share of its interval is asked after in the same round."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a question about one thing came to."""

    news: bool = False
    """Something changed: ask again soon."""
    rests: bool = False
    """Nothing about it changes without the round itself noticing."""
    again_at: float | None = None
    """An instant at which something is known to change."""
    not_before: float | None = None
    """Nobody answers until then."""


class Round(Protocol):
    """Asks after things; must answer for each of them."""

    async def __call__(self, keys: Mapping[str, bool]) -> Mapping[str, Asked]:
        """Ask after these; True for those of which nothing that was known may be relied on."""
        ...


class Poller:
    """The one timer of all waits on a forge."""

    def __init__(
        self,
        round_: Round,
        *,
        now: Callable[[], float],
        call_at: Callable[[float, Callable[[], None]], Timer],
        chance: Callable[[], float],
        budget: Callable[[], Budget] = Budget,
    ) -> None:
        self._round = round_
        self._now = now
        self._call_at = call_at
        self._chance = chance
        self._budget = budget
        self._held_until = float("-inf")
        self._paces: dict[str, Pace] = {}
        self._anew: set[str] = set()
        self._asked_at: dict[str, float] = {}
        self._timer: Timer | None = None
        self._task: asyncio.Task[None] | None = None
        self._through = asyncio.Event()
        self._closed = False

    def __len__(self) -> int:
        """Count what is asked after."""
        return len(self._paces)

    def add(self, key: str) -> None:
        """Ask after it from now on, at once."""
        self.hurry(key)

    def remove(self, key: str) -> None:
        """Ask no more."""
        self._paces.pop(key, None)
        self._asked_at.pop(key, None)
        self._anew.discard(key)
        if not self._paces:
            self._disarm()

    def hurry(self, key: str) -> None:
        """Ask after it now, relying on nothing that was known.

        Where the forge's budget is low, not more often than something new is asked after.
        """
        now = self._now()
        pace = fresh(now)
        asked_at = self._asked_at.get(key)
        if asked_at is not None and self._budget().pause(now) > 0:
            pace = pace.not_before(asked_at + FIRST)
        self._paces[key] = pace
        self._anew.add(key)
        self._arm()

    async def through(self) -> None:
        """Return when everything that is due now has been asked after."""
        while not self._closed and (self._task is not None or self._hurried(self._now())):
            await self._through.wait()

    async def aclose(self) -> None:
        """Ask no more; a question under way is broken off."""
        self._closed = True
        self._disarm()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._through.set()

    def _arm(self) -> None:
        self._disarm()
        if self._task is not None or self._closed or not self._paces:
            return
        now = self._now()
        due = max(min(pace.due for pace in self._paces.values()), self._held_until)
        if self._anew:
            # Whoever is hurried is waited for; everybody else shares what the budget allows.
            due = min(due, *(self._paces[key].due for key in self._anew & self._paces.keys()))
        if due <= now:
            self._begin()
        else:
            # A clock that was set back must not hold anything up.
            self._timer = self._call_at(min(due, now + RECONCILE), self._begin)

    def _hurried(self, now: float) -> set[str]:
        return {key for key in self._anew & self._paces.keys() if self._paces[key].due <= now}

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _begin(self) -> None:
        if self._task is None and not self._closed:
            self._through.clear()
            self._task = asyncio.get_running_loop().create_task(self._ask(), name="forge poll")
            self._task.add_done_callback(self._ended)

    async def _ask(self) -> None:
        now = self._now()
        hurried = self._hurried(now)
        due = sorted(
            (key for key, pace in self._paces.items() if self._is_due(key, pace, now)),
            key=lambda key: self._paces[key].due,
        )
        if now < self._held_until:
            due = []
        elif self._budget().pause(now) > 0:
            # So that what is left lasts: one at a time, whoever waits longest first.
            due = due[:1]
        keys = {key: key in self._anew for key in (*due, *hurried)}
        self._anew -= keys.keys()
        self._asked_at.update(dict.fromkeys(keys, now))
        before = self._budget().spent
        answers = await self._round(keys)
        now = self._now()
        budget = self._budget()
        self._held_until = now + budget.pause(now) * (budget.spent - before)
        for key, asked in answers.items():
            if key not in self._paces or key in self._anew:
                continue  # it went, or somebody wants it asked after once more
            pace = fresh(now) if asked.news else self._paces[key]
            self._paces[key] = (
                pace.after(now, self._chance(), rests=asked.rests and not asked.news)
                .not_after(asked.again_at)
                .not_before(asked.not_before)
            )

    def _is_due(self, key: str, pace: Pace, now: float) -> bool:
        set_back = self._asked_at.get(key, now) > now
        return set_back or pace.due <= now + pace.interval * TOGETHER

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled() and (problem := task.exception()) is not None:
            # A defect of ours; what waits must be asked after all the same, only not at once.
            asyncio.get_running_loop().call_exception_handler(
                {"message": "asking a forge failed", "exception": problem, "task": task}
            )
            for key in self._paces:
                self._paces[key] = self._paces[key].after(self._now(), self._chance())
        self._through.set()
        self._arm()
