"""What a person sees while a plan is drafted: what its agent does now, and no loop's story."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from lifecycle.machine.states import Working
from orchestrator.terminal.text import coloured
from orchestrator.wording.live_table import LiveTable
from orchestrator.wording.live_view import PlainView, choose

if TYPE_CHECKING:
    from lifecycle.record import AgentLifecycle
    from lifecycle.reporting import Committed
    from orchestrator.wording.live_view import LiveView


def draft_view(number: int, *, plain: bool) -> LiveView:
    """Return the view of one draft, as the terminal can show it."""
    if isinstance(choose(sys.stderr, os.environ, plain=plain), LiveTable):
        return _DraftTable(sys.stderr, coloured=coloured(sys.stderr, os.environ))
    return _DraftLines(number)


class _DraftTable(LiveTable):
    """The row of the agent that drafts, while it does."""

    def news(self, news: Committed) -> None:
        """Draw the row again; what became of the draft is said by who asked for it."""
        del news
        self.redraw()

    def over(self, record: AgentLifecycle) -> None:
        """Show nothing of it any more: there is nothing to accept."""


class _DraftLines(PlainView):
    """One dated line for each draft that is begun."""

    def __init__(self, number: int) -> None:
        super().__init__(sys.stderr)
        self._number = number

    def news(self, news: Committed) -> None:
        """Say that the agent began."""
        work = news.record.work
        if isinstance(work, Working) and news.before != news.after:
            program = f" with {work.tally.program}" if work.tally.program else ""
            self.note(f"drafting{program}, draft {self._number}")
