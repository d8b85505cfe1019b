"""Finds what is left of a secret where a text was cut: at its ends, and beside a mark of a cut.

Whoever cut a text knew of no secret: a provider its log, a program its own output. Pure. It must
not know which values are secrets.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SHORTEST = 12
"""Characters that must be left, so that ordinary words are not taken for them."""
_CUT = re.compile(r"\[(?:\.\.\.[^\]\n]{0,80}|[^\]\n]{0,40} cut)\]|\.\.\.|\u2026")
_SIGNS = ("...", " cut]", "\u2026")
_BLANK = " \t\r\n"


class Cuts:
    """Knows the forms of secrets of which a part may be left."""

    def __init__(self, markers: Mapping[str, str]) -> None:
        """Take what stands in the place of each form."""
        self._markers = {form: mark for form, mark in markers.items() if len(form) > SHORTEST}
        self._all = "\n".join(self._markers)

    def spans(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Return where parts of secrets are, each with what to put there."""
        if len(text) < SHORTEST:
            return
        at = 0
        if any(sign in text for sign in _SIGNS):
            for cut in _CUT.finditer(text):
                yield from self._between(text, at, cut.start())
                at = cut.end()
        yield from self._between(text, at, len(text))

    def _between(self, text: str, begin: int, end: int) -> Iterator[tuple[int, int, str]]:
        while begin < end and text[begin] in _BLANK:
            begin += 1
        while begin < end and text[end - 1] in _BLANK:
            end -= 1
        if end - begin < SHORTEST:
            return
        head, tail = text[begin : begin + SHORTEST], text[end - SHORTEST : end]
        if head in self._all and (found := self._at_start(text[begin:end], head)):
            yield begin, begin + found[0], found[1]
        if tail in self._all and (found := self._at_end(text[begin:end], tail)):
            yield end - found[0], end, found[1]

    def _at_start(self, text: str, head: str) -> tuple[int, str] | None:
        """Return how much of a text is the end of a form."""
        longest = max(
            (
                (len(form) - at, marker)
                for form, marker in self._markers.items()
                for at in _occurrences(form, head)
                if text.startswith(form[at:]) or form.startswith(text, at)
            ),
            default=None,
        )
        return longest and (min(longest[0], len(text)), longest[1])

    def _at_end(self, text: str, tail: str) -> tuple[int, str] | None:
        """Return how much of a text is the start of a form."""
        longest = max(
            (
                (at + SHORTEST, marker)
                for form, marker in self._markers.items()
                for at in _occurrences(form, tail)
                if text.endswith(form[: at + SHORTEST]) or form[: at + SHORTEST].endswith(text)
            ),
            default=None,
        )
        return longest and (min(longest[0], len(text)), longest[1])


def _occurrences(form: str, part: str) -> Iterator[int]:
    at = form.find(part)
    while at >= 0:
        yield at
        at = form.find(part, at + 1)
