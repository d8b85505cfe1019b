"""Reads what a run prints, while it prints it, and remembers how it may be read again.

Owns the handle on the log and the lines that were kept. Must not know what they say.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from runtime.agents.parsing.lines import LineCutter

if TYPE_CHECKING:
    from pathlib import Path

    from runtime.agents.parsing.parser import Parser

_CHUNK = 1 << 16
_AT_ONCE = 64
"""Chunks that are read in one go; a program that prints faster must not hold everything up."""
_KEPT = 1 << 20
_OVERHEAD = 64
"""Bytes that a line takes beside its text."""
_STDERR = 1 << 14


class TrialLog:
    """The log of one run; holds the file that was written, also after it was shortened."""

    def __init__(self, log: Path, parser: Parser) -> None:
        self._parser = parser
        self._cutter = LineCutter()
        self._log = os.open(log, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        self._room = _KEPT
        self.lines: list[bytes] = []
        """The first lines, up to a megabyte in all."""
        self.problem = ""
        """What the parser raised, if it did."""

    def close(self) -> None:
        """Close the log."""
        os.close(self._log)

    @property
    def written(self) -> int:
        """How many bytes were printed in all."""
        return os.fstat(self._log).st_size

    def go_on(self) -> bool:
        """Read what is new; tell whether that was all of it."""
        for _ in range(_AT_ONCE):
            chunk = os.read(self._log, _CHUNK)
            if not chunk:
                return True
            self._take(self._cutter.cut(chunk))
        return False

    async def read_out(self) -> None:
        """Read all that is left, after nobody writes to it any more."""
        while not self.go_on():  # noqa: ASYNC110  # there is nothing to wait for; others may run
            await asyncio.sleep(0)
        self._take(self._cutter.end())
        self._parser.passed_over(self._cutter.too_long)

    def tail(self) -> str:
        """Return what stands between the events at the end: a failed run's last words.

        Both outputs share the log; an event holds what agents say, of which nothing is concluded.
        """
        end = os.pread(self._log, _STDERR, max(0, self.written - _STDERR))
        lines = (line for line in end.splitlines() if not line.lstrip().startswith(b"{"))
        return b"\n".join(lines).decode("utf-8", "replace")

    def _take(self, lines: list[bytes]) -> None:
        for line in lines:
            if self._room > 0:
                self._room -= len(line) + _OVERHEAD
                self.lines.append(line)
            if self.problem:
                continue
            try:
                self._parser.feed(line)
            except Exception as problem:  # noqa: BLE001  # an adapter's own code; that is a finding
                self.problem = f"{type(problem).__name__}: {problem}"
