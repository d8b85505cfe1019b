"""What is known of watches on a forge and of their bases, so that unchanged things cost nothing.

What is looked at because of that is decided in `ci.forge.watching`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ci.errors import GarbledError, MissingError, RefusedError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from ci.events import Check
    from ci.forge.protocol import Forge, ForgePull
    from ci.forge.reviews import ReviewTracker
    from ci.verdict import Verdict


COMMITS_KEPT = 50
"""Commits of each base of which it is known that they were looked into."""


@dataclass(slots=True)
class WatchState:
    """What is known of one watch, so that unchanged things cost no request."""

    begun: float
    reviewing: ReviewTracker
    pull: ForgePull | None = None
    looked_at: float = 0.0
    """When the pull request was last fetched by itself."""
    verdict: Verdict | None = None
    checks: tuple[Check, ...] = ()
    judged_at: float = 0.0
    green: tuple[Check, ...] = ()
    """The checks that were published as green."""
    red: tuple[Check, ...] = ()
    """The checks that were published as red."""
    base_moved: bool = False
    """Its base has new commits, so whether it merges must be asked anew."""
    conflict: tuple[str, str] = ("", "")
    """The head whose conflict was published, and its text."""
    unsure_since: float | None = None
    """Since when the forge computes whether it merges with the base as it is now."""
    behind_since: float | None = None
    """Since when the forge shows a head of ours that is not the newest."""
    over: bool = False
    """It is merged or closed, and will not change."""

    @property
    def goes_into(self) -> str:
        """The base of its open pull request; empty if there is none."""
        return self.pull.base if self.pull is not None and not self.over else ""


class Bases:
    """The heads of base branches on one forge."""

    def __init__(self, forge: Forge) -> None:
        self._forge = forge
        self._heads: dict[str, str] = {}
        self._looked_into: dict[str, list[str]] = {}

    async def moved(self, bases: Collection[str], listed: Iterable[ForgePull]) -> tuple[str, ...]:
        """Return which of the bases have moved since the last call.

        A forge whose list of pull requests shows the heads of their bases is asked nothing more.
        """
        shown = {pull.base: pull.base_head for pull in listed if pull.base_head}
        heads = {base: shown.get(base) or await self._ask(base) for base in sorted(bases)}
        # One that could not be asked is compared with what was known of it the next time.
        before, known = self._heads, {base: head for base, head in heads.items() if head}
        self._heads = {**before, **known}
        return tuple(base for base, head in known.items() if before.get(base, head) != head)

    def is_new(self, base: str, commit: str) -> bool:
        """Return whether a hint about this commit is a reason to look: its checks hint, too."""
        return not commit or commit not in self._looked_into.get(base, ())

    def looked_into(self, base: str, commit: str) -> None:
        """Record that all that goes into the base was looked at since this commit was hinted at."""
        self._looked_into[base] = [*self._looked_into.get(base, ()), commit][-COMMITS_KEPT:]

    async def _ask(self, base: str) -> str:
        try:
            return await self._forge.head(base) or ""
        except (GarbledError, MissingError, RefusedError):
            return ""
