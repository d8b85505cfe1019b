"""Sees through what may stand inside a secret: colours of a terminal, single escaped characters.

A text that holds any is looked at once more without the colours, then with each escaped character
as what it means. Most texts hold none, and to tell that is cheap. Pure. It must not know which
values are secrets.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TAIL = 4096
"""Bytes that a secret may take up with all that stands inside it, where a stream is cut."""
_LONGEST_BEGUN = 64
_BACK = rb"\\\\{0,7}"
"""Backslashes, more of them in JSON inside JSON; written so that a search for the first is fast."""
_PARAMETERS = rb"[0-?]{0,32}[ -/]{0,4}"
_COLOURS = rb"(?:\x1b|" + _BACK + rb"u001[bB])\[" + _PARAMETERS + rb"[@-~]"
_ESCAPED = _BACK + rb"u00([2-7][0-9a-fA-F])|%([2-7][0-9a-fA-F])"
_BEGUN = re.compile(
    rb"(?:(?:\x1b|" + _BACK + rb"u001[bB])(?:\[" + _PARAMETERS + rb")?"
    rb"|" + _BACK + rb"(?:u[0-9a-fA-F]{0,3})?|%[2-7]?)\Z"
)
_QUOTED = re.compile(rb"%[2-7][0-9a-fA-F]")
_CHARACTERS = {
    form.encode(): bytes([code])
    for code in range(0x20, 0x80)
    for form in (f"{code:02x}", f"{code:02X}", f"{code >> 4:x}{code & 15:X}")
}


class _Veil(NamedTuple):
    """What is looked through, and what is seen in its place."""

    pattern: re.Pattern[bytes]
    seen: bytes | Callable[[re.Match[bytes]], bytes]
    width: int
    """Characters that are seen in the place of each."""


_COLOUR = _Veil(re.compile(_COLOURS), b"", 0)
_ESCAPE = _Veil(re.compile(_ESCAPED), lambda found: _CHARACTERS[found[1] or found[2]], 1)


class Bare:
    """A text as it is seen through one veil more than the text `under` it."""

    def __init__(self, text: bytes, veil: _Veil, before: bytes, under: Bare | None) -> None:
        self.text = text
        self._veil = veil
        self._before = before
        self._under = under
        self._ends: list[int] | None = None
        self._shifts: list[int] = []

    def origin(self, start: int, end: int) -> tuple[int, int]:
        """Return from where to where something stands in the text that was looked at."""
        found = self._origin(start), self._origin(end - 1) + 1
        if self._veil.width:  # the last may be one that is longer than it is seen
            found = found[0], self._origin(end)
        return found if self._under is None else self._under.origin(*found)

    def _origin(self, at: int) -> int:
        if self._ends is None:
            width = self._veil.width
            spans = [found.span() for found in self._veil.pattern.finditer(self._before)]
            self._shifts = [0, *accumulate(end - start - width for start, end in spans)]
            self._ends = [
                end - shift for (_, end), shift in zip(spans, self._shifts[1:], strict=True)
            ]
        return at + self._shifts[bisect_right(self._ends, at)]


def unveiled(data: bytes) -> Iterator[Bare]:
    """Look at a text without what may stand inside a secret; nothing where it holds none of it."""
    coded = b"\\u00" in data
    bare = _through(_COLOUR, data, None) if coded or b"\x1b[" in data else None
    if bare is not None:
        yield bare
    if coded or (b"%" in data and _QUOTED.search(data)):
        deeper = _through(_ESCAPE, data, bare)
        if deeper is not None and deeper is not bare:
            yield deeper


def begun(data: bytes) -> int:
    """Return where an escape begins that a text ends in the middle of; its length if in none."""
    found = _BEGUN.search(data, max(len(data) - _LONGEST_BEGUN, 0))
    return found.start() if found else len(data)


def _through(veil: _Veil, data: bytes, under: Bare | None) -> Bare | None:
    before = data if under is None else under.text
    text = veil.pattern.sub(veil.seen, before)
    return under if len(text) == len(before) else Bare(text, veil, before, under)
