"""Works on stored deliveries: has the provider look at what each hints at, and notes what it woke.

Owns when a delivery is worked on, again and again until that is through. A delivery is a hint and
never the truth, so working on one twice is harmless and losing one costs time only. Must not know
any forge's wording (`ci.hooks`) nor what a look finds.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol, Self, runtime_checkable

from ci.dispatch_reading import Reading, read
from ci.errors import ForgeError
from ci.events import clean_line
from ci.inbox import KEPT_FOR, DeliveryState, Hint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ci.inbox import Deliveries, Delivery
    from ci.interface import CIProvider, Watch

BATCH = 100
AT_ONCE = 8
"""Questions that run at the same time, so that one forge that hangs does not hold up the others."""
UNMATCHED_KEPT = 5_000
"""Hints held ready for a wait that appears; older ones stay in the inbox only."""
LOOK_AGAIN = 30.0
"""Seconds after which the inbox is looked at without having been woken."""
A_LITTLE = 0.05
DAY = 86_400.0


@runtime_checkable
class TakesReports(Protocol):
    """A provider that learns from what a delivery says, not only from asking."""

    async def report(self, delivery: Delivery) -> bool:
        """Keep what it says, durably; False if it is no report. ValueError says what is wrong."""
        ...


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds before something that failed is tried again."""

    first: float = 1.0
    longest: float = 300.0

    def after(self, failures: int, *, wanted: float = 0.0) -> float:
        """Return the next pause; `wanted` is what the other side asked for."""
        grown = self.first * 2.0 ** min(failures - 1, 30)
        return min(self.longest, max(grown, wanted))


@dataclass(slots=True)
class _Question:
    """One hint, and the deliveries that give it."""

    keys: list[str] = field(default_factory=list)
    task: asyncio.Task[None] | None = None


