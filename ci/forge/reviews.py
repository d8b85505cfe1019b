"""The reviews of one pull request, published once to the lifecycle that waits.

Owns whose comments count, what was published already, and when reviews are read again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci.forge.poller import RECONCILE
from ci.forge.replies import is_reply
from ci.forge.reviewers import counted, is_bot, is_heard, unheard

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ci.events import CIEvent, ReviewComment
    from ci.forge.events import ForgeEvents
    from ci.forge.memory import Memory
    from ci.forge.merge_rules import Rules
    from ci.forge.protocol import Forge, ForgePull, Reviews

SAME_SECOND = 2.0
"""Seconds within which two changes may have the same time stamp."""


@dataclass(slots=True)
class ReviewTracker:
    """The reviews of the pull request that one wait is about."""

    forge: Forge
    memory: Memory
    events: ForgeEvents
    rules: Callable[[], Rules]
    now: Callable[[], float]
    publish: Callable[[CIEvent], Awaitable[None]]
    woke: bool = False
    """An attempt was woken by what reviewers said."""
    unheard: str = ""
    """Whose remarks the agent is not told, in words for people."""
    _reviews: Reviews | None = None
    _of: float = -1.0
    """`updated_at` of the pull request when they were read."""
    _read_at: float = 0.0

    async def tell(self, pull: ForgePull, *, uncached: bool) -> Reviews:
        """Publish what is new; return all reviews so far, as far as they count."""
        reviews = self._counted(await self._read(pull, uncached=uncached))
        told = self.memory.told(pull.number)
        fresh = [
            remark
            for remark in reviews.remarks
            if remark.key not in told and not remark.resolved and self._heard(remark)
        ]
        wordless = [
            who
            for who in reviews.changes_wanted_by
            if _wants(who) not in told
            and self._hears(who, trusted=True)
            and not any(each.author == who for each in fresh)
        ]
        wanted = {remark.author for remark in fresh if remark.wants_changes} | set(wordless)
        if wanted or (fresh and self.rules().wake_on_comments):
            by_bots = all(is_bot(each.author, trusted=each.trusted) for each in fresh) and all(
                is_bot(who, trusted=who not in reviews.changes_wanted_by_others) for who in wordless
            )
            event = self.events.changes_requested(
                pull, fresh, wanted, by_bots=by_bots, at=self.now()
            )
            await self.publish(event)
            self.woke = True
            keys = [remark.key for remark in fresh]
            await self.memory.tell(
                pull.number, [*keys, *(_wants(who) for who in reviews.changes_wanted_by)]
            )
        # A reviewer who withdraws a request may make a new one later.
        wanting = {_wants(who) for who in reviews.changes_wanted_by}
        content = [key for key in told if key.startswith(_wants("")) and key not in wanting]
        if content:
            await self.memory.untell(pull.number, content)
        return reviews

    def _counted(self, reviews: Reviews) -> Reviews:
        """Return what counts of them, and note who is not heard."""
        found = counted(reviews, self.rules())
        silent = {
            remark.author
            for remark in reviews.remarks
            if not is_ours(remark) and not self._hears(remark.author, trusted=remark.trusted)
        }
        others = set(reviews.changes_wanted_by_others) - set(found.changes_wanted_by)
        self.unheard = unheard(sorted(silent | others))
        return found

    async def _read(self, pull: ForgePull, *, uncached: bool) -> Reviews:
        """Read the reviews, again wherever something may have been added since."""
        now, before = self.now(), self._reviews
        if (
            not uncached
            and before is not None
            and self._of == pull.updated_at
            and self._read_at > pull.updated_at + SAME_SECOND
            and now < self._read_at + RECONCILE
        ):
            return before
        self._of, self._read_at = pull.updated_at, now
        self._reviews = await self.forge.reviews(pull)
        return self._reviews

    def _heard(self, remark: ReviewComment) -> bool:
        if is_ours(remark):
            return False  # an agent must not wake itself by its own comments
        return self._hears(remark.author, trusted=remark.trusted)

    def _hears(self, who: str, *, trusted: bool = False) -> bool:
        return is_heard(who, self.rules(), trusted=trusted)


def is_ours(remark: ReviewComment) -> bool:
    """Return whether we wrote it; a token without a user is not known by its name."""
    return remark.own or is_reply(remark)


def _wants(who: str) -> str:
    """Return the key that marks somebody's change request as published."""
    return f"wants:{who}"
