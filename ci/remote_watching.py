"""Looks at what is watched on a forge and tells what it finds; one round for many waits.

Owns what a look consists of and in which order. When to look is `ci.poller`'s business, what a
verdict is `ci.triage`'s, how a fact is worded `ci.remote_telling`'s.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ci.errors import ForgeError, GarbledError, MissingError, RefusedError
from ci.interface import PullRequestState, Trouble
from ci.merging import objection
from ci.pace import RECONCILE
from ci.poller import Asked
from ci.remote_telling import Judged
from ci.verdict import VerdictStatus

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from ci.checks import Check
    from ci.events import CIEvent
    from ci.forge import Forge, ForgePull, Remark, Reviews
    from ci.interface import Watch
    from ci.merging import Rules
    from ci.remote_git import Shipping
    from ci.remote_memory import Memory
    from ci.remote_telling import Teller
    from ci.triage import Bench
    from ci.verdict import Verdict

OF_ONE = (MissingError, RefusedError, GarbledError)
"""Errors that say nothing about the other waits."""
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
    pull: ForgePull | None = None
    looked_at: float = 0.0
    """When the pull request was asked for by itself."""
    verdict: Verdict | None = None
    checks: tuple[Check, ...] = ()
    judged_at: float = 0.0
    red: tuple[Check, ...] = ()
    """The checks that were told to be red."""
    reviews: Reviews | None = None
    reviewed_at: float = -1.0
    """`updated_at` of the pull request when its reviews were read."""
    unsure: int = 0
    """Looks in a row at which the forge had not found out whether it merges."""
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
    watches: dict[str, Watch] = field(default_factory=dict)
    trouble: Trouble | None = None
    _known: dict[str, Known] = field(default_factory=dict)
    _list: dict[int, ForgePull] = field(default_factory=dict)
    _listed_at: float = float("-inf")

    def begin(self, watch: Watch) -> None:
        """Know nothing yet of what this waits for."""
        self.watches[watch.key] = watch
        self._known[watch.key] = Known(begun=self.now())

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
        if owed:
            await self.memory.stands(watch.key, owed, trouble=True, next_try=None)
            return Asked()
        if watch.number is None:
            return await self._look_at_commit(watch, known)
        before = known.pull
        pull = await self._pull(watch.number, known, anew=anew)
        if pull is None:
            text = f"{self.forge.place} does not know pull request {watch.number} any more"
            await self.memory.stands(watch.key, text, trouble=True, next_try=None)
            return Asked(rests=True)
        known.pull = pull
        return await self._look_at_pull(watch, known, pull, anew=anew or pull is not before)

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
            return await self._tell_red(judged, verdict, known)
        known.red = ()
        text = verdict.summary
        if not self._is_green(verdict):
            return text
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
        if pull.state is not PullRequestState.OPEN:
            known.over = True
            return await self._tell_end(watch, pull)
        if pull.head_sha != watch.sha and self.memory.ours(watch.branch, pull.head_sha):
            await self._stands(watch, f"{self.forge.place} has not taken note of the push yet")
            return Asked(news=True)
        if pull.mergeable is False:
            note = await self.shipping.base_for_merging(pull.base)
            event = self.teller.conflict(pull, note, at=self.now())
            await self.publish(event)
            await self._stands(watch, event.summary)
            return Asked()
        verdict = await self._verdict(known, pull, anew=anew)
        judged = Judged(pull.head_sha, pull.branch, known.checks, pull)
        text = f"{pull.url} is open; {await self._tell_verdict(judged, verdict, known)}"
        reviews = await self._tell_remarks(known, pull)
        merged, note = await self._merge_unasked(pull, verdict, reviews)
        if merged:
            known.pull = None  # the list may still show it as it was
        await self._stands(watch, text + note)
        return Asked(news=merged, again_at=self.now() if merged else self._grace_end(verdict))

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
        if pull.state is PullRequestState.MERGED:
            event = self.teller.merged(pull, await self.shipping.follow_base(pull.base))
        else:
            event = self.teller.closed(pull)
        await self.publish(event)
        await self._stands(watch, event.summary)
        return Asked(rests=True)

    async def _tell_remarks(self, known: Known, pull: ForgePull) -> Reviews:
        if known.reviews is None or known.reviewed_at != pull.updated_at:
            known.reviews = await self.forge.reviews(pull)
            known.reviewed_at = pull.updated_at
        told = self.memory.told(pull.number)
        fresh = [
            remark
            for remark in known.reviews.remarks
            if remark.key not in told and self._heard(remark)
        ]
        wanted = [remark.author for remark in fresh if remark.wants_changes]
        if wanted or (fresh and self.rules().wake_on_comments):
            event = self.teller.changes_requested(pull, fresh, wanted, at=self.now())
            await self.publish(event)
            await self.memory.tell(pull.number, [remark.key for remark in fresh])
        return known.reviews

    def _heard(self, remark: Remark) -> bool:
        allowed = self.rules().review_authors
        return remark.author in allowed if allowed else remark.trusted

    async def _merge_unasked(
        self, pull: ForgePull, verdict: Verdict, reviews: Reviews
    ) -> tuple[bool, str]:
        """Merge it if that is wanted and nothing at all speaks against it; say what does."""
        rules = self.rules()
        if pull.queued:
            return False, "; it stands in the merge queue"
        if not rules.auto_merge:
            return False, ""
        against = objection(pull, verdict, reviews, rules, sha=verdict.sha)
        if not against and pull.mergeable is None:
            against = "the forge has not found out yet whether it merges"
        if not against and self.now() < self.bench.grace_end(pull.head_sha):
            against = "more checks may still begin"
        if against:
            return False, f"; not merged yet: {against}"
        result = await self.forge.merge(
            pull, sha=pull.head_sha, method=rules.merge_method, message=""
        )
        return result.merged, "" if result.merged else f"; not merged yet: {result.reason}"

    async def _stands(self, watch: Watch, text: str) -> None:
        await self.memory.stands(watch.key, text, trouble=False, next_try=None)


def _print(pull: ForgePull) -> tuple[object, ...]:
    """Return what changes when anything about it changes that a list shows."""
    return (pull.state, pull.head_sha, pull.base_sha, pull.draft, pull.updated_at)
