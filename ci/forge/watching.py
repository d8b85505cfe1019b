"""Checks what is watched on a forge and publishes what changed; one round for many waits.

Owns what is checked and in which order. When to check is decided in `ci.forge.poller`, the verdict
in `ci.forge.triage`, the form of events in `ci.forge.events`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ci.errors import ForgeError, GarbledError, MissingError, RefusedError
from ci.forge.auto_merge import AutoMerge
from ci.forge.events import JudgedCommit
from ci.forge.outage import renamed
from ci.forge.poller import RECONCILE, PollResult
from ci.forge.reviews import ReviewTracker
from ci.forge.upkeep.words_and_people import PullUpkeep
from ci.forge.watch_state import Bases, WatchState
from ci.interface import PullRequestState
from ci.verdict import VerdictStatus

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from ci.events import Check, CIEvent
    from ci.forge.events import ForgeEvents
    from ci.forge.git_sync import GitSync
    from ci.forge.memory import Memory
    from ci.forge.merge_rules import Rules
    from ci.forge.outage import Outage
    from ci.forge.protocol import Forge, ForgePull
    from ci.forge.triage import CheckTriage
    from ci.forge.upkeep.behind import BehindBase
    from ci.forge.upkeep.head_branch import HeadBranches
    from ci.forge.upkeep.issues import IssueUpkeep
    from ci.forge.upkeep.merge_queue import MergeQueue
    from ci.forge.upkeep.one_per_branch import OnePerBranch
    from ci.interface import CIWatch
    from ci.ports import MergeObjection
    from ci.verdict import Verdict

OF_ONE = (MissingError, RefusedError, GarbledError)
"""Errors that concern one wait only."""
CATCHES_UP_WITHIN = 120.0
"""Seconds in which a forge registers a push; later, somebody has reset the branch."""
UNSURE_FOR = 400.0
"""Seconds for which a forge may compute whether a pull request merges."""
QUICK_LOOKS = (2.0, 5.5, 12.0)
"""Seconds after which it is asked again at first: most compute it in less than five."""
YOUNG_FOR = 300.0
LIST_EVERY_YOUNG = 8.0
LIST_EVERY = 50.0
"""Seconds for which the list of open pull requests is reused."""


@dataclass(slots=True)
class ForgeWatcher:
    """The watches on one forge."""

    forge: Forge
    triage: CheckTriage
    memory: Memory
    events: ForgeEvents
    git_sync: GitSync
    rules: Callable[[], Rules]
    now: Callable[[], float]
    publish: Callable[[CIEvent], Awaitable[None]]
    comes_along: MergeObjection
    queue: MergeQueue
    behind: BehindBase
    head_branches: HeadBranches
    one_per_branch: OnePerBranch
    issues: IssueUpkeep
    soon: Callable[[str], None]
    """Has a watch polled now; cached facts may be used."""
    outage: Outage
    against: Callable[[str, str], Awaitable[str]] | None = None
    watches: dict[str, CIWatch] = field(default_factory=dict)
    _auto_merge: AutoMerge = field(init=False)
    bases: Bases = field(init=False)
    _known: dict[str, WatchState] = field(default_factory=dict)
    _list: dict[int, ForgePull] = field(default_factory=dict)
    _listed_at: float = float("-inf")

    def __post_init__(self) -> None:
        self._auto_merge = AutoMerge(
            self.forge,
            self.triage,
            self.rules,
            self.now,
            self.comes_along,
            self.queue,
            self.behind,
            PullUpkeep(self.forge, self.memory, self.rules),
            self.against,
        )
        self.bases = Bases(self.forge)

    def begin(self, watch: CIWatch) -> None:
        """Add a watch, with nothing known yet."""
        self.watches[watch.key] = watch
        reviewing = ReviewTracker(
            self.forge, self.memory, self.events, self.rules, self.now, self.publish
        )
        self._known[watch.key] = WatchState(begun=self.now(), reviewing=reviewing)

    def end(self, key: str) -> None:
        """Remove a watch."""
        self.watches.pop(key, None)
        self._known.pop(key, None)

    def base_moved(self, base: str) -> tuple[str, ...]:
        """Look anew at every pull request into this base; return the keys of these watches."""
        keys = tuple(key for key, known in self._known.items() if base and known.goes_into == base)
        for key in keys:
            self._known[key].base_moved = True
            self.soon(key)
        return keys

    async def round(self, keys: Mapping[str, bool]) -> Mapping[str, PollResult]:
        """Check each of these; True where cached facts must not be used."""
        answers: dict[str, PollResult] = {}
        try:
            await self._list_if_needed(keys)
            for key, uncached in keys.items():
                answers[key] = await self._look_safely(key, uncached=uncached)
        except ForgeError as error:
            rest = tuple(key for key in keys if key not in answers)
            return {**answers, **await self._nobody_answers(rest, error)}
        self.outage.ends()
        return answers

    async def _look_safely(self, key: str, *, uncached: bool) -> PollResult:
        watch = self.watches.get(key)
        if watch is None:
            return PollResult(rests=True)
        try:
            return await self._look(watch, uncached=uncached)
        except OF_ONE as error:
            await self._fails(key, error, unanswered=isinstance(error, GarbledError))
            return PollResult(not_before=error.retry_at)

    async def _fails(self, key: str, error: ForgeError, *, unanswered: bool) -> None:
        again, text = error.retry_at, str(error)
        await self.memory.stands(key, text, trouble=True, next_try=again, unanswered=unanswered)

    async def _nobody_answers(
        self, keys: tuple[str, ...], error: ForgeError
    ) -> dict[str, PollResult]:
        self.outage.goes_on(error)
        for key in keys:
            await self._fails(key, error, unanswered=True)
        return dict.fromkeys(keys, PollResult(not_before=error.retry_at))

    async def _list_if_needed(self, keys: Mapping[str, bool]) -> None:
        """Fetch the list of open pull requests once for all; most need no request of their own."""
        now = self.now()
        known = [
            self._known[key]
            for key, uncached in keys.items()
            if not uncached and key in self.watches and self.watches[key].number is not None
        ]
        if not known:
            return
        young = any(now < each.begun + YOUNG_FOR for each in known)
        if now >= self._listed_at + (LIST_EVERY_YOUNG if young else LIST_EVERY):
            self._list = {pull.number: pull for pull in await self.forge.open_pulls()}
            self._listed_at = now
            await self._look_at_bases(now)
            waited_for = {watch.number for watch in self.watches.values()}
            await self.one_per_branch.close_late(tuple(self._list.values()), waited_for)

    async def _look_at_bases(self, now: float) -> None:
        """Notice pushes to bases; where the rate budget is low, hints and reconciling do that."""
        if self.forge.budget.pause(now) > 0:
            return
        used = {known.goes_into for known in self._known.values()} - {""}
        for base in await self.bases.moved(used, self._list.values()):
            self.base_moved(base)

    async def _look(self, watch: CIWatch, *, uncached: bool) -> PollResult:
        known = self._known[watch.key]
        if known.over and not uncached:
            return PollResult(rests=True)
        owed = await self.git_sync.push_missing(watch.branch)
        if watch.number is not None:
            return await self._look_for_pull(watch, watch.number, known, owed, uncached=uncached)
        if owed:
            await self.memory.stands(watch.key, owed, trouble=True, next_try=None)
            return PollResult()
        return await self._look_at_commit(watch, known)

    async def _look_for_pull(
        self, watch: CIWatch, number: int, known: WatchState, owed: str, *, uncached: bool
    ) -> PollResult:
        pull, anew = await self._pull(number, known, uncached=uncached)
        if pull is None:
            text = f"{self.forge.place} no longer knows pull request {number}"
            await self.memory.stands(watch.key, text, trouble=True, next_try=None)
            return PollResult()
        known.pull = pull
        if pull.state is not PullRequestState.OPEN:
            known.over = True
            try:
                return await self._tell_end(watch, pull)
            except Exception:
                known.over = False  # it is still to be told
                raise
        if owed:
            return await self._tell_owed(watch, pull, owed)
        return await self._look_at_pull(watch, known, pull, uncached=anew)

    async def _tell_owed(self, watch: CIWatch, pull: ForgePull, owed: str) -> PollResult:
        """Report why a push fails; an agent can merge what somebody else pushed."""
        await self.memory.stands(watch.key, owed, trouble=True, next_try=None)
        await self._tell_foreign(watch, pull)
        return PollResult()

    async def _tell_foreign(self, watch: CIWatch, pull: ForgePull, shown: str = "") -> None:
        """Publish once that somebody else pushed; `shown` is the head that the forge shows."""
        if f"push:{shown}" in self.memory.told(pull.number):
            return
        foreign = await self.git_sync.foreign(watch.branch)
        key = f"push:{foreign}"
        if foreign and key not in self.memory.told(pull.number):
            await self.publish(self.events.pushed_by_others(pull, foreign, at=self.now()))
            await self.memory.tell(pull.number, [key])

    # --- a commit -----------------------------------------------------------------------------

    async def _look_at_commit(self, watch: CIWatch, known: WatchState) -> PollResult:
        checks = await self.triage.checks(watch.sha)
        judged = JudgedCommit(watch.sha, watch.branch, _that_count(checks))
        verdict = self.triage.verdict(watch.sha, checks)
        text = await self._tell_verdict(judged, verdict, known)
        await self._stands(watch, f"CI of {watch.sha[:12]} is {verdict.status}: {text}")
        untold = verdict.status is VerdictStatus.RED and known.red != judged.checks
        waits = verdict.status is VerdictStatus.PENDING or untold
        return PollResult(rests=not waits, again_at=self._grace_end(verdict))

    async def _tell_verdict(self, judged: JudgedCommit, verdict: Verdict, known: WatchState) -> str:
        """Publish a final verdict; return a text for people."""
        if verdict.status is VerdictStatus.RED:
            known.green = ()
            return await self._tell_red(judged, verdict, known)
        known.red = ()
        text = verdict.summary
        final = verdict.status is VerdictStatus.GREEN or verdict.enough
        if not final or (judged.checks and known.green == judged.checks):
            return text
        known.green = judged.checks
        if verdict.status is VerdictStatus.NONE:
            said = "auto" if self.rules().require_ci else "false"
            text = f"no check ran on it, which counts as green here (require_ci = {said})"
        elif self.triage.ran_again(judged.sha):
            text = f"{text}; it was red first and passed when it was rerun"
        await self.publish(self.events.green(judged, text, at=self.now()))
        return text

    async def _tell_red(self, judged: JudgedCommit, verdict: Verdict, known: WatchState) -> str:
        """Publish that it is red, unless a rerun or the settings speak against it."""
        if known.red == judged.checks:
            return verdict.summary
        second = await self.triage.second_chance(judged.sha, judged.checks)
        if second is not None:
            return second.summary
        base = judged.pull.base if judged.pull else ""
        finding = await self.triage.understand(verdict, judged.checks, base=base)
        if finding.of_the_base and not self.rules().wake_on_base_red:
            return f"{finding.text} Nobody is woken for it (wake_on_base_red = false)."
        if judged.of_others and await self.git_sync.foreign(judged.branch):
            text = (
                f"Somebody else pushed {judged.sha[:12]}, which is here as refs/loopwright/remote/"
                f"{judged.branch}: merge it first. {finding.text}"
            )
            finding = replace(finding, text=text)
        await self.publish(self.events.red(judged, finding, at=self.now()))
        known.red = judged.checks
        return finding.text

    def _grace_end(self, verdict: Verdict) -> float | None:
        green = verdict.status is VerdictStatus.GREEN and self.rules().auto_merge
        waits = green or verdict.status is VerdictStatus.PENDING
        end = self.triage.grace_end(verdict.sha)
        return end if waits and end > self.now() else None

    # --- a pull request -----------------------------------------------------------------------

    async def _pull(
        self, number: int, known: WatchState, *, uncached: bool
    ) -> tuple[ForgePull | None, bool]:
        """Return it, and whether all about it must be asked anew.

        It is fetched by itself only where the list shows a change or lacks details, or when its
        base has moved: then only whether it merges may have changed.
        """
        before, shown, now = known.pull, self._list.get(number), self.now()
        anew = (
            uncached
            or before is None
            or shown is None
            or _print(shown) != _print(before)
            or now >= known.looked_at + RECONCILE
        )
        if not anew and before is not None and not self._is_unsure(known, before, shown):
            return before, False
        moved, known.looked_at, known.base_moved = known.base_moved, now, False
        found = await self.forge.pull(number)
        if found is None or found.mergeable is not None:
            known.unsure_since = None
        elif known.unsure_since is None or moved:
            known.unsure_since = now
        return found, anew or found is None or before is None or _print(found) != _print(before)

    def _is_unsure(self, known: WatchState, before: ForgePull, shown: ForgePull | None) -> bool:
        """Return whether it may merge otherwise than was known."""
        since = known.unsure_since
        if known.base_moved or before.queued:
            return True
        if before.mergeable is None and since is not None and self.now() <= since + UNSURE_FOR:
            return True
        return bool(before.mergeable and shown is not None and shown.mergeable is False)

    async def _look_at_pull(
        self, watch: CIWatch, known: WatchState, pull: ForgePull, *, uncached: bool
    ) -> PollResult:
        foreign = pull.head_sha != watch.sha
        current = await self.behind.current(watch.branch, watch.sha, pull) if foreign else watch.sha
        if pull.head_sha != current and self.memory.ours(watch.branch, pull.head_sha):
            return await self._wait_for_push(watch, known)
        known.behind_since = None
        wait = _wait(watch)
        if pull.mergeable is False:
            return await self._tell_conflict(watch, known, pull, of_others=foreign)
        known.conflict = ("", "")
        verdict = await self._verdict(known, pull, uncached=uncached)
        counted = _that_count(known.checks)
        judged = JudgedCommit(pull.head_sha, pull.branch, counted, pull, wait, foreign)
        text = f"{pull.url} is open; {await self._tell_verdict(judged, verdict, known)}"
        if pull.head_sha != current and verdict.status is not VerdictStatus.RED:
            await self._tell_foreign(watch, pull, pull.head_sha)
            text = f"{text}; somebody else pushed {pull.head_sha[:12]}"
        reviews = await known.reviewing.tell(pull, uncached=uncached)
        if reviews.changes_wanted_by:
            text += f"; changes are wanted by {', '.join(reviews.changes_wanted_by)}"
        if known.reviewing.unheard:
            text += f"; {known.reviewing.unheard}"
        if known.reviewing.woke:
            # What it makes of the remarks belongs into the same pull request.
            await self._stands(watch, text)
            return PollResult()
        merged, note, seen = await self._auto_merge.merge(current, judged, pull, verdict, reviews)
        if merged:
            known.pull = None  # the list may still show it as it was
            self.base_moved(pull.base)
        elif seen.mergeable is False:
            known.pull = seen
            return await self._tell_conflict(watch, known, seen, of_others=foreign)
        await self._stands(watch, text + note)
        return PollResult(news=merged, again_at=self._again_at(verdict, known, merged=merged))

    def _again_at(self, verdict: Verdict, known: WatchState, *, merged: bool) -> float | None:
        if merged:
            return self.now()
        since, now = known.unsure_since, self.now()
        looks = () if since is None else (since + after for after in QUICK_LOOKS)
        return next((look for look in looks if look > now), self._grace_end(verdict))

    async def _tell_conflict(
        self, watch: CIWatch, known: WatchState, pull: ForgePull, *, of_others: bool
    ) -> PollResult:
        """Publish the conflict of a head once, with the commit to merge."""
        if known.conflict[0] != pull.head_sha:
            note = await self.git_sync.base_for_merging(pull.base)
            event = self.events.conflict(
                pull, note, at=self.now(), wait=_wait(watch), of_others=of_others
            )
            await self.publish(event)
            known.conflict = (pull.head_sha, event.summary)
        await self._stands(watch, known.conflict[1])
        return PollResult()

    async def _wait_for_push(self, watch: CIWatch, known: WatchState) -> PollResult:
        """Wait until the forge shows what was pushed; an older head of ours never counts."""
        if known.behind_since is None:
            known.behind_since = self.now()
        if self.now() > known.behind_since + CATCHES_UP_WITHIN:
            known.behind_since = None
            await self.git_sync.look_again(watch.branch)
        await self._stands(watch, f"{self.forge.place} has not registered the push yet")
        return PollResult(news=True)

    async def _verdict(self, known: WatchState, pull: ForgePull, *, uncached: bool) -> Verdict:
        """Judge the head; a final green verdict is fetched again only rarely."""
        before, now = known.verdict, self.now()
        if (
            not uncached
            and before is not None
            and before.sha == pull.head_sha
            and before.status is VerdictStatus.GREEN
            and now >= self.triage.grace_end(pull.head_sha)
            and now < known.judged_at + RECONCILE
        ):
            return before
        verdict, known.checks = await self.triage.of_pull(pull)
        known.verdict, known.judged_at = verdict, now
        return verdict

    def wait_for(self, number: int) -> str:
        """Return the name of the wait for a pull request, so that its end is published once."""
        waits = (_wait(watch) for watch in self.watches.values() if watch.number == number)
        return next(waits, "")

    async def _tell_end(self, watch: CIWatch, pull: ForgePull) -> PollResult:
        if pull.state is PullRequestState.MERGED:
            self.base_moved(pull.base)
            note = await self.git_sync.follow_base(pull.base)
            if not await self.git_sync.is_merged(watch.sha, pull.merge_commit, pull.base):
                note += f"; {watch.sha[:12]} is not in it: it takes another pull request"
            else:
                await self.issues.merged(pull)
            event = self.events.merged(pull, note, wait=_wait(watch))
            event = await self.head_branches.publish_merge(event, pull)
        else:
            event = self.events.closed(pull, wait=_wait(watch))
            await self.publish(event)
        await self.memory.ended(pull.number, pull.branch)
        await self._stands(watch, event.summary)
        return PollResult(rests=True)

    async def _stands(self, watch: CIWatch, text: str) -> None:
        known = self._known.get(watch.key)
        name = self.forge.renamed_to(known.pull.url) if known and known.pull else ""
        if name:
            text = f"{renamed(self.forge.place, name)}; {text}"
        await self.memory.stands(watch.key, text, trouble=bool(name), next_try=None)


def _wait(watch: CIWatch) -> str:
    return f":{watch.since:.3f}" if watch.since else ""


def _that_count(checks: tuple[Check, ...]) -> tuple[Check, ...]:
    return tuple(check for check in checks if check.counts)


def _print(pull: ForgePull) -> tuple[object, ...]:
    """Return a fingerprint of what the list shows."""
    return (pull.state, pull.head_sha, pull.draft, pull.updated_at)
