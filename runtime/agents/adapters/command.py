"""Any other program: the prompt on standard input, an exit code, and the mailbox.

Its output is the agent's own text, so nothing is concluded from it; only what a failed run wrote to
standard error is looked at, where that was kept apart.
"""

from __future__ import annotations

from runtime.agents.adapter import Adapter, Stop, Target
from runtime.agents.events import UnknownEvent
from runtime.agents.outcome import Ending
from runtime.agents.parsing.parser import NOTHING, Events, Parser


class CommandParser(Parser):
    """Reads plain text, and keeps its end."""

    structured = False

    def feed(self, line: bytes) -> Events:
        """Keep the last lines that say something."""
        if not line.strip():
            return NOTHING
        self._stray.append(line[:1000])
        return (UnknownEvent("", line),) if self._live else NOTHING

    def _quiet_end(self, stderr: str) -> tuple[Ending, str]:
        del stderr
        return Ending.COMPLETED, ""


ADAPTER = Adapter(
    name="command",
    title="Any command",
    parser=CommandParser,
    stop=Stop(("TERM",), Target.GROUP, grace=2.0),
    login="Log the program in, or pass its key on.",
)
