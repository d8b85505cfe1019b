"""What joined providers tell: the events of all in one log, green words only when all allow them.

Owns that log, and what is held back. An event keeps its id, so none is told twice, also after a
crash. Must not know what stands behind any provider.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING

from ci.errors import ForgeError, ProviderError
from ci.events import CIEvent, CIEventType, Detail
from ci.feed import Feed
from ci.poller import Asked, Poller
from ci.verdict import VerdictStatus

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from ci.interface import CIProvider, EventBatch, Surroundings, Watch
    from ci.verdict import Verdict

    Judging = Callable[[str], Awaitable[Verdict]]

EVENTS = "ci.joined.events"
MISSED = 86_400.0
"""Seconds back to which events are looked for that a crash kept from being passed on."""
RETRY = 1.0
DETAILS = 5
_GREEN = frozenset({CIEventType.BUILD_SUCCESS, CIEventType.PR_CHECKS_PASSED})


class JoinedTelling:
    """Passes events on, one after the other, from `open` to `close`."""

    def __init__(self, *, joined: Judging, judges: Judging, chance: Callable[[], float]) -> None:
        self._joined = joined
        self._judges = judges
        self._chance = chance
        self._feed = Feed(EVENTS)
        self._turn = asyncio.Lock()
        self._news: asyncio.Queue[CIEvent] = asyncio.Queue()
        self._now: Callable[[], float] | None = None
        self._ends: list[Callable[[], None]] = []
        self._pump: asyncio.Task[None] | None = None
        self._poller: Poller | None = None
        self._watches: dict[str, Watch] = {}
        self._held: dict[str, dict[str, CIEvent]] = {}
        """Green words by commit and id."""

    def subscribe(self, handler: Callable[[CIEvent], None]) -> Callable[[], None]:
        """Tell every later event to the handler; the returned function ends that."""
        return self._feed.subscribe(handler)

    async def since(self, cursor: int) -> EventBatch:
        """Return what was told after the cursor."""
        return await self._feed.since(cursor)

    async def listen(self, surroundings: Surroundings, providers: Sequence[CIProvider]) -> None:
        """Hear what they tell from now on; before they start, as that may tell something."""
        await self._feed.open(surroundings.documents)
        self._now = surroundings.now
        self._ends = [each.subscribe(self._news.put_nowait) for each in providers]

    async def open(self, surroundings: Surroundings, providers: Sequence[CIProvider]) -> None:
        """Pass on what they tell, and first what they told while nobody passed it on."""
        if surroundings.call_at is None:
            raise ProviderError("joined providers need Surroundings with `call_at`")
        for each in providers:
            for event in (await each.events_since(0)).events:
                if event.at >= surroundings.now() - MISSED:
                    self._news.put_nowait(event)
        self._poller = Poller(
            self._round,
            now=surroundings.now,
            call_at=surroundings.call_at,
            chance=self._chance,
        )
        self._pump = asyncio.create_task(self._pass_on(), name="joined events")

    async def hush(self) -> None:
        """Pass nothing on any more; what comes after is found again by the next `open`."""
        pump, self._pump = self._pump, None
        if pump is not None:
            pump.cancel()
            await asyncio.gather(pump, return_exceptions=True)
        poller, self._poller = self._poller, None
        if poller is not None:
            await poller.aclose()

    async def close(self) -> None:
        """Listen no more."""
        while self._ends:
            self._ends.pop()()
        self._news = asyncio.Queue()
        self._watches.clear()
        self._held.clear()
        await self._feed.flush()

    # --- waits for a pull request -------------------------------------------------------------

    def watch(self, watch: Watch) -> Callable[[], None]:
        """Tell of a pull request what only a judge knows, until the returned function is called."""
        self._watches[watch.key] = watch
        self._hurry(f"watch {watch.key}")

        def over() -> None:
            if self._watches.get(watch.key) is watch:
                del self._watches[watch.key]
                self._forget(f"watch {watch.key}")

        return over

    async def _look_at_pull(self, key: str) -> Asked:
        """Tell of red judges to whoever waits for it: the forge itself knows nothing of them."""
        watch = self._watches.get(key)
        if watch is not None and watch.sha and self._now is not None:
            verdict = await self._judges(watch.sha)
            if verdict.status is VerdictStatus.RED:
                await self._publish(_red_pull(watch, verdict, at=self._now()))
        return Asked(rests=True)

    # --- passing on ---------------------------------------------------------------------------

    async def _pass_on(self) -> None:
        while True:
            event = await self._news.get()
            while not await self._passed(event):  # noqa: ASYNC110  # nobody says when the store works again
                await asyncio.sleep(RETRY)

    async def _passed(self, event: CIEvent) -> bool:
        if self._feed.knows(event.event_id):
            return True
        if event.type in _GREEN:
            self._held.setdefault(event.sha, {})[event.event_id] = event
            self._hurry(f"sha {event.sha}")
            return True
        try:
            await self._publish(event)
        except Exception as problem:  # noqa: BLE001  # what cannot be kept now must not end the telling
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
            await self._feed.publish(event)

    async def _round(self, keys: Mapping[str, bool]) -> Mapping[str, Asked]:
        answers = {}
        for key in keys:
            kind, _, name = key.partition(" ")
            look = self._look_at_held if kind == "sha" else self._look_at_pull
            try:
                answers[key] = await look(name)
            except ForgeError as fault:
                answers[key] = Asked(not_before=fault.retry_at)
        return answers

    async def _look_at_held(self, sha: str) -> Asked:
        """Let green words go once nobody speaks against them, and drop them once somebody does."""
        held = self._held.get(sha, {})
        seen = tuple(held.values())
        status = (await self._joined(sha)).status
        if status is VerdictStatus.PENDING and any(self._is_young(event) for event in seen):
            return Asked()
        for event in seen:
            if status in (VerdictStatus.GREEN, VerdictStatus.NONE):
                # Of those that know no check, each has said what its settings make of that.
                await self._publish(event)
            held.pop(event.event_id, None)
        if not held:
            self._held.pop(sha, None)
            self._forget(f"sha {sha}")
        return Asked(news=bool(held))

    def _is_young(self, event: CIEvent) -> bool:
        return self._now is not None and event.at >= self._now() - MISSED

    def _hurry(self, key: str) -> None:
        if self._poller is not None:
            self._poller.hurry(key)

    def _forget(self, key: str) -> None:
        if self._poller is not None:
            self._poller.remove(key)


def _red_pull(watch: Watch, verdict: Verdict, *, at: float) -> CIEvent:
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
        details=tuple(
            Detail(title=f"{each.name}: {each.summary}", text=each.excerpt, url=each.url)
            for each in verdict.failed[:DETAILS]
        ),
    )
