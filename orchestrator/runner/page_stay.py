"""Whether a runner whose loops rest stays for somebody who decides in its pages.

Owns how long, and the word about it. What waits for a decision is the review's business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.review.queue import waiting
from orchestrator.terminal.text import span

if TYPE_CHECKING:
    from collections.abc import Callable

    from lifecycle.engine.engine import LocalEngine
    from lifecycle.reporting import Committed
    from orchestrator.approval.approvals import Approvals
    from orchestrator.runner.server_interface import Beside

LAST_LOOK = 5.0
"""Seconds after the last request in which its answer is shown, when nothing waits any more."""


class PageStay:
    """Asked again and again once all loops rest."""

    def __init__(
        self,
        engine: LocalEngine,
        beside: Beside,
        approvals: Approvals | None,
        tell: Callable[[str], None],
    ) -> None:
        self._engine, self._beside = engine, beside
        self._approvals, self._tell = approvals, tell
        self.told = False
        """Whether it was said that this stays."""
        self._decided = 0
        """How many decisions were committed since."""
        self._known = -1, False
        """After how many of them it was read whether a lifecycle waits, and whether one does."""
        engine.shared.observers.append(self._news)

    def close(self) -> None:
        """Ask no more."""
        self._engine.shared.observers.remove(self._news)

    async def wanted(self) -> bool:
        """Tell whether something waits for a decision, and the pages are in use."""
        shared, used_at = self._engine.shared, self._beside.used_at
        most = shared.settings().stay_for_pages
        if used_at is None or (unused := shared.clock.now() - used_at) >= most:
            return False
        if not await self._waits():
            return unused < LAST_LOOK
        if not self.told:
            self.told = True
            self._tell(
                "all loops rest, and decisions wait: this stays while somebody uses its pages, and "
                f"ends {span(most)} after the last time, or with Ctrl-C; later on `loopwright "
                "serve` shows them"
            )
        return True

    async def _waits(self) -> bool:
        if self._engine.has_requests or (self._approvals is not None and self._approvals.held):
            return True
        if self._known[0] != self._decided:
            at, shared = self._decided, self._engine.shared
            found = await waiting(shared.store, has_ci=shared.ci is not None)
            self._known = at, bool(found)
        return self._known[1]

    def _news(self, news: Committed) -> None:
        del news
        self._decided += 1
