"""What reviewers of one pull request said, and telling it once to whoever waits.

Owns whose words are heard, what was told already, and when it is read anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci.pace import RECONCILE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ci.events import CIEvent
    from ci.forge import Forge, ForgePull, Remark, Reviews
    from ci.merging import Rules
    from ci.remote_memory import Memory
    from ci.remote_telling import Teller

SAME_SECOND = 2.0
"""Seconds within which two changes may bear the same time."""


@dataclass(slots=True)
class Reviewing:
    """The reviews of what one wait is about."""

    forge: Forge
    memory: Memory
    teller: Teller
    rules: Callable[[], Rules]
    now: Callable[[], float]
    publish: Callable[[CIEvent], Awaitable[None]]
    _reviews: Reviews | None = None
    _of: float = -1.0
    """`updated_at` of the pull request when they were read."""
    _read_at: float = 0.0

    async def tell(self, pull: ForgePull, *, anew: bool) -> Reviews:
        """Tell what is new; return what reviewers said so far."""
        reviews = await self._read(pull, anew=anew)
        told = self.memory.told(pull.number)
        fresh = [
            remark for remark in reviews.remarks if remark.key not in told and self._heard(remark)
        ]
        wordless = [
            who
            for who in reviews.changes_wanted_by
            if _wants(who) not in told and not any(each.author == who for each in fresh)
        ]
        wanted = {remark.author for remark in fresh if remark.wants_changes} | set(wordless)
        if wanted or (fresh and self.rules().wake_on_comments):
            event = self.teller.changes_requested(pull, fresh, wanted, at=self.now())
            await self.publish(event)
            keys = [remark.key for remark in fresh]
            await self.memory.tell(
                pull.number, [*keys, *(_wants(who) for who in reviews.changes_wanted_by)]
            )
        # Who is content again may want something else later.
        wanting = {_wants(who) for who in reviews.changes_wanted_by}
        content = [key for key in told if key.startswith(_wants("")) and key not in wanting]
        if content:
            await self.memory.untell(pull.number, content)
        return reviews

    async def _read(self, pull: ForgePull, *, anew: bool) -> Reviews:
        """Read what reviewers said, anew wherever something may have been added since."""
        now, before = self.now(), self._reviews
        if (
            not anew
            and before is not None
            and self._of == pull.updated_at
            and self._read_at > pull.updated_at + SAME_SECOND
            and now < self._read_at + RECONCILE
        ):
            return before
        self._of, self._read_at = pull.updated_at, now
        self._reviews = await self.forge.reviews(pull)
        return self._reviews

    def _heard(self, remark: Remark) -> bool:
        if remark.own:
            return False  # an agent must not wake itself with its own words
        allowed = self.rules().review_authors
        return remark.author in allowed if allowed else remark.trusted


def _wants(who: str) -> str:
    """Return the key under which it is remembered that somebody's wish was told."""
    return f"wants:{who}"
