"""Polls everything that waits on one forge: one timer, one round at a time.

Owns when each key is polled (soon at first, then with growing pauses) and that rounds do not
overlap. What a poll does is up to the round that is passed in.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ci.http.rate_limit import RateBudget

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ci.ports import Cancellable

FIRST = 10.0
GROWTH = 1.5
LONGEST = 120.0
RECONCILE = 600.0
"""Seconds after which everything that waits is polled again, whatever was known of it."""
SPREAD = 0.2
"""Random spread, so that waits that began together are not always polled together."""
TOGETHER = 0.05
"""Keys due within this share of their interval are polled in the same round."""


@dataclass(frozen=True, slots=True)
class Pace:
    """When one key is polled next."""

    interval: float = FIRST
    due: float = 0.0

    def after(self, now: float, chance: float, *, rests: bool = False) -> Pace:
        """Return the pace after a poll without news; `chance` is in [0, 1).

        A resting key is not expected to change; a webhook or a reconciliation would show it.
        """
        wait = (RECONCILE if rests else self.interval) * (1 - SPREAD + 2 * SPREAD * chance)
        return Pace(min(self.interval * GROWTH, LONGEST), now + wait)

    def not_after(self, instant: float | None) -> Pace:
        """Return the pace with the next poll at this instant, if that is sooner."""
        if instant is None or instant >= self.due:
            return self
        return Pace(self.interval, instant)

    def not_before(self, instant: float | None) -> Pace:
        """Return the pace with no poll before this instant."""
        if instant is None or instant <= self.due:
            return self
        return Pace(self.interval, instant)


def fresh(now: float) -> Pace:
    """Return the pace of a new key: polled at once, then soon again."""
    return Pace(FIRST, now)


@dataclass(frozen=True, slots=True)
class PollResult:
    """The result of polling one key."""

    news: bool = False
    """Something changed: poll again soon."""
    rests: bool = False
    """No change is expected."""
    again_at: float | None = None
    """An instant at which a change is expected."""
    not_before: float | None = None
    """No answer is expected before then."""


class PollRound(Protocol):
    """Polls keys; must return a result for each of them."""

    async def __call__(self, keys: Mapping[str, bool]) -> Mapping[str, PollResult]:
        """Poll these; True for those whose cached facts must not be used."""
        ...


class Poller:
    """The single timer of all waits on a forge."""

    def __init__(
        self,
        round_: PollRound,
        *,
        now: Callable[[], float],
        call_at: Callable[[float, Callable[[], None]], Cancellable],
        chance: Callable[[], float],
        budget: Callable[[], RateBudget] = RateBudget,
    ) -> None:
        self._round = round_
        self._now = now
        self._call_at = call_at
        self._chance = chance
        self._budget = budget
        self._held_until = float("-inf")
        self._paces: dict[str, Pace] = {}
        self._uncached: set[str] = set()
        self._soon: set[str] = set()
        self._asked_at: dict[str, float] = {}
        self._timer: Cancellable | None = None
        self._task: asyncio.Task[None] | None = None
        self._through = asyncio.Event()
        self._closed = False

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self._paces)

    def add(self, key: str) -> None:
        """Poll this key from now on, starting at once."""
        self.hurry(key)

    def remove(self, key: str) -> None:
        """Stop polling this key."""
        self._paces.pop(key, None)
        self._asked_at.pop(key, None)
        self._uncached.discard(key)
        self._soon.discard(key)
        if not self._paces:
            self._disarm()

    def hurry(self, key: str) -> None:
        """Poll it now, without using cached facts.

        Where the forge's rate budget is low, not more often than a new key is polled.
        """
        now = self._now()
        pace = fresh(now)
        asked_at = self._asked_at.get(key)
        if asked_at is not None and self._budget().pause(now) > 0:
            pace = pace.not_before(asked_at + FIRST)
        self._paces[key] = pace
        self._uncached.add(key)
        self._arm()

    def soon(self, key: str) -> None:
        """Poll it now, from cached facts, as far as the forge's rate budget allows."""
        if key in self._paces:
            self._paces[key] = self._paces[key].not_after(self._now())
            self._soon.add(key)
            self._arm()

    async def through(self) -> None:
        """Return when everything that is due now has been polled."""
        while not self._closed and (self._task is not None or self._hurried(self._now())):
            await self._through.wait()

    async def aclose(self) -> None:
        """Stop; a poll in progress is cancelled."""
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
        if self._uncached:
            # Urgent keys have a waiting caller; all others share what the budget allows.
            due = min(due, *(self._paces[key].due for key in self._uncached & self._paces.keys()))
        if due <= now:
            self._begin()
        else:
            # A clock that was set back must not delay polls.
            self._timer = self._call_at(min(due, now + RECONCILE), self._begin)

    def _hurried(self, now: float) -> set[str]:
        return {key for key in self._uncached & self._paces.keys() if self._paces[key].due <= now}

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
            # To save budget: one at a time, the longest overdue first.
            due = due[:1]
        keys = {key: key in self._uncached for key in (*due, *hurried)}
        self._uncached -= keys.keys()
        self._soon -= keys.keys()
        self._asked_at.update(dict.fromkeys(keys, now))
        before = self._budget().spent
        answers = await self._round(keys)
        now = self._now()
        budget = self._budget()
        self._held_until = now + budget.pause(now) * (budget.spent - before)
        for key, asked in answers.items():
            if key not in self._paces or key in self._uncached | self._soon:
                continue  # it was removed, or must be polled once more
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
            # Our own defect; waits must still be polled, only not at once.
            asyncio.get_running_loop().call_exception_handler(
                {"message": "asking a forge failed", "exception": problem, "task": task}
            )
            for key in self._paces:
                self._paces[key] = self._paces[key].after(self._now(), self._chance())
        self._through.set()
        self._arm()
