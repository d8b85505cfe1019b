"""What an agent says at the moment, for the live table: the last line of its log, in words.

Reads each byte of a log at most once and never more than the end of what is new. Judges nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lifecycle.errors import PlanError
from lifecycle.launch.programs import program_of
from orchestrator.terminal.text import one_line
from orchestrator.wording.program_output import ReadableOutput
from runtime.logs.files import clean, tail

if TYPE_CHECKING:
    from pathlib import Path

    from lifecycle.plan import Agent
    from runtime.agents.adapter import Adapter
    from runtime.agents.parsing.parser import Clock

TAIL_BYTES = 1000
"""Of a log of plain text."""
REPORT_BYTES = 1 << 15
"""Of reports that are new: one alone may hold a whole file."""
WIDTH = 200
_KEPT = 1000


@dataclass(slots=True)
class _Heard:
    """How far one attempt's log was read, and what it said last."""

    attempt: int
    program: str
    adapter: Adapter | None
    """None for a program whose output is its own text."""
    at: int = 0
    told: ReadableOutput | None = None
    text: str = ""
    words: str = ""


@dataclass(slots=True)
class LastOutput:
    """The last words of the agents of one runner."""

    now: Clock
    _heard: dict[str, _Heard] = field(default_factory=dict)

    def of(self, agent: Agent, attempt: int, program: str, log: Path) -> str:
        """Return the last words of an attempt so far; nothing where there are none."""
        heard = self._heard.get(agent.agent_id)
        if heard is None or (heard.attempt, heard.program) != (attempt, program):
            heard = _Heard(attempt, program, _reporting(agent, program))
            self._heard[agent.agent_id] = heard
        try:
            size = log.stat().st_size
        except OSError:
            return ""
        if size == heard.at:
            return heard.words
        if heard.adapter is None:
            heard.at, heard.words = size, _last_line(tail(log, TAIL_BYTES)) or heard.words
            return heard.words
        try:
            self._listen(heard, heard.adapter, log, size)
        except Exception:  # noqa: BLE001  # a parser may be anybody's; the table must live on
            heard.at, heard.told = size, None
        return heard.words

    def _listen(self, heard: _Heard, adapter: Adapter, log: Path, size: int) -> None:
        start, told = heard.at, heard.told
        if told is None or not start <= size <= start + REPORT_BYTES:
            start, told, heard.text = (
                max(size - REPORT_BYTES, 0),
                ReadableOutput(adapter, self.now),
                "",
            )
        with log.open("rb", buffering=0) as stream:
            stream.seek(start)
            data = stream.read(size - start)
        heard.at = start + len(data)
        if start and heard.told is not told:
            # The rest of a line whose beginning was skipped is not a report.
            _, newline, data = data.partition(b"\n")
            heard.told = told if newline else None
        else:
            heard.told = told
        heard.text = (heard.text + clean(told.take(data)))[-_KEPT:]
        heard.words = _last_line(heard.text) or heard.words


def _reporting(agent: Agent, program: str) -> Adapter | None:
    try:
        adapter = program_of(agent, program).adapter
    except PlanError:
        return None
    return adapter if adapter.programs else None


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return one_line(lines[-1], WIDTH) if lines else ""
