"""What a person sees while loops run: a live table on a terminal, dated lines elsewhere.

Owns the choice between both, and the dated lines. Must write to standard error only: standard
output belongs to results.
"""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING, Protocol, TextIO

from orchestrator.terminal.text import coloured, safe
from orchestrator.wording import live_lines
from orchestrator.wording.live_table import LiveTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lifecycle.engine.engine import LocalEngine
    from lifecycle.record import AgentLifecycle
    from lifecycle.reporting import Committed


class LiveView(Protocol):
    """Shows what loops do."""

    def attach(self, engine: LocalEngine) -> None:
        """Begin, now that the engine is there."""
        ...

    def news(self, news: Committed) -> None:
        """Take note of a committed decision."""
        ...

    def note(self, text: str, agent_id: str = "") -> None:
        """Tell a line."""
        ...

    def over(self, record: AgentLifecycle) -> None:
        """Take note that the loop of a lifecycle ended."""
        ...

    def forget(self, agent_id: str) -> None:
        """Show a lifecycle no more."""
        ...

    async def close(self) -> None:
        """Leave the terminal as it was."""
        ...


def choose(stream: TextIO, environ: Mapping[str, str], *, plain: bool) -> LiveView:
    """Return the live view where a terminal can show it, else plain lines."""
    if plain or not stream.isatty() or environ.get("TERM") == "dumb":
        return PlainView(stream)
    return LiveTable(stream, coloured=coloured(stream, environ))


class PlainView:
    """One dated line per fact; `of` is the repository, where there are several."""

    def __init__(self, stream: TextIO = sys.stderr, *, of: str = "") -> None:
        self._stream = stream
        self._of = f"{of}: " if of else ""

    def attach(self, engine: LocalEngine) -> None:
        """Begin."""

    def news(self, news: Committed) -> None:
        """Tell a fact if it means something to people."""
        for text in live_lines.lines(news):
            self.note(text, news.agent_id)

    def note(self, text: str, agent_id: str = "") -> None:
        """Tell a line."""
        who = f"{agent_id}: " if agent_id else ""
        # A closed terminal must not end the loops that it watched.
        with contextlib.suppress(OSError):
            said = f"{self._of}{who}{safe(text, lines=True)}"
            self._stream.write(f"{time.strftime('%H:%M:%S')} {said}\n")
            self._stream.flush()

    def over(self, record: AgentLifecycle) -> None:
        """Say nothing: the last fact said it."""

    def forget(self, agent_id: str) -> None:
        """Nothing of it stands there."""

    async def close(self) -> None:
        """Leave nothing behind."""
