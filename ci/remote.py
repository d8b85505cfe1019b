"""The provider that works with a forge: watches, verdicts, pull requests and events about them.

Owns the provider's life and the door through which it is asked. The forge itself is thin
(`ci.forge`); what a look finds is told by `ci.remote_watching`. Polling is the truth: a webhook
only makes it look sooner.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ci.checks import CheckState
from ci.errors import ForgeError, ProviderError
from ci.feed import Feed
from ci.interface import USUAL_TERMS, MergeTerms
from ci.poller import Poller
from ci.remote_git import Shipping
from ci.remote_memory import Memory
from ci.remote_pulls import Pulls
from ci.remote_telling import Teller
from ci.remote_watching import Watching
from ci.triage import Bench
from ci.verdict import VerdictStatus, checks_of, judge_checks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from ci.checks import Check
    from ci.events import CIEvent
    from ci.forge import Forge
    from ci.inbox import Hint
    from ci.interface import (
        CIProvider,
        EventBatch,
        MergeResult,
        PullRequest,
        Surroundings,
        Trouble,
        Watch,
    )
    from ci.merging import Rules
    from ci.verdict import Verdict

    Header = Callable[[], Awaitable[Mapping[str, str]]]


@dataclass(slots=True)
class _Work:
    """Everything that a started provider works with."""

    memory: Memory
    bench: Bench
    shipping: Shipping
    pulls: Pulls
    watching: Watching
    poller: Poller
    forgetting: set[asyncio.Task[None]] = field(default_factory=set)

    def forget(self, key: str) -> None:
        """Let people no more see how a wait stood that is over."""
        task = asyncio.get_running_loop().create_task(self.memory.over(key))
        self.forgetting.add(task)
        task.add_done_callback(self.forgetting.discard)

    async def aclose(self) -> None:
        """Leave no task behind."""
        await self.poller.aclose()
        while self.forgetting:
            await asyncio.gather(*self.forgetting, return_exceptions=True)


class RemoteProvider:
    """Works with one repository on a forge."""

    tells_all: bool = True
    looks: bool = True

    def __init__(
        self,
        forge: Forge,
        *,
        rules: Callable[[], Rules],
        header: Header,
        chance: Callable[[], float] = random.random,
        release: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`header` signs pushes in; `release` lets go of what it needed for that."""
        self.name = forge.name
        self.forge = forge
        self._rules = rules
        self._header = header
        self._chance = chance
        self._release = release
        self.judges: tuple[CIProvider, ...] = ()
        """Who else has a say in what a verdict is, and so in what is merged."""
        self._feed = Feed(f"ci.{forge.name}.events")
        self._telling = asyncio.Lock()
        self._life = asyncio.Lock()
        self._surroundings: Surroundings | None = None
        self._work: _Work | None = None

    def bind(self, surroundings: Surroundings) -> None:
        """Give it what it works with; the same again, also while it runs, changes nothing."""
        if self._work is not None and surroundings != self._surroundings:
            raise ProviderError(
                "this provider is at work with other surroundings: aclose() it before bind()"
            )
        self._surroundings = surroundings

    async def start(self) -> None:
        """Read what is remembered; who waits asks for a watch, and is looked at then."""
        async with self._life:
            if self._work is None:
                surroundings = self._bound()
                await self._feed.open(surroundings.documents)
                work = self._set_up(surroundings)
                await work.memory.open(surroundings.documents)
                self._work = work

    async def aclose(self) -> None:
        """Ask no more; what is remembered stays for `start`."""
        async with self._life:
            work, self._work = self._work, None
            if work is not None:
                await work.aclose()
            await self._feed.flush()
            await self.forge.aclose()
            if self._release is not None:
                await self._release()

    def subscribe(self, handler: Callable[[CIEvent], None]) -> Callable[[], None]:
        """Tell every later event to the handler; the returned function ends that."""
        return self._feed.subscribe(handler)

    async def events_since(self, cursor: int) -> EventBatch:
        """Return the events after the cursor; 0 for all."""
        self._started()
        return await self._feed.since(cursor)

    # --- what waits ---------------------------------------------------------------------------

    def watch(self, watch: Watch) -> Callable[[], None]:
        """Look at once and then from time to time; a watch of the same key is replaced."""
        work = self._started()
        work.watching.begin(watch)
        work.poller.add(watch.key)

        def over() -> None:
            if work.watching.watches.get(watch.key) is watch:
                work.watching.end(watch.key)
                work.poller.remove(watch.key)
                work.forget(watch.key)

        return over

    async def take(self, hint: Hint) -> tuple[str, ...]:
        """Look at once at what the hint concerns, and return whose waits these are."""
        work = self._started()
        keys = tuple(
            key
            for key, watch in work.watching.watches.items()
            if hint.concerns(branch=watch.branch, sha=watch.sha, number=watch.number)
        )
        for key in keys:
            work.poller.hurry(key)
        if keys:
            await work.poller.through()
            if (trouble := work.watching.trouble) is not None:
                raise ForgeError(trouble.text, retry_at=trouble.next_try)
        return keys

    def troubles(self) -> tuple[Trouble, ...]:
        """Return why the forge cannot be asked at present."""
        trouble = self._work.watching.trouble if self._work else None
        return () if trouble is None else (trouble,)

    # --- what is asked ------------------------------------------------------------------------

    async def pushed(self, branch: str, sha: str) -> None:
        """Bring the newest commit of a branch to the forge; what fails is tried at each look."""
        work = self._started()
        await work.memory.want(branch, sha)
        owed = await work.shipping.ship(branch)
        if owed:
            raise ProviderError(owed)

    async def verdict(self, sha: str) -> Verdict:
        """Judge exactly this commit."""
        bench = self._started().bench
        checks = await bench.checks(sha)
        verdict = bench.verdict(sha, checks)
        if verdict.status is not VerdictStatus.RED:
            return verdict
        others = tuple(check for check in checks if check.state is not CheckState.FAILED)
        return judge_checks(sha, (*await bench.explained(sha, checks), *others))

    async def pull_request(self, ref: str | int) -> PullRequest | None:
        """Find a pull request: its number, `#3`, or its url."""
        return await self._started().pulls.by_reference(ref)

    async def find_pull_request(self, branch: str) -> PullRequest | None:
        """Find the newest open pull request of a branch, else its newest."""
        return await self._started().pulls.of_branch(branch)

    async def create_pull_request(
        self, *, branch: str, base: str, title: str, body: str = ""
    ) -> PullRequest:
        """Push the branch and open a pull request, or return the one that is open."""
        head = await self._bound().repository.head(branch)
        if head is None:
            raise ProviderError(f"there is no branch {branch!r} with a commit to open one with")
        await self.pushed(branch, head)
        pulls = self._started().pulls
        return await pulls.create(branch=branch, base=base, title=title, body=body)

    async def merge(
        self, number: int, *, expected_sha: str | None = None, terms: MergeTerms = USUAL_TERMS
    ) -> MergeResult:
        """Merge exactly what was looked at, if nothing speaks against it."""
        return await self._started().pulls.merge(number, expected_sha=expected_sha, terms=terms)

    async def close(self, number: int) -> PullRequest:
        """Close without merging; one that is closed or merged stays as it is."""
        return await self._started().pulls.close(number)

    # --- how ----------------------------------------------------------------------------------

    def _set_up(self, surroundings: Surroundings) -> _Work:
        forge, now = self.forge, surroundings.now
        if surroundings.remote is None or surroundings.call_at is None:
            raise ProviderError(
                f"the {self.name} provider needs Surroundings with `remote` and `call_at`"
            )
        memory = Memory(forge.name, now)
        bench = Bench(forge, memory, self._rules, now, beside=self._beside)
        teller = Teller(forge.name, forge.place)
        shipping = Shipping(
            surroundings.remote,
            surroundings.repository,
            memory,
            header=self._header,
            place=forge.place,
        )
        pulls = Pulls(
            forge=forge,
            bench=bench,
            shipping=shipping,
            repository=surroundings.repository,
            teller=teller,
            rules=self._rules,
            publish=self._publish,
            comes_along=surroundings.comes_along,
        )
        watching = Watching(
            forge=forge,
            bench=bench,
            memory=memory,
            teller=teller,
            shipping=shipping,
            rules=self._rules,
            now=now,
            publish=self._publish,
            against=surroundings.against_unasked,
            comes_along=surroundings.comes_along,
        )
        poller = Poller(
            watching.round,
            now=now,
            call_at=surroundings.call_at,
            chance=self._chance,
            budget=lambda: forge.budget,
        )
        return _Work(memory, bench, shipping, pulls, watching, poller)

    async def _beside(self, sha: str) -> tuple[Check, ...]:
        verdicts = [await judge.verdict(sha) for judge in self.judges]
        return tuple(check for verdict in verdicts for check in checks_of(verdict))

    async def _publish(self, event: CIEvent) -> None:
        async with self._telling:
            await self._feed.publish(event)

    def _started(self) -> _Work:
        self._bound()
        if self._work is None:
            raise ProviderError(f"the {self.name} provider is not running: await start() first")
        return self._work

    def _bound(self) -> Surroundings:
        if self._surroundings is None:
            raise ProviderError(
                f"the {self.name} provider has nothing to work with yet: bind(Surroundings(...)) "
                "it first, then await start() (AgentLifecycleLoop does both by itself)"
            )
        return self._surroundings
