"""Whether a runner whose loops rest stays for somebody who decides in its pages.

Owns how long, and the word about it. How many decisions wait, the pages say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.control.approve_settings import refusals, undecided
from orchestrator.terminal.text import span

if TYPE_CHECKING:
    from collections.abc import Callable

    from lifecycle.engine.engine import LocalEngine
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
        if self._engine.inbox.handed or await self._settings_wait():
            return True
        return await self._beside.decisions() > 0

    async def _settings_wait(self) -> bool:
        """Tell whether an agent changed a setting, and no person approved or refused that."""
        if self._approvals is None or not self._approvals.held:
            return False
        refused = await refusals(self._engine.shared.store)
        return bool(undecided(self._approvals, refused))
