"""What is known of one watch on a forge, so that unchanged things cost no request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ci.events import Check
    from ci.forge.protocol import ForgePull
    from ci.forge.reviews import ReviewTracker
    from ci.verdict import Verdict


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
    unsure: int = 0
    """Consecutive polls in which the forge had not computed whether it merges."""
    behind_since: float | None = None
    """Since when the forge shows a head of ours that is not the newest."""
    over: bool = False
    """It is merged or closed, and will not change."""

    @property
    def goes_into(self) -> str:
        """The base of its open pull request; empty if there is none."""
        return self.pull.base if self.pull is not None and not self.over else ""
