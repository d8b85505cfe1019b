"""Several providers as one: a forge with the pull requests, and judges who only judge commits.

Owns how their answers are joined and their common life. What is told when they do not agree is
`ci.joined_telling`'s business: their events are numbered anew in one log, so there is one cursor,
whatever each of them counts by. Must not know what stands behind any of them.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, TypeVar

from ci.dispatch import TakesReports
from ci.errors import ProviderError
from ci.interface import USUAL_TERMS, MergeResult, MergeTerms, PullRequestState
from ci.joined_telling import JoinedTelling
from ci.verdict import VerdictStatus, judge

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from ci.events import CIEvent
    from ci.inbox import Delivery, Hint
    from ci.interface import CIProvider, EventBatch, PullRequest, Surroundings, Trouble, Watch
    from ci.verdict import Verdict

T = TypeVar("T")


class JoinedProvider:
    """Pull requests of the first; verdicts and events of all."""

    def __init__(
        self,
        forge: CIProvider,
        judges: Sequence[CIProvider],
        *,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.forge = forge
        self.judges = tuple(judges)
        self.name: str = "+".join(each.name for each in self._all)
        self.tells_all: bool = all(each.tells_all for each in self._all)
        self.looks: bool = forge.looks
        self._telling = JoinedTelling(
            joined=self.verdict, judges=self._verdict_of_judges, chance=chance
        )
        self._life = asyncio.Lock()
        self._surroundings: Surroundings | None = None
        self._running = False

    @property
    def _all(self) -> tuple[CIProvider, ...]:
        return (self.forge, *self.judges)

    # --- its life -----------------------------------------------------------------------------

    def bind(self, surroundings: Surroundings) -> None:
        """Give all what they work with."""
        for each in self._all:
            each.bind(surroundings)
        self._surroundings = surroundings

    async def start(self) -> None:
        """Start all, or none; then pass on what was told while nobody listened."""
        async with self._life:
            if not self._running:
                try:
                    await self._open(self._bound())
                finally:
                    if not self._running:
                        await self._stop()

    async def aclose(self) -> None:
        """Close all, also those after one that fails to."""
        async with self._life:
            await self._stop()

    async def _open(self, surroundings: Surroundings) -> None:
        await self._telling.listen(surroundings, self._all)
        for each in self._all:
            await each.start()
        await self._telling.open(surroundings, self._all)
        self._running = True

    async def _stop(self) -> None:
        await self._telling.hush()
        self._running = False
        closing = (each.aclose() for each in self._all)
        closed = await asyncio.gather(*closing, return_exceptions=True)
        await self._telling.close()
        _answers(closed)

    # --- what is told -------------------------------------------------------------------------

    def subscribe(self, handler: Callable[[CIEvent], None]) -> Callable[[], None]:
        """Tell every later event of all to the handler; the returned function ends that."""
        return self._telling.subscribe(handler)

    async def events_since(self, cursor: int) -> EventBatch:
        """Return what was told after the cursor, which counts the events of all together."""
        self._started()
        return await self._telling.since(cursor)

    def watch(self, watch: Watch) -> Callable[[], None]:
        """Have all watch it."""
        self._started()
        ends = [each.watch(watch) for each in self._all]
        if watch.number is not None:
            ends.append(self._telling.watch(watch))

        def over() -> None:
            for end in ends:
                end()

        return over

    async def take(self, hint: Hint) -> tuple[str, ...]:
        """Have all look at once; returns whose waits it concerns."""
        found = await self._of_all(lambda each: each.take(hint))
        return tuple(dict.fromkeys(key for keys in found for key in keys))

    async def report(self, delivery: Delivery) -> bool:
        """Hand a report to whoever takes it."""
        self._started()
        takers = [each for each in self._all if isinstance(each, TakesReports)]
        return any([await each.report(delivery) for each in takers])

    def troubles(self) -> tuple[Trouble, ...]:
        """Return why any of them cannot be asked."""
        return tuple(trouble for each in self._all for trouble in each.troubles())

    # --- what is asked ------------------------------------------------------------------------

    async def pushed(self, branch: str, sha: str) -> None:
        """Let all take note of the newest commit of a branch."""
        await self._of_all(lambda each: each.pushed(branch, sha))

    async def verdict(self, sha: str) -> Verdict:
        """Join what all say of exactly this commit; who knows no check spoils nothing."""
        return _joined(sha, await self._of_all(lambda each: each.verdict(sha)))

    async def _verdict_of_judges(self, sha: str) -> Verdict:
        return _joined(sha, [await each.verdict(sha) for each in self.judges])

    async def pull_request(self, ref: str | int) -> PullRequest | None:
        """Find a pull request of the forge."""
        return await self._shown(await self.forge.pull_request(ref))

    async def find_pull_request(self, branch: str) -> PullRequest | None:
        """Find the newest open pull request of a branch at the forge, else its newest."""
        return await self._shown(await self.forge.find_pull_request(branch))

    async def create_pull_request(
        self, *, branch: str, base: str, title: str, body: str = ""
    ) -> PullRequest:
        """Open a pull request at the forge; the judges hear of its head."""
        made = await self.forge.create_pull_request(
            branch=branch, base=base, title=title, body=body
        )
        for each in self.judges:
            await each.pushed(made.branch, made.head_sha)
        return await self._judged(made)

    async def merge(
        self, number: int, *, expected_sha: str | None = None, terms: MergeTerms = USUAL_TERMS
    ) -> MergeResult:
        """Merge at the forge, unless anybody's checks of the head are red or not through."""
        pull = await self.forge.pull_request(number)
        if pull is None or pull.state is not PullRequestState.OPEN:
            return await self.forge.merge(number, expected_sha=expected_sha, terms=terms)
        verdict = await self.verdict(pull.head_sha)
        # Whether a commit without any check may be merged is for the forge's settings to say.
        if verdict.status in (VerdictStatus.PENDING, VerdictStatus.RED):
            reason = f"pull request {number} is {verdict.status}, not green: {verdict.summary}"
            return MergeResult(merged=False, reason=reason)
        # What was judged here is what is merged, whatever is pushed meanwhile.
        sha = expected_sha or pull.head_sha
        return await self.forge.merge(number, expected_sha=sha, terms=terms)

    async def close(self, number: int) -> PullRequest:
        """Close at the forge without merging."""
        return await self._judged(await self.forge.close(number))

    async def _shown(self, pull: PullRequest | None) -> PullRequest | None:
        return None if pull is None else await self._judged(pull)

    async def _judged(self, pull: PullRequest) -> PullRequest:
        verdict = await self.verdict(pull.head_sha)
        return pull.model_copy(update={"checks": verdict.status})

    async def _of_all(self, ask: Callable[[CIProvider], Awaitable[T]]) -> list[T]:
        """Ask all, also when one fails; then its error is raised."""
        self._started()
        return _answers(await asyncio.gather(*map(ask, self._all), return_exceptions=True))

    def _started(self) -> None:
        self._bound()
        if not self._running:
            raise ProviderError(f"the providers {self.name} are not running: await start() first")

    def _bound(self) -> Surroundings:
        if self._surroundings is None:
            raise ProviderError(
                f"the providers {self.name} have nothing to work with yet: "
                "bind(Surroundings(...)) them first, then await start()"
            )
        return self._surroundings


def _answers(outcomes: Iterable[T | BaseException]) -> list[T]:
    found: list[T] = []
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
        found.append(outcome)
    return found


def _joined(sha: str, verdicts: Iterable[Verdict]) -> Verdict:
    verdicts = tuple(verdicts)
    return judge(
        sha,
        passed=tuple(name for each in verdicts for name in each.passed),
        pending=tuple(name for each in verdicts for name in each.pending),
        failed=tuple(check for each in verdicts for check in each.failed),
    )
