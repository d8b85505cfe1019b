"""The provider for CI without a forge: signed webhooks report to it, and it may poll a command.

Owns the provider's lifecycle and when the command is run. Verdicts come only from reports, which
`ci.generic.ledger` stores. There are no pull requests.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci.errors import ForgeError, ProviderError, UnknownPullRequestError
from ci.forge.poller import Poller, PollResult
from ci.forge_registry import FORGES
from ci.generic.ledger import GenericLedger
from ci.generic.poll_command import PollCommand
from ci.generic.webhooks import check_of
from ci.interface import USUAL_TERMS, MergeTerms, Trouble
from ci.provider import BaseProvider
from ci.verdict import VerdictStatus
from ci.webhook_delivery import document

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ci.forge.merge_rules import Rules
    from ci.interface import CIWatch, MergeResult, PullRequest
    from ci.ports import ProviderPorts
    from ci.verdict import Verdict
    from ci.webhook_delivery import Delivery, Hint

NAME = "generic"
EVENTS = "ci.generic.events"


@dataclass(frozen=True, slots=True)
class _Work:
    """The parts of a started provider."""

    ledger: GenericLedger
    poller: Poller
    poll: PollCommand | None


class GenericProvider(BaseProvider[_Work]):
    """Judges commits by reports, in whatever order these arrive."""

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
        super().__init__(EVENTS)
        self._rules = rules
        self._poll_command = poll_command
        self._expected = tuple(expected)
        """Names of the checks that a green commit must have."""
        self._chance = chance
        self._watches: dict[str, CIWatch] = {}
        self._trouble: Trouble | None = None

    # --- lifecycle ----------------------------------------------------------------------------

    async def start(self) -> None:
        """Read the reports, and publish the events that a crash prevented."""
        async with self._life:
            if self._work is None:
                bound = self._bound()
                work = self._set_up(bound)
                await self._log.open(bound.documents)
                await work.ledger.load()
                self._work = work

    def _set_up(self, ports: ProviderPorts) -> _Work:
        if ports.call_at is None:
            raise ProviderError("the generic provider needs ProviderPorts with `call_at`")
        ledger = GenericLedger(
            ports.documents,
            self._log,
            rules=self._rules,
            expected=self._expected,
            now=ports.now,
        )
        poller = Poller(
            self._round,
            now=ports.now,
            call_at=ports.call_at,
            chance=self._chance,
        )
        poll = None
        if self._poll_command:
            folder = ports.folder / "polls"
            poll = PollCommand(self._poll_command, ports.commands, folder)
        return _Work(ledger, poller, poll)

    async def aclose(self) -> None:
        """Stop polling; the stored reports stay for `start`."""
        async with self._life:
            work, self._work = self._work, None
            self._watches.clear()
            self._trouble = None
            if work is not None:
                await work.poller.aclose()
                await work.ledger.drain()
            await self._log.flush()

    # --- what is told -------------------------------------------------------------------------

    async def report(self, delivery: Delivery) -> bool:
        """Store the check that a delivery reports; False if it was sent to another provider.

        ValueError says what is wrong with it.
        """
        if delivery.provider != NAME:
            return False
        body = document(delivery.headers, delivery.body) or {}
        check = check_of(body)
        if check.at is None and check.number is None:
            # Otherwise a late or repeated copy would count as the newest.
            raise ValueError(
                "a check needs `at` (when it happened) or `number` (which run it was), to tell "
                "which of two reports is newer"
            )
        await self._started().ledger.learn([check], heard_at=delivery.received_at)
        return True

    async def pushed(self, branch: str, sha: str) -> None:
        """Expect reports of the newest commit of a branch; they may exist already."""
        await self._started().ledger.push(branch, sha)

    async def verdict(self, sha: str) -> Verdict:
        """Judge exactly this commit by its reports."""
        return self._started().ledger.verdict(sha)

    # --- what waits ---------------------------------------------------------------------------

    def watch(self, watch: CIWatch) -> Callable[[], None]:
        """Poll the command, if there is one, starting at once."""
        poller = self._started().poller
        self._watches[watch.key] = watch
        poller.add(watch.key)

        def over() -> None:
            if self._watches.get(watch.key) is watch:
                del self._watches[watch.key]
                poller.remove(watch.key)

        return over

    async def take(self, hint: Hint) -> tuple[str, ...]:
        """Check at once what the hint concerns, and return the keys of these waits."""
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
        """Return None."""
        del ref
        return None

    async def find_pull_request(self, branch: str) -> PullRequest | None:
        """Return None."""
        del branch
        return None

    async def create_pull_request(
        self, *, branch: str, base: str, title: str, body: str = ""
    ) -> PullRequest:
        """Refuse."""
        del base, title, body
        raise ProviderError(
            f"no pull request can be opened for {branch}: the generic provider only judges "
            f"commits; configure a forge ({', '.join(FORGES)}) or local beside it"
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

    async def _round(self, keys: Mapping[str, bool]) -> Mapping[str, PollResult]:
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

    def _asked(self, work: _Work, watch: CIWatch | None) -> PollResult:
        if watch is None:
            return PollResult(rests=True)
        rests = work.poll is None or not self._is_open(work, watch.sha)
        return PollResult(rests=rests, again_at=work.ledger.grace_end(watch.sha))

    def _is_open(self, work: _Work, sha: str) -> bool:
        # A red commit may be rerun; a green one is final.
        return bool(sha) and work.ledger.verdict(sha).status is not VerdictStatus.GREEN

    def _note(self, failed: Exception | None) -> None:
        if failed is None:
            self._trouble = None
            return
        since = self._bound().now() if self._trouble is None else self._trouble.since
        self._trouble = Trouble(place="the poll command", text=str(failed), since=since)


def _unknown(number: int) -> UnknownPullRequestError:
    return UnknownPullRequestError(
        f"the generic provider keeps no pull requests, so there is no number {number}"
    )
