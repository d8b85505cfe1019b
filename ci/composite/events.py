"""The events of several providers: one log for all, green events only when all providers agree.

Owns which events are held back. An event keeps its id, so none is published twice, even after a
crash. Must not know any one provider.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING

from ci.errors import ForgeError, ProviderError
from ci.events import CIEvent, CIEventType
from ci.forge.poller import Poller, PollResult
from ci.verdict import VerdictStatus

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from ci.event_log import EventLog
    from ci.interface import CIProvider, CIWatch
    from ci.ports import ProviderPorts
    from ci.verdict import Verdict

    Judging = Callable[[str], Awaitable[Verdict]]

EVENTS = "ci.joined.events"
MISSED = 86_400.0
"""Maximum age in seconds of events that are passed on after a crash."""
RETRY = 1.0
DETAILS = 5
_GREEN = frozenset({CIEventType.BUILD_SUCCESS, CIEventType.PR_CHECKS_PASSED})


class CompositeEvents:
    """Passes events on, one after the other, from `open` to `close`."""

    def __init__(
        self, log: EventLog, *, joined: Judging, judges: Judging, chance: Callable[[], float]
    ) -> None:
        self._joined = joined
        self._judges = judges
        self._chance = chance
        self._log = log
        self._turn = asyncio.Lock()
        self._news: asyncio.Queue[CIEvent] = asyncio.Queue()
        self._now: Callable[[], float] | None = None
        self._ends: list[Callable[[], None]] = []
        self._pump: asyncio.Task[None] | None = None
        self._poller: Poller | None = None
        self._watches: dict[str, CIWatch] = {}
        self._held: dict[str, dict[str, CIEvent]] = {}
        """Held green events by commit and id."""

    async def listen(self, ports: ProviderPorts, providers: Sequence[CIProvider]) -> None:
        """Subscribe to all providers; before they start, as starting may publish events."""
        await self._log.open(ports.documents)
        self._now = ports.now
        self._ends = [each.subscribe(self._news.put_nowait) for each in providers]

    async def open(self, ports: ProviderPorts, providers: Sequence[CIProvider]) -> None:
        """Pass on their events, first those that were published while this was closed."""
        if ports.call_at is None:
            raise ProviderError("joined providers need ProviderPorts with `call_at`")
        for each in providers:
            for event in (await each.events_since(0)).events:
                if event.at >= ports.now() - MISSED:
                    self._news.put_nowait(event)
        self._poller = Poller(
            self._round,
            now=ports.now,
            call_at=ports.call_at,
            chance=self._chance,
        )
        self._pump = asyncio.create_task(self._pass_on(), name="joined events")

    async def hush(self) -> None:
        """Stop passing on; later events are found by the next `open`."""
        pump, self._pump = self._pump, None
        if pump is not None:
            pump.cancel()
            await asyncio.gather(pump, return_exceptions=True)
        poller, self._poller = self._poller, None
        if poller is not None:
            await poller.aclose()

    async def close(self) -> None:
        """Unsubscribe from all providers."""
        while self._ends:
            self._ends.pop()()
        self._news = asyncio.Queue()
        self._watches.clear()
        self._held.clear()
        await self._log.flush()

    # --- waits for a pull request -------------------------------------------------------------

    def watch(self, watch: CIWatch) -> Callable[[], None]:
        """Publish red verdicts of judges on it, until the returned function is called."""
        self._watches[watch.key] = watch
        self._hurry(f"watch {watch.key}")

        def over() -> None:
            if self._watches.get(watch.key) is watch:
                del self._watches[watch.key]
                self._forget(f"watch {watch.key}")

        return over

    async def _look_at_pull(self, key: str) -> PollResult:
        """Publish a red verdict of the judges, which the forge does not know of."""
        watch = self._watches.get(key)
        if watch is not None and watch.sha and self._now is not None:
            verdict = await self._judges(watch.sha)
            if verdict.status is VerdictStatus.RED:
                await self._publish(_red_pull(watch, verdict, at=self._now()))
        return PollResult(rests=True)

    # --- passing on ---------------------------------------------------------------------------

    async def _pass_on(self) -> None:
        while True:
            event = await self._news.get()
            while not await self._passed(event):  # noqa: ASYNC110  # there is no signal for when the store works again
                await asyncio.sleep(RETRY)

    async def _passed(self, event: CIEvent) -> bool:
        if self._log.knows(event.event_id):
            return True
        if event.type in _GREEN:
            self._held.setdefault(event.sha, {})[event.event_id] = event
            self._hurry(f"sha {event.sha}")
            return True
        try:
            await self._publish(event)
        except Exception as problem:  # noqa: BLE001  # a failing store must not end the task
            asyncio.get_running_loop().call_exception_handler(
                {"message": "an event could not be passed on yet", "exception": problem}
            )
            return False
        for key, watch in self._watches.items():
            if watch.branch == event.branch:
                self._hurry(f"watch {key}")
        return True

    async def _publish(self, event: CIEvent) -> None:
        async with self._turn:
            await self._log.publish(event)

    async def _round(self, keys: Mapping[str, bool]) -> Mapping[str, PollResult]:
        answers = {}
        for key in keys:
            kind, _, name = key.partition(" ")
            look = self._look_at_held if kind == "sha" else self._look_at_pull
            try:
                answers[key] = await look(name)
            except ForgeError as fault:
                answers[key] = PollResult(not_before=fault.retry_at)
        return answers

    async def _look_at_held(self, sha: str) -> PollResult:
        """Publish held green events once all providers agree, or drop them once one objects."""
        held = self._held.get(sha, {})
        seen = tuple(held.values())
        status = (await self._joined(sha)).status
        if status is VerdictStatus.PENDING and any(self._is_young(event) for event in seen):
            return PollResult()
        for event in seen:
            if status in (VerdictStatus.GREEN, VerdictStatus.NONE):
                # Each provider without checks has applied its own settings to that.
                await self._publish(event)
            held.pop(event.event_id, None)
        if not held:
            self._held.pop(sha, None)
            self._forget(f"sha {sha}")
        return PollResult(news=bool(held))

    def _is_young(self, event: CIEvent) -> bool:
        return self._now is not None and event.at >= self._now() - MISSED

    def _hurry(self, key: str) -> None:
        if self._poller is not None:
            self._poller.hurry(key)

    def _forget(self, key: str) -> None:
        if self._poller is not None:
            self._poller.remove(key)


def _red_pull(watch: CIWatch, verdict: Verdict, *, at: float) -> CIEvent:
    told = "\n".join(sorted(f"{each.name} {each.summary} {each.url}" for each in verdict.failed))
    digest = hashlib.sha256(told.encode()).hexdigest()[:16]
    first = verdict.failed[0]
    return CIEvent(
        type=CIEventType.PR_CHECKS_FAILED,
        event_id=f"joined:pr-{watch.number}:{watch.sha}:red-{digest}",
        at=at,
        branch=watch.branch,
        sha=watch.sha,
        pr_number=watch.number,
        summary=f"pull request {watch.number} is red: {verdict.summary}",
        excerpt=first.excerpt,
        url=first.url,
        details=verdict.failed[:DETAILS],
    )
