"""Bodies of answers, unpacked piece by piece and never beyond a cap.

Owns inflating and capping. Must not know where the bytes come from or what they mean.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

STEP = 256 * 1024
"""Bytes that are inflated at once: a few packed bytes may stand for a thousand times as many."""
GZIP = 16 + zlib.MAX_WBITS


class PackingError(ValueError):
    """The bytes are not packed as was said."""


class Unpacker:
    """Turns the pieces of a body into plain bytes, at most `most` of them."""

    def __init__(self, encoding: str, most: int) -> None:
        self._packed = encoding.strip().lower() not in ("", "identity")
        if self._packed and encoding.strip().lower() not in ("gzip", "x-gzip"):
            raise PackingError(f"it is packed as {encoding[:40]!r}, but only gzip was asked for")
        self._room = most
        self._inflate = zlib.decompressobj(GZIP)
        self._begun = False
        self.full = False
        """There was more than fits."""

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """Yield what the piece stands for, in steps."""
        for step in self._inflated(piece) if self._packed else (piece,):
            if len(step) > self._room:
                self.full = True
            fits = step[: self._room]
            self._room -= len(fits)
            if fits:
                yield fits
            if self.full:
                return

    def whole(self) -> bool:
        """Say whether the packed body came to its end."""
        return not self._begun or self._inflate.eof

    def _inflated(self, piece: bytes) -> Iterator[bytes]:
        while piece:
            if self._inflate.eof:  # several packed bodies in a row are one
                self._inflate = zlib.decompressobj(GZIP)
            self._begun = True
            try:
                yield self._inflate.decompress(piece, STEP)
            except zlib.error:
                raise PackingError("it says that it is packed with gzip, and is not") from None
            piece = self._inflate.unconsumed_tail or self._inflate.unused_data


class Collector:
    """Keeps the beginning of a body."""

    def __init__(self) -> None:
        self._steps: list[bytes] = []

    def add(self, step: bytes) -> None:
        """Take the next bytes."""
        self._steps.append(step)

    def take(self) -> bytes:
        """Return all of them."""
        return b"".join(self._steps)


class End:
    """Keeps the last `most` bytes of a body."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept = b""
        self._before = False
        """Something was let go."""
        self._note = ""

    def add(self, step: bytes) -> None:
        """Take the next bytes, letting go what is too far from the end."""
        kept = self._kept + step
        self._before = self._before or len(kept) > self._most
        self._kept = kept[-self._most :] if self._most else b""

    def note(self, text: str) -> None:
        """Say something about the text, after its end."""
        self._note = text

    def text(self) -> str:
        """Return them as text that begins with a whole character."""
        kept = self._kept
        if self._before:
            begin = kept[:LONGEST_CHARACTER]
            kept = begin.lstrip(_CONTINUATIONS) + kept[LONGEST_CHARACTER:]
        return kept.decode("utf-8", "replace") + self._note


class Lines:
    """Cuts a body that goes on into its lines, none longer than `most` bytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._begun: list[bytes] = []
        self._length = 0
        self.full = False
        """A line is longer than that."""

    def feed(self, step: bytes) -> Iterator[str]:
        """Yield the lines that are complete now."""
        *complete, rest = step.split(b"\n")
        for each in complete:
            line = b"".join([*self._begun, each])
            self._begun, self._length = [], 0
            yield line.removesuffix(b"\r").decode("utf-8", "replace")
        self._begun.append(rest)
        self._length += len(rest)
        self.full = self._length > self._most


LONGEST_CHARACTER = 4
"""Bytes in UTF-8."""
_CONTINUATIONS = bytes(range(0x80, 0xC0))
