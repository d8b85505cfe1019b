"""The provider for CI that is no forge: it is told by signed hooks, and may ask a command.

Owns the provider's life and when the command is asked. A verdict is what was reported, never more:
what is kept is `ci.generic_ledger`'s business. There are no pull requests.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci.errors import ForgeError, ProviderError, UnknownPullRequestError
from ci.feed import Feed
from ci.generic_ledger import GenericLedger
from ci.generic_poll import PollCommand
from ci.hooks.generic import check_of
from ci.interface import USUAL_TERMS, MergeTerms, Trouble
from ci.poller import Asked, Poller
from ci.receiver import document
from ci.verdict import VerdictStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ci.events import CIEvent
    from ci.inbox import Delivery, Hint
    from ci.interface import EventBatch, MergeResult, PullRequest, Surroundings, Watch
    from ci.merging import Rules
    from ci.verdict import Verdict

NAME = "generic"
EVENTS = "ci.generic.events"


@dataclass(frozen=True, slots=True)
class _Work:
    """What a started provider works with."""

    ledger: GenericLedger
    poller: Poller
    poll: PollCommand | None


class GenericProvider:
    """Judges commits by what was reported of them, in whatever order that came."""

    name: str = NAME
    tells_all: bool = True
    looks: bool = True

    def __init__(
        self,
        *,
        rules: Callable[[], Rules],
        poll_command: str | None = None,
        expected: Sequence[str] = (),
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._rules = rules
        self._poll_command = poll_command
        self._expected = tuple(expected)
        """Names of checks without which no commit is green."""
        self._chance = chance
        self._feed = Feed(EVENTS)
        self._life = asyncio.Lock()
        self._surroundings: Surroundings | None = None
        self._work: _Work | None = None
        self._watches: dict[str, Watch] = {}
        self._trouble: Trouble | None = None

    # --- its life -----------------------------------------------------------------------------

    def bind(self, surroundings: Surroundings) -> None:
        """Give it what it works with; the same again, also while it runs, changes nothing."""
        if self._work is not None and surroundings != self._surroundings:
            raise ProviderError(
                "this provider is at work with other surroundings: aclose() it before bind()"
            )
        self._surroundings = surroundings

    async def start(self) -> None:
        """Read what was reported, and tell what a crash kept back."""
        async with self._life:
            if self._work is None:
                bound = self._bound()
                work = self._set_up(bound)
                await self._feed.open(bound.documents)
                await work.ledger.load()
                self._work = work

    def _set_up(self, surroundings: Surroundings) -> _Work:
        if surroundings.call_at is None:
            raise ProviderError("the generic provider needs Surroundings with `call_at`")
        ledger = GenericLedger(
            surroundings.documents,
            self._feed,
            rules=self._rules,
            expected=self._expected,
            now=surroundings.now,
        )
        poller = Poller(
            self._round,
            now=surroundings.now,
            call_at=surroundings.call_at,
            chance=self._chance,
        )
        poll = None
        if self._poll_command:
            folder = surroundings.folder / "polls"
            poll = PollCommand(self._poll_command, surroundings.commands, folder)
        return _Work(ledger, poller, poll)

    async def aclose(self) -> None:
        """Ask no more; what is known stays for `start`."""
        async with self._life:
            work, self._work = self._work, None
            self._watches.clear()
            self._trouble = None
            if work is not None:
                await work.poller.aclose()
                await work.ledger.drain()
            await self._feed.flush()

    def subscribe(self, handler: Callable[[CIEvent], None]) -> Callable[[], None]:
        """Tell every later event to the handler; the returned function ends that."""
        return self._feed.subscribe(handler)

    async def events_since(self, cursor: int) -> EventBatch:
        """Return the events after the cursor; 0 for all."""
        self._started()
        return await self._feed.since(cursor)

    # --- what is told -------------------------------------------------------------------------

    async def report(self, delivery: Delivery) -> bool:
        """Keep what a delivery reports of a check; False if it came to another provider's hook.

        ValueError says what is wrong with it.
        """
        if delivery.provider != NAME:
            return False
        body = document(delivery.headers, delivery.body) or {}
        check = check_of(body)
        if check.at is None and check.number is None:
            # Otherwise a copy that comes late, or that somebody sends again, would be the newest.
            raise ValueError(
                "a check needs `at` (when it came to this) or `number` (which run it was), so that "
                "it can be told which of two reports is newer"
            )
        await self._started().ledger.learn([check], heard_at=delivery.received_at)
        return True

    async def pushed(self, branch: str, sha: str) -> None:
        """Expect reports of the newest commit of a branch; they may be here already."""
        await self._started().ledger.push(branch, sha)

    async def verdict(self, sha: str) -> Verdict:
        """Judge exactly this commit by what was reported of it."""
        return self._started().ledger.verdict(sha)

    # --- what waits ---------------------------------------------------------------------------

    def watch(self, watch: Watch) -> Callable[[], None]:
        """Ask the command, if there is one, at once and then from time to time."""
        poller = self._started().poller
        self._watches[watch.key] = watch
        poller.add(watch.key)

        def over() -> None:
            if self._watches.get(watch.key) is watch:
                del self._watches[watch.key]
                poller.remove(watch.key)

        return over

    async def take(self, hint: Hint) -> tuple[str, ...]:
        """Look at once at what the hint concerns, and return whose waits these are."""
        poller = self._started().poller
        keys = tuple(
            key
            for key, watch in self._watches.items()
            if hint.concerns(branch=watch.branch, sha=watch.sha, number=None)
        )
        for key in keys:
            poller.hurry(key)
        if keys:
            await poller.through()
        return keys

    def troubles(self) -> tuple[Trouble, ...]:
        """Return why the command gives no answer at present."""
        return () if self._trouble is None else (self._trouble,)

    # --- there are no pull requests -----------------------------------------------------------

    async def pull_request(self, ref: str | int) -> PullRequest | None:
        """Know none."""
        del ref
        return None

    async def find_pull_request(self, branch: str) -> PullRequest | None:
        """Know none."""
        del branch
        return None

    async def create_pull_request(
        self, *, branch: str, base: str, title: str, body: str = ""
    ) -> PullRequest:
        """Refuse."""
        del base, title, body
        raise ProviderError(
            f"no pull request can be opened for {branch}: the generic provider only judges "
            "commits; configure a forge (github, gitlab, gitea) or local beside it"
        )

    async def merge(
        self, number: int, *, expected_sha: str | None = None, terms: MergeTerms = USUAL_TERMS
    ) -> MergeResult:
        """Refuse."""
        del expected_sha, terms
        raise _unknown(number)

    async def close(self, number: int) -> PullRequest:
        """Refuse."""
        raise _unknown(number)

    # --- rounds -------------------------------------------------------------------------------

    async def _round(self, keys: Mapping[str, bool]) -> Mapping[str, Asked]:
        work = self._started()
        watches = [self._watches[key] for key in keys if key in self._watches]
        asked = {watch.sha: watch.branch for watch in watches if self._is_open(work, watch.sha)}
        if work.poll is not None and asked:
            faults = await asyncio.gather(
                *(self._ask(work.ledger, work.poll, sha, branch) for sha, branch in asked.items())
            )
            self._note(next(filter(None, faults), None))
        for sha in {watch.sha for watch in watches}:
            await work.ledger.tell(sha)
        return {key: self._asked(work, self._watches.get(key)) for key in keys}

    async def _ask(
        self, ledger: GenericLedger, poll: PollCommand, sha: str, branch: str
    ) -> Exception | None:
        began = self._bound().now()
        try:
            await ledger.learn(await poll.ask(sha, branch), heard_at=began)
        except (ForgeError, ValueError) as fault:
            return fault
        return None

    def _asked(self, work: _Work, watch: Watch | None) -> Asked:
        if watch is None:
            return Asked(rests=True)
        rests = work.poll is None or not self._is_open(work, watch.sha)
        return Asked(rests=rests, again_at=work.ledger.grace_end(watch.sha))

    def _is_open(self, work: _Work, sha: str) -> bool:
        # What is red may be run again; what is green is done.
        return bool(sha) and work.ledger.verdict(sha).status is not VerdictStatus.GREEN

    def _note(self, failed: Exception | None) -> None:
        if failed is None:
            self._trouble = None
            return
        since = self._bound().now() if self._trouble is None else self._trouble.since
        self._trouble = Trouble(place="the poll command", text=str(failed), since=since)

    def _started(self) -> _Work:
        self._bound()
        if self._work is None:
            raise ProviderError("the generic provider is not running: await start() first")
        return self._work

    def _bound(self) -> Surroundings:
        if self._surroundings is None:
            raise ProviderError(
                "the generic provider has nothing to work with yet: bind(Surroundings(...)) it "
                "first, then await start() (AgentLifecycleLoop does both by itself)"
            )
        return self._surroundings


def _unknown(number: int) -> UnknownPullRequestError:
    return UnknownPullRequestError(f"the generic provider has no pull request {number}, nor any")
