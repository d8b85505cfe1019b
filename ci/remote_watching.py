"""Looks at what is watched on a forge and tells what it finds; one round for many waits.

Owns what a look consists of and in which order. When to look is `ci.poller`'s business, what a
verdict is `ci.triage`'s, how a fact is worded `ci.remote_telling`'s.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ci.errors import ForgeError, GarbledError, MissingError, RefusedError
from ci.interface import PullRequestState, Trouble
from ci.pace import RECONCILE
from ci.poller import Asked
from ci.remote_reviews import Reviewing
from ci.remote_telling import Judged
from ci.remote_unasked import Unasked
from ci.verdict import VerdictStatus

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from ci.checks import Check
    from ci.events import CIEvent
    from ci.forge import Forge, ForgePull
    from ci.interface import ComesAlong, Watch
    from ci.merging import Rules
    from ci.remote_git import Shipping
    from ci.remote_memory import Memory
    from ci.remote_telling import Teller
    from ci.triage import Bench
    from ci.verdict import Verdict

OF_ONE = (MissingError, RefusedError, GarbledError)
"""Errors that say nothing about the other waits."""
CATCHES_UP_WITHIN = 120.0
"""Seconds in which a forge takes note of a push; after that somebody has set the branch back."""
UNSURE_LOOKS = 3
"""Looks in a row for which a forge may compute whether a pull request merges."""
YOUNG_FOR = 300.0
LIST_EVERY_YOUNG = 8.0
LIST_EVERY = 50.0
"""Seconds for which the list of open pull requests serves all that are looked at."""


@dataclass(slots=True)
class Known:
    """What is known of one watched thing, so that unchanged things cost nothing."""

    begun: float
    reviewing: Reviewing
    pull: ForgePull | None = None
    looked_at: float = 0.0
    """When the pull request was asked for by itself."""
    verdict: Verdict | None = None
    checks: tuple[Check, ...] = ()
    judged_at: float = 0.0
    green: tuple[Check, ...] = ()
    """The checks that were told to be green."""
    red: tuple[Check, ...] = ()
    """The checks that were told to be red."""
    unsure: int = 0
    """Looks in a row at which the forge had not found out whether it merges."""
    behind_since: float | None = None
    """Since when the forge shows a head of ours that is not the newest."""
    over: bool = False
    """It is merged or closed: nothing about it changes any more."""


@dataclass(slots=True)
class Watching:
    """Everything that is watched on one forge."""

    forge: Forge
    bench: Bench
    memory: Memory
    teller: Teller
    shipping: Shipping
    rules: Callable[[], Rules]
    now: Callable[[], float]
    publish: Callable[[CIEvent], Awaitable[None]]
    comes_along: ComesAlong
    against: Callable[[str, str], Awaitable[str]] | None = None
    watches: dict[str, Watch] = field(default_factory=dict)
    trouble: Trouble | None = None
    _unasked: Unasked = field(init=False)
    _known: dict[str, Known] = field(default_factory=dict)
    _list: dict[int, ForgePull] = field(default_factory=dict)
    _listed_at: float = float("-inf")

    def __post_init__(self) -> None:
        self._unasked = Unasked(
            self.forge, self.bench, self.rules, self.now, self.comes_along, self.against
        )

    def begin(self, watch: Watch) -> None:
        """Know nothing yet of what this waits for."""
        self.watches[watch.key] = watch
        reviewing = Reviewing(
            self.forge, self.memory, self.teller, self.rules, self.now, self.publish
        )
        self._known[watch.key] = Known(begun=self.now(), reviewing=reviewing)

    def end(self, key: str) -> None:
        """Forget what was known."""
        self.watches.pop(key, None)
        self._known.pop(key, None)

    async def round(self, keys: Mapping[str, bool]) -> Mapping[str, Asked]:
        """Look at each of these; True where nothing that was known may be relied on."""
        answers: dict[str, Asked] = {}
        try:
            await self._list_if_needed(keys)
            for key, anew in keys.items():
                answers[key] = await self._look_safely(key, anew=anew)
        except ForgeError as error:
            rest = tuple(key for key in keys if key not in answers)
            return {**answers, **await self._nobody_answers(rest, error)}
        self.trouble = None
        return answers

    async def _look_safely(self, key: str, *, anew: bool) -> Asked:
        watch = self.watches.get(key)
        if watch is None:
            return Asked(rests=True)
        try:
            return await self._look(watch, anew=anew)
        except OF_ONE as error:
            await self.memory.stands(key, str(error), trouble=True, next_try=error.retry_at)
            return Asked(not_before=error.retry_at)

    async def _nobody_answers(self, keys: tuple[str, ...], error: ForgeError) -> dict[str, Asked]:
        since = self.now() if self.trouble is None else self.trouble.since
        self.trouble = Trouble(
            place=self.forge.place, text=str(error), since=since, next_try=error.retry_at
        )
        for key in keys:
            await self.memory.stands(key, str(error), trouble=True, next_try=error.retry_at)
        return dict.fromkeys(keys, Asked(not_before=error.retry_at))

    async def _list_if_needed(self, keys: Mapping[str, bool]) -> None:
        """Ask once for all open pull requests; many that rest need no question of their own."""
        now = self.now()
        known = [
            self._known[key]
            for key, anew in keys.items()
            if not anew and key in self.watches and self.watches[key].number is not None
        ]
        if not known:
            return
        young = any(now < each.begun + YOUNG_FOR for each in known)
        if now >= self._listed_at + (LIST_EVERY_YOUNG if young else LIST_EVERY):
            self._list = {pull.number: pull for pull in await self.forge.open_pulls()}
            self._listed_at = now

    async def _look(self, watch: Watch, *, anew: bool) -> Asked:
        known = self._known[watch.key]
        if known.over and not anew:
            return Asked(rests=True)
        owed = await self.shipping.ship(watch.branch)
        if watch.number is not None:
            return await self._look_for_pull(watch, watch.number, known, owed, anew=anew)
        if owed:
            await self.memory.stands(watch.key, owed, trouble=True, next_try=None)
            return Asked()
        return await self._look_at_commit(watch, known)

    async def _look_for_pull(
        self, watch: Watch, number: int, known: Known, owed: str, *, anew: bool
    ) -> Asked:
        before = known.pull
        pull = await self._pull(number, known, anew=anew)
        if pull is None:
            text = f"{self.forge.place} does not know pull request {number} any more"
            await self.memory.stands(watch.key, text, trouble=True, next_try=None)
            return Asked()
        known.pull = pull
        if pull.state is not PullRequestState.OPEN:
            known.over = True
            return await self._tell_end(watch, pull)
        if owed:
            return await self._tell_owed(watch, pull, owed)
        return await self._look_at_pull(watch, known, pull, anew=anew or pull is not before)

    async def _tell_owed(self, watch: Watch, pull: ForgePull, owed: str) -> Asked:
        """Say what keeps a push from being done; an agent can take up what somebody else pushed."""
        await self.memory.stands(watch.key, owed, trouble=True, next_try=None)
        foreign = await self.shipping.foreign(watch.branch)
        key = f"push:{foreign}"
        if foreign and key not in self.memory.told(pull.number):
            await self.publish(self.teller.pushed_by_others(pull, foreign, at=self.now()))
            await self.memory.tell(pull.number, [key])
        return Asked()

    # --- a commit -----------------------------------------------------------------------------

    async def _look_at_commit(self, watch: Watch, known: Known) -> Asked:
        judged = Judged(watch.sha, watch.branch, await self.bench.checks(watch.sha))
        verdict = self.bench.verdict(watch.sha, judged.checks)
        text = await self._tell_verdict(judged, verdict, known)
        await self._stands(watch, f"CI of {watch.sha[:12]} is {verdict.status}: {text}")
        waits = verdict.status is VerdictStatus.PENDING
        return Asked(rests=not waits, again_at=self._grace_end(verdict))

    def _is_green(self, verdict: Verdict) -> bool:
        unchecked = verdict.status is VerdictStatus.NONE and not self.rules().require_ci
        return verdict.status is VerdictStatus.GREEN or unchecked

    async def _tell_verdict(self, judged: Judged, verdict: Verdict, known: Known) -> str:
        """Tell it if it is one; return it in words for people."""
        if verdict.status is VerdictStatus.RED:
            known.green = ()
            return await self._tell_red(judged, verdict, known)
        known.red = ()
        text = verdict.summary
        if not self._is_green(verdict):
            return text
        if judged.checks and known.green == judged.checks:
            return text
        known.green = judged.checks
        if verdict.status is VerdictStatus.NONE:
            text = "no check ran on it, which counts as green here (require_ci = false)"
        elif self.bench.ran_again(judged.sha):
            text = f"{text}; it was red first and passed when it was run once more"
        await self.publish(self.teller.green(judged, text, at=self.now()))
        return text

    async def _tell_red(self, judged: Judged, verdict: Verdict, known: Known) -> str:
        """Tell that it is red, unless a second run or the settings speak against waking for it."""
        if known.red == judged.checks:
            return verdict.summary
        second = await self.bench.second_chance(judged.sha, judged.checks)
        if second is not None:
            return second.summary
        base = judged.pull.base if judged.pull else ""
        finding = await self.bench.understand(judged.sha, judged.checks, base=base)
        if finding.of_the_base and not self.rules().wake_on_base_red:
            return f"{finding.text} Nobody is woken for it (wake_on_base_red = false)."
        if judged.of_others and await self.shipping.foreign(judged.branch):
            text = (
                f"Somebody else pushed {judged.sha[:12]}, which is here as refs/loopwright/remote/"
                f"{judged.branch}: merge it first. {finding.text}"
            )
            finding = replace(finding, text=text)
        await self.publish(self.teller.red(judged, finding, at=self.now()))
        known.red = judged.checks
        return finding.text

    def _grace_end(self, verdict: Verdict) -> float | None:
        waits = verdict.status is VerdictStatus.PENDING
        end = self.bench.grace_end(verdict.sha)
        return end if waits and end > self.now() else None

    # --- a pull request -----------------------------------------------------------------------

    async def _pull(self, number: int, known: Known, *, anew: bool) -> ForgePull | None:
        """Return it, asked for by itself only where the list shows a change or says too little."""
        before, shown, now = known.pull, self._list.get(number), self.now()
        if (
            not anew
            and before is not None
            and shown is not None
            and _print(shown) == _print(before)
            and (before.mergeable is not None or known.unsure > UNSURE_LOOKS)
            and now < known.looked_at + RECONCILE
        ):
            return before
        known.looked_at = now
        found = await self.forge.pull(number)
        known.unsure = known.unsure + 1 if found is not None and found.mergeable is None else 0
        return found

    async def _look_at_pull(
        self, watch: Watch, known: Known, pull: ForgePull, *, anew: bool
    ) -> Asked:
        foreign = pull.head_sha != watch.sha
        if foreign and self.memory.ours(watch.branch, pull.head_sha):
            return await self._wait_for_push(watch, known)
        known.behind_since = None
        wait = f":{watch.since:.3f}" if watch.since else ""
        if pull.mergeable is False:
            note = await self.shipping.base_for_merging(pull.base)
            event = self.teller.conflict(pull, note, at=self.now(), wait=wait, of_others=foreign)
            await self.publish(event)
            await self._stands(watch, event.summary)
            return Asked()
        verdict = await self._verdict(known, pull, anew=anew)
        judged = Judged(pull.head_sha, pull.branch, known.checks, pull, wait, foreign)
        text = f"{pull.url} is open; {await self._tell_verdict(judged, verdict, known)}"
        reviews = await known.reviewing.tell(pull, anew=anew)
        if reviews.changes_wanted_by:
            text += f"; changes are wanted by {', '.join(reviews.changes_wanted_by)}"
        merged, note = await self._unasked.merge(watch, pull, verdict, reviews)
        if merged:
            known.pull = None  # the list may still show it as it was
        await self._stands(watch, text + note)
        return Asked(news=merged, again_at=self.now() if merged else self._grace_end(verdict))

    async def _wait_for_push(self, watch: Watch, known: Known) -> Asked:
        """Wait for the forge to show what was pushed; an older head of ours never counts."""
        if known.behind_since is None:
            known.behind_since = self.now()
        if self.now() > known.behind_since + CATCHES_UP_WITHIN:
            known.behind_since = None
            await self.shipping.look_again(watch.branch)
        await self._stands(watch, f"{self.forge.place} has not taken note of the push yet")
        return Asked(news=True)

    async def _verdict(self, known: Known, pull: ForgePull, *, anew: bool) -> Verdict:
        """Judge the head; what is all through is asked again only now and then."""
        before, now = known.verdict, self.now()
        if (
            not anew
            and before is not None
            and before.sha == pull.head_sha
            and before.status is VerdictStatus.GREEN
            and now >= self.bench.grace_end(pull.head_sha)
            and now < known.judged_at + RECONCILE
        ):
            return before
        known.checks, known.judged_at = await self.bench.checks(pull.head_sha), now
        known.verdict = self.bench.verdict(pull.head_sha, known.checks)
        return known.verdict

    async def _tell_end(self, watch: Watch, pull: ForgePull) -> Asked:
        wait = f":{watch.since:.3f}" if watch.since else ""
        if pull.state is PullRequestState.MERGED:
            note = await self.shipping.follow_base(pull.base)
            event = self.teller.merged(pull, note, wait=wait)
        else:
            event = self.teller.closed(pull, wait=wait)
        await self.publish(event)
        await self._stands(watch, event.summary)
        return Asked(rests=True)

    async def _stands(self, watch: Watch, text: str) -> None:
        await self.memory.stands(watch.key, text, trouble=False, next_try=None)


def _print(pull: ForgePull) -> tuple[object, ...]:
    """Return what changes when anything about it changes that a list shows."""
    return (pull.state, pull.head_sha, pull.base_sha, pull.draft, pull.updated_at)
