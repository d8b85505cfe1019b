"""Processes stored deliveries: the provider checks what each hints at; the outcome is recorded.

Owns when a delivery is processed, with retries until that succeeds. A delivery is only a hint, so
processing one twice is harmless and losing one costs time only. Must not know any forge's wording
(the `webhooks` module of its package) nor what a check finds.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol, Self, runtime_checkable

from ci.errors import ForgeError
from ci.events import clean_line
from ci.forge_registry import SENDERS, webhooks_of
from ci.webhook_delivery import IGNORED_KEPT_FOR, KEPT_FOR, DeliveryState, Hint, document

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from ci.interface import CIProvider, CIWatch
    from ci.webhook_delivery import Deliveries, Delivery

BATCH = 100
AT_ONCE = 8
"""Concurrent questions, so that one forge that hangs does not block the others."""
UNMATCHED_KEPT = 5_000
"""Hints kept in memory for later waits; older ones stay in the store only."""
LOOK_AGAIN = 30.0
"""Seconds after which the inbox is read without a wake-up."""
A_LITTLE = 0.05
DAY = 86_400.0


@runtime_checkable
class TakesReports(Protocol):
    """A provider that uses the content of deliveries, not only its own requests."""

    async def report(self, delivery: Delivery) -> bool:
        """Store its content; False if it is not a report, ValueError if it is not valid."""
        ...


@dataclass(frozen=True, slots=True)
class Backoff:
    """The pause before a retry, in seconds; it grows with each failure."""

    first: float = 1.0
    longest: float = 300.0

    def after(self, failures: int, *, wanted: float = 0.0) -> float:
        """Return the next pause; `wanted` is the minimum that the other side asked for."""
        grown = self.first * 2.0 ** min(failures - 1, 30)
        return min(self.longest, max(grown, wanted))


@dataclass(frozen=True, slots=True)
class DeliveryTopic:
    """What a delivery is about, or why it is ignored."""

    hint: Hint | None = None
    elsewhere: str = ""
    """The other repository that it names, if any."""
    learned: bool = False
    """A provider has stored its content already."""
    state: DeliveryState = DeliveryState.IGNORED
    outcome: str = ""


@dataclass(slots=True)
class _Question:
    """One hint, and the deliveries that contain it."""

    keys: list[str] = field(default_factory=list)
    task: asyncio.Task[None] | None = None


class DeliveryDispatcher:
    """Runs while it is entered; call `wake` when something was received."""

    def __init__(  # noqa: PLR0913  # all by name but the first two
        self,
        deliveries: Deliveries,
        provider: CIProvider,
        *,
        ours: Callable[[str, str], Awaitable[bool]],
        now: Callable[[], float],
        report: Callable[[str], None],
        backoff: Backoff | None = None,
    ) -> None:
        """`ours` tells whether the repository that a sender names (or none) is ours."""
        self._deliveries = deliveries
        self._provider = provider
        self._ours = ours
        self._now = now
        self._report = report
        self._backoff = backoff or Backoff()
        self._woken = asyncio.Event()
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._busy: set[str] = set()
        self._questions: dict[DeliveryTopic, _Question] = {}
        self._failures: dict[str, int] = {}
        """Failed attempts to store the content of a delivery."""
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
        """Read the inbox now."""
        self._woken.set()

    async def appeared(self, watch: CIWatch) -> tuple[str, ...]:
        """Record which deliveries arrived before this wait began; return their keys.

        Nothing else is needed: a new wait asks the provider at once.
        """
        try:
            inbox = await self._inbox()
            keys = tuple(
                key
                for key, hint in inbox.items()
                if hint.concerns(branch=watch.branch, sha=watch.sha, number=watch.number)
            )
            if keys:
                outcome = f"arrived before {watch.key} waited for it, which then asked by itself"
                await self._settle(keys, DeliveryState.MATCHED, outcome)
        except Exception as problem:  # noqa: BLE001  # a wait must not fail because of a record about the past
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
            except Exception as problem:  # noqa: BLE001  # one failure must not end the task
                failures += 1
                pause = self._backoff.after(failures)
                self._report(f"deliveries are retried in {pause:g} s: {_told(problem)}")
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
            await self._deliveries.prune(now - KEPT_FOR, ignored_before=now - IGNORED_KEPT_FOR)
            self._prune_at = now + DAY

    async def _through(self, keys: set[str]) -> None:
        """Wait briefly, so that few deliveries are still in progress at the next read."""
        tasks = [
            each.task
            for each in self._questions.values()
            if each.task is not None and not keys.isdisjoint(each.keys)
        ]
        if tasks:
            await asyncio.wait(tasks, timeout=A_LITTLE)

    async def _round(self) -> set[str]:
        """Start processing new deliveries, and return their keys."""
        new = await self._deliveries.waiting(limit=BATCH, without=frozenset(self._busy))
        settled: dict[tuple[DeliveryState, str], list[str]] = {}
        for delivery in new:
            try:
                topic = await self._read(delivery)
            except Exception as problem:  # noqa: BLE001  # the others must not wait for this one
                self._put_back(delivery.key, problem)
                continue
            if topic.hint is None:
                settled.setdefault((topic.state, topic.outcome), []).append(delivery.key)
            else:
                self._ask_about(topic, delivery.key)
        for (state, outcome), keys in settled.items():
            await self._settle(keys, state, outcome)
        return {each.key for each in new}

    async def _read(self, delivery: Delivery) -> DeliveryTopic:
        try:
            topic = _topic_of(delivery)
            if topic.hint is not None and not await self._ours(delivery.provider, topic.hint.repo):
                topic = _elsewhere(delivery.provider, topic.hint)
            if (
                topic.hint is not None
                and not topic.elsewhere
                and isinstance(self._provider, TakesReports)
                and await self._provider.report(delivery)
            ):
                topic = replace(topic, learned=True)
        except ValueError as fault:
            return DeliveryTopic(state=DeliveryState.BROKEN, outcome=clean_line(str(fault)))
        self._failures.pop(delivery.key, None)
        return topic

    def _put_back(self, key: str, problem: Exception) -> None:
        """Process it later; until then it counts as in progress."""
        self._failures[key] = self._failures.get(key, 0) + 1
        pause = self._backoff.after(self._failures[key], wanted=self._wanted(problem))
        self._report(f"{key} is retried in {pause:g} s: {_told(problem)}")
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

    def _ask_about(self, topic: DeliveryTopic, key: str) -> None:
        self._busy.add(key)
        question = self._questions.setdefault(topic, _Question())
        question.keys.append(key)
        if question.task is None:
            question.task = asyncio.create_task(self._ask(topic, question))

    async def _ask(self, topic: DeliveryTopic, question: _Question) -> None:
        failures = 0
        while question.keys:
            keys, question.keys = tuple(question.keys), []
            try:
                await self._answer(topic, keys)
                failures = 0
            except Exception as problem:  # noqa: BLE001  # they wait for a retry, and are not lost
                failures += 1
                question.keys[:0] = keys
                pause = self._backoff.after(failures, wanted=self._wanted(problem))
                self._report(f"{keys[0]} is retried in {pause:g} s: {_told(problem)}")
                await self._put_off(keys, problem)
                await asyncio.sleep(pause)
        del self._questions[topic]
        # The store may have more than it returned while these were in progress.
        self.wake()

    async def _answer(self, topic: DeliveryTopic, keys: tuple[str, ...]) -> None:
        hint = topic.hint or Hint()
        async with self._slots:
            checked = await self._provider.take(hint)
        if checked:
            named = f"checked at once for {', '.join(checked)}"
            note = f"{named}; it names {topic.elsewhere}, but the commit is ours"
            await self._settle(keys, DeliveryState.MATCHED, note if topic.elsewhere else named)
        elif topic.learned:
            # The lifecycle that waited for it was notified already.
            outcome = f"stored as a report about {_what(hint)}"
            await self._settle(keys, DeliveryState.MATCHED, outcome)
        elif topic.elsewhere:
            await self._settle(
                keys, DeliveryState.IGNORED, f"about {topic.elsewhere}, another repository"
            )
        else:
            outcome = f"no lifecycle is waiting for {_what(hint)} yet"
            await self._settle(keys, DeliveryState.UNMATCHED, outcome, hint)
            await self._remember(keys, hint)
        self._busy.difference_update(keys)

    async def _remember(self, keys: Iterable[str], hint: Hint) -> None:
        inbox = await self._inbox()
        inbox.update(dict.fromkeys(keys, hint))
        while len(inbox) > UNMATCHED_KEPT:
            del inbox[next(iter(inbox))]

    async def _put_off(self, keys: tuple[str, ...], problem: Exception) -> None:
        # For people only; the store itself may be what fails.
        with contextlib.suppress(Exception):
            await self._settle(keys, DeliveryState.RECEIVED, f"to be retried: {_told(problem)}")

    def _wanted(self, problem: Exception) -> float:
        at = problem.retry_at if isinstance(problem, ForgeError) else None
        return 0.0 if at is None else at - self._now()

    async def _settle(
        self, keys: Iterable[str], state: DeliveryState, outcome: str, hint: Hint | None = None
    ) -> None:
        await self._deliveries.settle(tuple(keys), state, outcome[:500], at=self._now(), hint=hint)


def _topic_of(delivery: Delivery) -> DeliveryTopic:
    """Return what a delivery is about, in whatever repository."""
    body = document(delivery.headers, delivery.body)
    if body is None or delivery.provider not in SENDERS:
        return DeliveryTopic(state=DeliveryState.BROKEN, outcome="its body is not a JSON object")
    try:
        hint = webhooks_of(delivery.provider).hint(delivery.headers, body)
    except Exception as problem:  # noqa: BLE001  # one odd delivery must not stop all that come after it
        return DeliveryTopic(
            state=DeliveryState.BROKEN, outcome=f"not understood: {type(problem).__name__}"
        )
    if hint is None:
        event = delivery.event or "it"
        return DeliveryTopic(outcome=f"{event} carries nothing that a lifecycle waits for")
    # Several events about one thing are one question.
    return DeliveryTopic(hint=hint.model_copy(update={"event": ""}))


def _elsewhere(sender: str, hint: Hint) -> DeliveryTopic:
    """Keep of a hint what means the same in another repository.

    Numbers and branches do not, but a commit that somebody here waits for is the same one: there
    may be a fork of ours, or a copy.
    """
    where = hint.repo or f"a repository on {sender}"
    if not hint.sha:
        return DeliveryTopic(outcome=f"about {where}, another repository")
    return DeliveryTopic(hint=Hint(sha=hint.sha), elsewhere=where)


def _what(hint: Hint) -> str:
    named = [
        f"branch {hint.branch}" if hint.branch else "",
        f"commit {hint.sha[:12]}" if hint.sha else "",
        *(f"pull request {number}" for number in hint.numbers[:5]),
    ]
    return " or ".join(filter(None, named)) or "what it is about"


def _told(problem: Exception) -> str:
    return clean_line(str(problem)) or type(problem).__name__
