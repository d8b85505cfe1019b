"""What the tests of this folder share: words to write, and ears that wait for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from communication.mailbox import Mailbox, MailboxReading, ReadingKind
from runtime.proc_table import own_children
from tests import waiting

AGENT = "agent-T001"
until, DEADLINE_S = waiting.until, waiting.PATIENCE


def word(summary: str = "did it", **fields: Any) -> dict[str, Any]:
    """Build an entry with a task_complete breakpoint."""
    said = {"type": "task_complete", "task_id": "T001", "summary": summary, **fields}
    return {"lifecycle_state": "complete", "breakpoint": said}


def mail(**entries: Any) -> str:
    """Build the text of a mailbox; without entries, one with a breakpoint of AGENT."""
    return json.dumps(entries or {AGENT: word()})


def replace(path: Path, text: str) -> None:
    """Write the file as careful writers do: aside, then rename."""
    fresh = path.with_name("fresh")
    fresh.write_text(text)
    fresh.replace(path)


def read(path: Path, agent_id: str = AGENT, **expected: str | None) -> MailboxReading:
    """Look at the mailbox once."""
    return Mailbox(path).load().reading(agent_id, **expected)


class Heard:
    """Collects the readings of one subscription."""

    def __init__(self) -> None:
        self.readings: list[MailboxReading] = []

    def __call__(self, reading: MailboxReading) -> None:
        self.readings.append(reading)

    @property
    def summaries(self) -> list[str]:
        """What the signals said."""
        return [
            reading.breakpoint.summary
            for reading in self.readings
            if reading.kind is ReadingKind.SIGNAL and reading.breakpoint is not None
        ]

    @property
    def kinds(self) -> list[str]:
        """What kinds of readings came, in order."""
        return [str(reading.kind) for reading in self.readings]


def watchers() -> list[int]:
    """List the processes that watch files for this one."""
    return [pid for pid in own_children() if b"watch_process" in _command(pid)]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