class Dispatcher:
    """Works while it is entered; `wake` it when something was received."""

    def __init__(  # noqa: PLR0913  # all by name but the two it works between
        self,
        deliveries: Deliveries,
        provider: CIProvider,
        *,
        repos: Callable[[str], str],
        now: Callable[[], float],
        report: Callable[[str], None],
        patience: Patience | None = None,
    ) -> None:
        self._deliveries = deliveries
        self._provider = provider
        self._repos = repos
        self._now = now
        self._report = report
        self._patience = patience or Patience()
        self._woken = asyncio.Event()
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._busy: set[str] = set()
        self._questions: dict[Reading, _Question] = {}
        self._failures: dict[str, int] = {}
        """How often what a delivery says could not be kept."""
        self._pauses: set[asyncio.Task[None]] = set()
        self._unmatched: dict[str, Hint] | None = None
        self._prune_at = 0.0
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run(), name="dispatch of deliveries")
        return self

    async def __aexit__(self, *_: object) -> None:
        asking = (each.task for each in self._questions.values())
        tasks = [self._task, *asking, *self._pauses]
        running = [task for task in tasks if task is not None]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def wake(self) -> None:
        """Look at the inbox now."""
        self._woken.set()

    async def appeared(self, watch: Watch) -> tuple[str, ...]:
        """Note which deliveries came before somebody waited for them; returns their keys.

        Nothing else is to be done for them: who begins to wait asks the provider at once.
        """
        try:
            inbox = await self._inbox()
            keys = tuple(
                key
                for key, hint in inbox.items()
                if hint.concerns(branch=watch.branch, sha=watch.sha, number=watch.number)
            )
            if keys:
                outcome = f"came before {watch.key} waited for it, which then looked by itself"
                await self._settle(keys, DeliveryState.MATCHED, outcome)
        except Exception as problem:  # noqa: BLE001  # a wait must not fail for a note about the past
            self._report(f"deliveries could not be matched with {watch.key}: {_told(problem)}")
            return ()
        for key in keys:
            inbox.pop(key, None)
        return keys

    # --- the inbox ----------------------------------------------------------------------------

    async def _run(self) -> None:
        failures = 0
        while True:
            self._woken.clear()
            try:
                await self._inbox()
                await self._prune()
                new = await self._round()
                failures = 0
            except Exception as problem:  # noqa: BLE001  # deliveries are worked on whatever goes wrong once
                failures += 1
                pause = self._patience.after(failures)
                self._report(f"deliveries wait for {pause:g} s: {_told(problem)}")
                await asyncio.sleep(pause)
                continue
            if new:
                await self._through(new)
            else:
                with contextlib.suppress(TimeoutError):
                    # Not wait_for: before Python 3.12 it may lose a cancellation.
                    async with asyncio.timeout(LOOK_AGAIN):
                        await self._woken.wait()

    async def _inbox(self) -> dict[str, Hint]:
        if self._unmatched is None:
            kept = await self._deliveries.unmatched(limit=UNMATCHED_KEPT)
            self._unmatched = {each.key: each.hint for each in kept if each.hint is not None}
        return self._unmatched

    async def _prune(self) -> None:
        now = self._now()
        if now >= self._prune_at:
            await self._deliveries.prune(now - KEPT_FOR)
            self._prune_at = now + DAY

    async def _through(self, keys: set[str]) -> None:
        """Wait a little, so that the next look finds few that are still being worked on."""
        tasks = [
            each.task
            for each in self._questions.values()
            if each.task is not None and not keys.isdisjoint(each.keys)
        ]
        if tasks:
            await asyncio.wait(tasks, timeout=A_LITTLE)

    async def _round(self) -> set[str]:
        """Begin to work on what is new, and return its keys."""
        new = await self._deliveries.waiting(limit=BATCH, without=frozenset(self._busy))
        settled: dict[tuple[DeliveryState, str], list[str]] = {}
        for delivery in new:
            try:
                reading = await self._read(delivery)
            except Exception as problem:  # noqa: BLE001  # the others must not wait for this one
                self._put_back(delivery.key, problem)
                continue
            if reading.hint is None:
                settled.setdefault((reading.state, reading.outcome), []).append(delivery.key)
            else:
                self._ask_about(reading, delivery.key)
        for (state, outcome), keys in settled.items():
            await self._settle(keys, state, outcome)
        return {each.key for each in new}

    async def _read(self, delivery: Delivery) -> Reading:
        try:
            reading = read(delivery, self._repos(delivery.provider))
            if (
                reading.hint is not None
                and not reading.elsewhere
                and isinstance(self._provider, TakesReports)
                and await self._provider.report(delivery)
            ):
                reading = replace(reading, learned=True)
        except ValueError as fault:
            return Reading(state=DeliveryState.BROKEN, outcome=clean_line(str(fault)))
        self._failures.pop(delivery.key, None)
        return reading

    def _put_back(self, key: str, problem: Exception) -> None:
        """Work on it later; until then it counts as being worked on."""
        self._failures[key] = self._failures.get(key, 0) + 1
        pause = self._patience.after(self._failures[key], wanted=self._wanted(problem))
        self._report(f"{key} waits for {pause:g} s: {_told(problem)}")
        self._busy.add(key)
        task = asyncio.create_task(self._pause(key, problem, pause))
        self._pauses.add(task)
        task.add_done_callback(self._pauses.discard)

    async def _pause(self, key: str, problem: Exception, pause: float) -> None:
        await self._put_off((key,), problem)
        await asyncio.sleep(pause)
        self._busy.discard(key)
        self.wake()

    # --- questions ----------------------------------------------------------------------------

    def _ask_about(self, reading: Reading, key: str) -> None:
        self._busy.add(key)
        question = self._questions.setdefault(reading, _Question())
        question.keys.append(key)
        if question.task is None:
            question.task = asyncio.create_task(self._ask(reading, question))

    async def _ask(self, reading: Reading, question: _Question) -> None:
        failures = 0
        while question.keys:
            keys, question.keys = tuple(question.keys), []
            try:
                await self._answer(reading, keys)
                failures = 0
            except Exception as problem:  # noqa: BLE001  # whatever went wrong: they wait, and are not lost
                failures += 1
                question.keys[:0] = keys
                pause = self._patience.after(failures, wanted=self._wanted(problem))
                self._report(f"{keys[0]} waits for {pause:g} s: {_told(problem)}")
                await self._put_off(keys, problem)
                await asyncio.sleep(pause)
        del self._questions[reading]
        # There may be more than was handed out while these were counted in.
        self.wake()

    async def _answer(self, reading: Reading, keys: tuple[str, ...]) -> None:
        hint = reading.hint or Hint()
        async with self._slots:
            woken = await self._provider.take(hint)
        if woken:
            named = f"woke {', '.join(woken)}"
            note = f"{named}; it names {reading.elsewhere}, but the commit is ours"
            await self._settle(keys, DeliveryState.MATCHED, note if reading.elsewhere else named)
        elif reading.learned:
            # Whoever waited for it has been told already, and may wait no more.
            outcome = f"kept as what CI says of {_what(hint)}"
            await self._settle(keys, DeliveryState.MATCHED, outcome)
        elif reading.elsewhere:
            await self._settle(keys, DeliveryState.IGNORED, f"about {reading.elsewhere}, not ours")
        else:
            outcome = f"nobody waits for {_what(hint)} yet"
            await self._settle(keys, DeliveryState.UNMATCHED, outcome, hint)
            await self._remember(keys, hint)
        self._busy.difference_update(keys)

    async def _remember(self, keys: Iterable[str], hint: Hint) -> None:
        inbox = await self._inbox()
        inbox.update(dict.fromkeys(keys, hint))
        while len(inbox) > UNMATCHED_KEPT:
            del inbox[next(iter(inbox))]

    async def _put_off(self, keys: tuple[str, ...], problem: Exception) -> None:
        # For people who look; the store may be the very thing that fails.
        with contextlib.suppress(Exception):
            await self._settle(keys, DeliveryState.RECEIVED, f"to be tried again: {_told(problem)}")

    def _wanted(self, problem: Exception) -> float:
        at = problem.retry_at if isinstance(problem, ForgeError) else None
        return 0.0 if at is None else at - self._now()

    async def _settle(
        self, keys: Iterable[str], state: DeliveryState, outcome: str, hint: Hint | None = None
    ) -> None:
        await self._deliveries.settle(tuple(keys), state, outcome[:500], at=self._now(), hint=hint)


def _what(hint: Hint) -> str:
    named = [
        f"branch {hint.branch}" if hint.branch else "",
        f"commit {hint.sha[:12]}" if hint.sha else "",
        *(f"pull request {number}" for number in hint.numbers[:5]),
    ]
    return " or ".join(filter(None, named)) or "what it is about"


def _told(problem: Exception) -> str:
    return clean_line(str(problem)) or type(problem).__name__
