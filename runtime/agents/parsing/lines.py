"""Splits a stream of bytes into lines, and drops lines that are too long.

Must not know what the lines say.
"""

from __future__ import annotations

CAP = 1 << 20
"""Longer lines are skipped; events that decide an outcome are far shorter."""


class LineCutter:
    """Takes chunks as they arrive; returns whole lines, without their newline."""

    def __init__(self, cap: int = CAP) -> None:
        self.too_long = 0
        """How many lines were skipped."""
        self._cap = cap
        self._rest = bytearray()
        self._passing = False

    def cut(self, chunk: bytes) -> list[bytes]:
        """Return the lines that end in this chunk."""
        head, newline, tail = chunk.partition(b"\n")
        if not newline:
            self._hold(head)
            return []
        lines = tail.split(b"\n")
        rest = lines.pop()
        if self._passing:
            self._passing = False
        elif len(self._rest) + len(head) > self._cap:
            self.too_long += 1
        else:
            lines.insert(0, bytes(self._rest) + head)
        self._rest = bytearray()
        if len(chunk) > self._cap:
            lines = self._within(lines)
        self._hold(rest)
        return lines

    def end(self) -> list[bytes]:
        """Return the last line if no newline ended it."""
        rest, self._rest = bytes(self._rest), bytearray()
        self._passing = False
        return [rest] if rest else []

    def _hold(self, part: bytes) -> None:
        if self._passing:
            return
        if len(self._rest) + len(part) > self._cap:
            self._rest, self._passing = bytearray(), True
            self.too_long += 1
        else:
            self._rest += part

    def _within(self, lines: list[bytes]) -> list[bytes]:
        kept = [line for line in lines if len(line) <= self._cap]
        self.too_long += len(lines) - len(kept)
        return kept
