"""How many tokens a program used in the last minute, as it reports them in its log.

Reads the log while it is written, by the parser of the program's adapter. Must not hold the program
back: it says whether the minute has room.
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from typing import TYPE_CHECKING

from runtime.agents.parsing.lines import LineCutter

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runtime.agents.adapter import Adapter

MINUTE = 60.0
READ_AT_ONCE = 4 << 20
"""Bytes per look: a flood must not hold up other agents."""
_CHUNK = 1 << 18


class TokenRate:
    """The tokens of one run of a program."""

    def __init__(self, adapter: Adapter, log: Path, limit: int, now: Callable[[], float]) -> None:
        self.total = 0
        """What it reported so far."""
        self._parser = adapter.parser(now)
        self._log, self._limit, self._now = log, limit, now
        self._cutter = LineCutter()
        self._file: int | None = None
        self._closed = False
        self._at = 0
        self._recent: deque[tuple[float, int]] = deque()
        """What it reported in the last minute, and when that was read."""

    @property
    def last_minute(self) -> int:
        """The tokens of the last minute."""
        return sum(tokens for _, tokens in self._recent)

    @property
    def is_over(self) -> bool:
        """Whether the last minute holds more than the limit."""
        return self.last_minute > self._limit

    def read(self) -> None:
        """Count what was reported since, and forget what is older than a minute."""
        if not self._closed:
            with contextlib.suppress(OSError):
                self._read_on()
        tokens, _ = self._parser.used()
        total = self.total if tokens is None else max(self.total, tokens.total)
        now = self._now()
        if total > self.total:
            self._recent.append((now, total - self.total))
            self.total = total
        while self._recent and now - self._recent[0][0] >= MINUTE:
            self._recent.popleft()

    def _read_on(self) -> None:
        if self._file is None:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            self._file = os.open(self._log, flags)
        end = self._at + READ_AT_ONCE
        while self._at < end and (chunk := os.pread(self._file, _CHUNK, self._at)):
            self._at += len(chunk)
            for line in self._cutter.cut(chunk):
                try:
                    self._parser.feed(line)
                except Exception:  # noqa: BLE001  # an adapter may be anybody's code; the next line may be read
                    self._parser.unreadable()

    def close(self) -> None:
        """Close the log; nothing is read any more."""
        self._closed = True
        if self._file is not None:
            os.close(self._file)
            self._file = None
