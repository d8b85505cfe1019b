"""The lines of a log file, from any byte on, forwards or backwards, however large it is.

Reads no more than is asked for. Knows the hole that a log above its cap has in its middle, and
lines that are too long to be held. Must not know what a line says.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pathlib import Path

CHUNK = 1 << 18
LONGEST = 1 << 20
"""Bytes of a line that are given as one; what is longer comes in pieces."""
COUNTED = 1 << 24
"""Bytes within which lines are numbered; beyond it counting would take longer than reading."""
_ZEROS = b"\0" * 512
"""So many in a row are a hole; holes are larger, and text has none."""
_MOST_HOLES = 1000
_MOST_ZEROS = 1 << 24
"""Bytes of zeros that are passed over where the file system does not tell where a hole is."""


@dataclass(frozen=True, slots=True)
class RawLine:
    """A line without its end, and where it stands."""

    at: int
    end: int
    data: bytes
    whole: bool = True
    """False for a piece of a line, and for the last one while its end is not written."""
    hole: bool = False
    """Bytes that are not there any more; it has no data."""


class LogBytes:
    """One open log file; what an agent may have put in its place is not followed."""

    def __init__(self, path: Path) -> None:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        self._file = os.open(path, flags)
        info = os.fstat(self._file)
        if not stat.S_ISREG(info.st_mode):
            os.close(self._file)
            raise FileNotFoundError(path)
        self.size = info.st_size

    def __enter__(self) -> Self:
        """Use it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        os.close(self._file)

    def grown(self) -> int:
        """Return the size anew."""
        self.size = os.fstat(self._file).st_size
        return self.size

    def read(self, at: int, size: int) -> bytes:
        """Return bytes."""
        return os.pread(self._file, max(0, min(size, self.size - at)), at)

    def line_at(self, at: int) -> int:
        """Return where the line begins that holds a byte; the byte itself in a very long one."""
        at = max(0, min(at, self.size))
        start = max(0, at - LONGEST)
        newline = self.read(start, at - start).rfind(b"\n")
        return start + newline + 1 if newline >= 0 else start if start == 0 else at

    def number(self, at: int) -> int | None:
        """Return the number of the line that begins at a byte; None if it is not known."""
        if at > COUNTED:
            return None
        before = self.read(0, at)
        return None if _ZEROS in before else before.count(b"\n") + 1

    def after(self, at: int, most: int = CHUNK) -> list[RawLine]:
        """Return the lines from one that begins at a byte; none at the end of the file."""
        data = self.read(at, most)
        zeros = data.find(_ZEROS)
        if zeros == 0:
            return [RawLine(at, self._hole_end(at), b"", whole=False, hole=True)]
        if zeros > 0:
            return _lines(data[:zeros], at)
        if at + len(data) < self.size:
            newline = data.rfind(b"\n")
            if newline < 0 and most < LONGEST:
                return self.after(at, LONGEST)
            data = data[: newline + 1] or data
        return _lines(data, at)

    def before(self, end: int, most: int = CHUNK) -> list[RawLine]:
        """Return the lines that end at a byte, in their order; none at the beginning."""
        end = min(end, self.size)
        start = max(0, end - most)
        data = self.read(start, end - start)
        if data.endswith(_ZEROS):
            return [RawLine(self._hole_begin(end - 1), end, b"", whole=False, hole=True)]
        zeros = data.rfind(_ZEROS)
        if zeros >= 0:
            # The rest of the line that the hole cut is left out with it.
            first = data.find(b"\n", zeros + len(_ZEROS)) + 1 or len(data)
            hole = RawLine(
                self._hole_begin(start + zeros), start + first, b"", whole=False, hole=True
            )
            return [hole, *_lines(data[first:], start + first)]
        first = 0
        if start > 0:
            first = data.find(b"\n", 0, -1) + 1
            if not first and most < LONGEST:
                return self.before(end, LONGEST)
        return _lines(data[first:], start + first)

    def _hole_begin(self, within: int) -> int:
        """Return where the hole begins that holds a byte."""
        end = self._gap(within)
        least = max(0, end - _MOST_ZEROS)
        while True:
            # Zeros that were written: the rest of a block, or a hole that nobody knows of.
            start = max(least, end - CHUNK)
            text = self.read(start, end - start).rstrip(b"\0")
            end = start + len(text)
            if text or end <= least:
                return end

    def _gap(self, within: int) -> int:
        """Return where the file system says the hole begins that holds a byte; else that byte."""
        data = 0
        with suppress(OSError):  # no data follows, or it does not tell
            for _ in range(_MOST_HOLES):
                hole = os.lseek(self._file, data, os.SEEK_HOLE)
                if hole > within:
                    break
                data = os.lseek(self._file, hole, os.SEEK_DATA)
                if data > within:
                    return hole
        return within

    def _hole_end(self, at: int) -> int:
        """Return where the first line begins after a hole."""
        for _ in range(_MOST_ZEROS // CHUNK):
            try:
                at = os.lseek(self._file, at, os.SEEK_DATA)
            except OSError:
                return self.size
            data = self.read(at, CHUNK)
            text = data.lstrip(b"\0")
            at += len(data) - len(text)
            if text:
                return at + (text.find(b"\n") + 1 or len(text))
            if not data:
                break
        return at


def _lines(data: bytes, at: int) -> list[RawLine]:
    """Return the lines of bytes that begin at `at`."""
    *whole, last = data.split(b"\n")
    found = list[RawLine]()
    for line in whole:
        end = at + len(line) + 1
        found.append(RawLine(at, end, line))
        at = end
    return [*found, RawLine(at, at + len(last), last, whole=False)] if last else found
