"""Several providers as one: a forge with the pull requests, and judges that only judge commits.

Owns how their answers are combined and their common lifecycle. Their events are in
`ci.composite.events`: one log with its own numbers, so that there is one cursor. Must not know any
one provider.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, TypeVar

from ci.composite.events import EVENTS, CompositeEvents
from ci.interface import (
    USUAL_TERMS,
    MergeResult,
    MergeTerms,
    PullRequestState,
    TakesReplies,
    refuse_replies,
)
from ci.issues import keeper_of
from ci.provider import BaseProvider
from ci.verdict import VerdictStatus, judge
from ci.webhooks.dispatcher import TakesReports

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from ci.interface import CIProvider, CIWatch, PullRequest, Trouble
    from ci.issues import IssueStanding
    from ci.ports import ProviderPorts
    from ci.verdict import Verdict
    from ci.webhook_delivery import Delivery, Hint

T = TypeVar("T")


class CompositeProvider(BaseProvider[CompositeEvents]):
    """Pull requests of the forge; verdicts and events of all."""

    def __init__(
        self,
        forge: CIProvider,
        judges: Sequence[CIProvider],
        *,
        chance: Callable[[], float] = random.random,
    ) -> None:
        super().__init__(EVENTS)
        self.forge = forge
        self.judges = tuple(judges)
        self.name: str = "+".join(each.name for each in self._all)
        self.tells_all: bool = all(each.tells_all for each in self._all)
        self.looks: bool = forge.looks
        self._events = CompositeEvents(
            self._log, joined=self.verdict, judges=self._verdict_of_judges, chance=chance
        )

    @property
    def _all(self) -> tuple[CIProvider, ...]:
        return (self.forge, *self.judges)

    # --- lifecycle ----------------------------------------------------------------------------

    def bind(self, ports: ProviderPorts) -> None:
        """Bind all providers."""
        super().bind(ports)
        for each in self._all:
            each.bind(ports)

    async def start(self) -> None:
        """Start all, or none; then pass on the events that were missed."""
        async with self._life:
            if self._work is None:
                try:
                    await self._open(self._bound())
                finally:
                    if self._work is None:
                        await self._stop()

    async def aclose(self) -> None:
        """Close all, even if one of them fails to close."""
        async with self._life:
            await self._stop()

    async def _open(self, ports: ProviderPorts) -> None:
        await self._events.listen(ports, self._all)
        for each in self._all:
            await each.start()
        await self._events.open(ports, self._all)
        self._work = self._events

    async def _stop(self) -> None:
        await self._events.hush()
        self._work = None
        closing = (each.aclose() for each in self._all)
        closed = await asyncio.gather(*closing, return_exceptions=True)
        await self._events.close()
        _answers(closed)

    # --- events -------------------------------------------------------------------------------

    def watch(self, watch: CIWatch) -> Callable[[], None]:
        """Let all providers watch it."""
        events = self._started()
        ends = [each.watch(watch) for each in self._all]
        if watch.number is not None:
            ends.append(events.watch(watch))

        def over() -> None:
            for end in ends:
                end()

        return over

    async def take(self, hint: Hint) -> tuple[str, ...]:
        """Let all check at once; return the keys of the waits it concerns."""
        found = await self._of_all(lambda each: each.take(hint))
        return tuple(dict.fromkeys(key for keys in found for key in keys))

    async def report(self, delivery: Delivery) -> bool:
        """Pass a report to the providers that take reports."""
        self._started()
        takers = [each for each in self._all if isinstance(each, TakesReports)]
        return any([await each.report(delivery) for each in takers])

    def follow_issue(self, standing: IssueStanding) -> None:
        """Have the forge bring the issue of a task in line with this."""
        if (keeper := keeper_of(self.forge)) is not None:
            keeper.follow_issue(standing)

    def followed_issues(self) -> tuple[str, ...]:
        """Return the lifecycles whose issues the forge follows."""
        keeper = keeper_of(self.forge)
        return () if keeper is None else keeper.followed_issues()

    def issue_name(self, issue: str) -> str:
        """Return how texts at the forge name an issue; empty if it has none of that name."""
        keeper = keeper_of(self.forge)
        return "" if keeper is None else keeper.issue_name(issue)

    def issue_problem(self, issue: str) -> str:
        """Return why a task cannot be about this issue."""
        keeper = keeper_of(self.forge)
        return "" if keeper is None else keeper.issue_problem(issue)

    def troubles(self) -> tuple[Trouble, ...]:
        """Return why any of them gives no answers."""
        return tuple(trouble for each in self._all for trouble in each.troubles())

    # --- requests -----------------------------------------------------------------------------

    async def pushed(self, branch: str, sha: str) -> None:
        """Register the newest commit of a branch with all."""
        await self._of_all(lambda each: each.pushed(branch, sha))

    async def verdict(self, sha: str) -> Verdict:
        """Combine the verdicts of all; a provider without checks has no effect."""
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
        """Open a pull request at the forge, and register its head with the judges."""
        made = await self.forge.create_pull_request(
            branch=branch, base=base, title=title, body=body
        )
        for each in self.judges:
            await each.pushed(made.branch, made.head_sha)
        return await self._judged(made)

    async def merge(
        self, number: int, *, expected_sha: str | None = None, terms: MergeTerms = USUAL_TERMS
    ) -> MergeResult:
        """Merge at the forge, unless any check of the head is red or pending."""
        pull = await self.forge.pull_request(number)
        if pull is None or pull.state is not PullRequestState.OPEN:
            return await self.forge.merge(number, expected_sha=expected_sha, terms=terms)
        verdict = await self.verdict(pull.head_sha)
        # Whether a commit without checks may be merged depends on the forge's settings.
        if verdict.status in (VerdictStatus.PENDING, VerdictStatus.RED):
            reason = f"pull request {number} is {verdict.status}, not green: {verdict.summary}"
            return MergeResult(merged=False, reason=reason)
        # Merge what was judged here, whatever is pushed meanwhile.
        sha = expected_sha or pull.head_sha
        return await self.forge.merge(number, expected_sha=sha, terms=terms)

    async def reply(self, agent_id: str, branch: str, sha: str, replies: Mapping[str, str]) -> None:
        """Post replies to remarks at the forge."""
        if isinstance(self.forge, TakesReplies):
            await self.forge.reply(agent_id, branch, sha, replies)
        else:
            refuse_replies(self._bound().report, agent_id, replies)

    async def close(self, number: int) -> PullRequest:
        """Close at the forge without merging."""
        return await self._judged(await self.forge.close(number))

    async def _shown(self, pull: PullRequest | None) -> PullRequest | None:
        return None if pull is None else await self._judged(pull)

    async def _judged(self, pull: PullRequest) -> PullRequest:
        verdict = await self.verdict(pull.head_sha)
        return pull.model_copy(update={"checks": verdict.status})

    async def _of_all(self, ask: Callable[[CIProvider], Awaitable[T]]) -> list[T]:
        """Ask all, even if one fails; then raise its error."""
        self._started()
        return _answers(await asyncio.gather(*map(ask, self._all), return_exceptions=True))


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
