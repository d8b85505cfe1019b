"""Merging a pull request unasked: only where nothing at all speaks against it.

Owns that what was kept is asked for anew right before. What speaks against a merge that somebody
asked for is `ci.merging`'s business; unasked there is more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci.errors import ForbiddenError, RefusedError
from ci.merging import objection

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ci.forge import Forge, ForgePull, Reviews
    from ci.interface import ComesAlong, Watch
    from ci.merging import Rules
    from ci.triage import Bench
    from ci.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Unasked:
    """Merges on one forge."""

    forge: Forge
    bench: Bench
    rules: Callable[[], Rules]
    now: Callable[[], float]
    comes_along: ComesAlong
    against: Callable[[str, str], Awaitable[str]] | None = None
    """Says, of a base branch and a head, why nobody merges that without being asked."""

    async def merge(
        self, watch: Watch, pull: ForgePull, verdict: Verdict, reviews: Reviews
    ) -> tuple[bool, str]:
        """Merge it if that is wanted and nothing at all speaks against it; say what does."""
        if pull.queued:
            return False, "; it stands in the merge queue"
        if not self.rules().auto_merge:
            return False, ""
        against = self._against(watch, pull, verdict, reviews)
        if not against and self.against is not None:
            against = await self.against(pull.base, pull.head_sha)
        if not against:
            # What was kept may be old: nothing is merged that is not so at this moment.
            found = await self.forge.pull(pull.number)
            if found is None:
                return False, ""
            checks = await self.bench.checks(found.head_sha)
            verdict = self.bench.verdict(found.head_sha, checks)
            against = self._against(watch, found, verdict, await self.forge.reviews(found))
            against = against or await self.comes_along(pull.branch, watch.sha, pull.base)
        if against:
            return False, f"; not merged yet: {against}"
        try:
            result = await self.forge.merge(
                pull, sha=watch.sha, method=self.rules().merge_method, message=""
            )
        except (RefusedError, ForbiddenError) as refusal:
            return False, f"; not merged yet: {refusal}"
        return result.merged, "" if result.merged else f"; not merged yet: {result.reason}"

    def _against(self, watch: Watch, pull: ForgePull, verdict: Verdict, reviews: Reviews) -> str:
        """Say what speaks against merging it unasked, which is more than if a person asks."""
        if pull.head_sha != watch.sha:
            return f"its head {pull.head_sha[:12]} is no commit of this agent"
        if pull.mergeable is None:
            return "the forge has not found out yet whether it merges"
        if self.now() < self.bench.grace_end(pull.head_sha):
            return "more checks may still begin"
        return objection(pull, verdict, reviews, self.rules(), sha=watch.sha)
