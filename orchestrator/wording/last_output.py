"""What an agent does at the moment, read off the end of its log: a tool at work, or last words.

Reads each byte of a log at most once and never more than the end of what is new. The line is
masked and safe for terminals. Judges nothing.
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
    from runtime.masking.masker import Masker

TAIL_BYTES = 1000
"""Of a log of plain text."""
REPORT_BYTES = 1 << 15
"""Of reports that are new: one alone may hold a whole file."""
WIDTH = 200


@dataclass(slots=True)
class _Heard:
    """How far one attempt's log was read, and what it said last."""

    attempt: int
    program: str
    adapter: Adapter | None
    """None for a program whose output is its own text."""
    at: int = 0
    told: ReadableOutput | None = None
    words: str = ""


@dataclass(slots=True)
class LastOutput:
    """What the agents of one runner do."""

    now: Clock
    masker: Masker
    _heard: dict[str, _Heard] = field(default_factory=dict)

    def of(self, agent: Agent, attempt: int, program: str, log: Path, folder: str = "") -> str:
        """Return what an attempt does at the moment; nothing where nothing is known.

        Files in `folder` are named as seen from there.
        """
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
            heard.at, heard.words = size, self._shown(tail(log, TAIL_BYTES)) or heard.words
            return heard.words
        try:
            self._listen(heard, heard.adapter, log, size, folder)
        except Exception:  # noqa: BLE001  # a parser may be anybody's; the table must live on
            heard.at, heard.told = size, None
        return heard.words

    def forget(self, agent_id: str) -> None:
        """Forget an agent whose loop is over."""
        self._heard.pop(agent_id, None)

    def _listen(self, heard: _Heard, adapter: Adapter, log: Path, size: int, folder: str) -> None:
        start, told = heard.at, heard.told
        if told is None or not start <= size <= start + REPORT_BYTES:
            start = max(size - REPORT_BYTES, 0)
            told = ReadableOutput(adapter, self.now, folder)
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
        told.take(data)
        heard.words = self._shown(told.doing) or heard.words

    def _shown(self, text: str) -> str:
        """Return the last line that says something."""
        lines = [line for line in self.masker.mask(clean(text)).splitlines() if line.strip()]
        return one_line(lines[-1], WIDTH) if lines else ""


def _reporting(agent: Agent, program: str) -> Adapter | None:
    try:
        adapter = program_of(agent, program).adapter
    except PlanError:
        return None
    return adapter if adapter.programs else None
