"""Merging a pull request automatically: only where nothing speaks against it.

Owns re-checking everything right before the merge, and the extra conditions of automatic merges.
The conditions of every merge are in `ci.forge.merge_rules`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ci.errors import ForbiddenError, RefusedError
from ci.forge.merge_rules import objection, squash_message
from ci.forge.reviewers import counted
from ci.verdict import VerdictStatus

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ci.forge.events import JudgedCommit
    from ci.forge.merge_rules import Rules
    from ci.forge.protocol import Forge, ForgePull, Reviews
    from ci.forge.triage import CheckTriage
    from ci.forge.upkeep.behind import BehindBase
    from ci.forge.upkeep.merge_queue import MergeQueue
    from ci.forge.upkeep.words_and_people import PullUpkeep
    from ci.ports import MergeObjection
    from ci.verdict import Verdict


@dataclass(frozen=True, slots=True)
class AutoMerge:
    """Automatic merges on one forge."""

    forge: Forge
    triage: CheckTriage
    rules: Callable[[], Rules]
    now: Callable[[], float]
    comes_along: MergeObjection
    queue: MergeQueue
    behind: BehindBase
    upkeep: PullUpkeep
    against: Callable[[str, str], Awaitable[str]] | None = None
    """Returns why a head must not be merged into a base automatically, or nothing."""

    async def merge(
        self,
        sha: str,
        judged: JudgedCommit,
        pull: ForgePull,
        verdict: Verdict,
        reviews: Reviews,
    ) -> tuple[bool, str, ForgePull]:
        """Merge exactly this commit if enabled and nothing speaks against it.

        Return whether it was merged, why not, and the pull request as it was seen last.
        """
        await self.upkeep.ask_people(pull)
        if verdict.status is VerdictStatus.GREEN and await self.upkeep.ready(pull):
            return False, "; it was a draft and is marked as ready, as it is green", pull
        looked = await self.queue.look(judged, pull)
        if not (looked.may_enter and self.rules().auto_merge):
            return False, looked.note, pull
        against = self._against(sha, pull, verdict, reviews)
        if not against and self.against is not None:
            against = await self.against(pull.base, pull.head_sha)
        if not against:
            # Cached facts may be old: everything is checked again right now.
            found = await self.forge.pull(pull.number)
            if found is None:
                return False, "", pull
            pull = found
            verdict, _ = await self.triage.of_pull(found)
            reviews = counted(await self.forge.reviews(found), self.rules())
            against = self._against(sha, found, verdict, reviews)
            against = against or await self.comes_along(pull.branch, sha, pull.base)
        if against:
            return False, f"; not merged yet: {against}", pull
        merged, note = await self._order(sha, pull)
        return merged, note, pull

    async def _order(self, sha: str, pull: ForgePull) -> tuple[bool, str]:
        if pull.behind:
            return False, f"; not merged yet: {await self.behind.bring_up(pull)}"
        try:
            rules = self.rules()
            words = squash_message(pull, rules, self.forge.mark)
            order = partial(
                self.forge.merge, pull, sha=sha, method=rules.merge_method, message=words
            )
            result = await self.queue.order(pull, order)
        except (RefusedError, ForbiddenError) as refusal:
            return False, f"; not merged yet: {refusal}"
        if result.queued:
            return False, f"; it was put into the {self.forge.queue}"
        if result.merged:
            return True, ""
        reason = result.reason
        if result.behind:
            reason = await self.behind.bring_up(pull)
        return False, f"; not merged yet: {reason}"

    def _against(self, sha: str, pull: ForgePull, verdict: Verdict, reviews: Reviews) -> str:
        """Return why it must not be merged automatically; stricter than for a person."""
        if pull.head_sha != sha:
            return f"its head {pull.head_sha[:12]} is not a commit of this agent"
        if pull.mergeable is None:
            return "the forge has not computed yet whether it can be merged"
        if self.now() < self.triage.grace_end(pull.head_sha):
            return "more checks may still begin"
        if pull.behind:
            # That is mended where nothing else speaks against the merge.
            pull = pull.model_copy(update={"hindrance": ""})
        return objection(pull, verdict, reviews, self.rules(), sha=sha)
