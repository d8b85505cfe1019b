"""Finds base64 of a secret that goes on over the ends of lines, as mail and tools wrap it.

Each form is looked for by several parts of it: between two ends of lines one is always whole. Pure.
It must not know which values are secrets.
"""

from __future__ import annotations

import re
import string
from typing import TYPE_CHECKING, AnyStr, Generic, NamedTuple

from runtime.maskforms import base64_of, part_of

if TYPE_CHECKING:
    from collections.abc import Iterator

NARROWEST = 60
"""Characters of a row: 64 and 76 are usual."""
_LINE_END = 4
"""Characters that the end of a line may have: escaped ones too, as in JSON."""
_GAP = re.compile(r"[\r\n]|\\[rn]")
_RAW_GAP = re.compile(rb"[\r\n]|\\[rn]")
_ROW = re.compile(r"[A-Za-z0-9+/_-]*")
_LETTERS = f"{string.ascii_letters}{string.digits}+/_-\r\n\\"


class Wrap(NamedTuple, Generic[AnyStr]):
    """A form, and where the part of it stands by which it is found."""

    form: AnyStr
    offset: int
    marker: AnyStr


def rows_of(form: str) -> int:
    """Return how many ends of lines may stand in it at most."""
    return len(form) // NARROWEST + 1


def width_of(form: str) -> int:
    """Return how many characters it may take up with the ends of lines in it."""
    return len(form) + rows_of(form) * _LINE_END


def wraps_of(secret: str, marker: str) -> Iterator[tuple[str, Wrap[str]]]:
    """Return each form of base64, by each of the parts that it is to be looked for by."""
    for form in dict.fromkeys(base64_of(secret)):
        pieces = min(rows_of(form) + 1, max(len(form) // 4, 1))
        for number in range(pieces):
            begin = number * len(form) // pieces
            piece = form[begin : (number + 1) * len(form) // pieces]
            part = part_of(piece)
            yield part, Wrap(form, begin + piece.index(part), marker)


def found_around(data: AnyStr, at: int, wrap: Wrap[AnyStr]) -> tuple[int, int] | None:
    """Return from where to where a form stands in the text, whose part stands at `at`."""
    room = len(wrap.form) + (len(wrap.form) // NARROWEST + 1) * _LINE_END
    first = max(at - room, 0)
    window = data[first : at + room]
    row, kept = _folded(window)
    inside = row.find(wrap.form)
    if inside < 0:
        return None
    return first + kept[inside], first + kept[inside + len(wrap.form) - 1] + 1


def may_go_on(forms: list[AnyStr], data: AnyStr, at: int, before: AnyStr) -> bool:
    """Tell whether the end of a text, from `at`, may be the start of one of these.

    It may go over the end of a row if that is a wide one, of which some may stand in what came
    `before`: else the end of every line of a log would have to wait for the next.
    """
    rest = data[at:]
    row, kept = _folded(rest)
    ends = next((place for place, index in enumerate(kept) if place != index), len(row))
    if ends < len(rest) and not _is_wide(before + data[: at + ends]):
        return False
    if row[-1:] in {"\\", b"\\"}:  # of an escaped end of a line only the first half
        row = row[:-1]
    return any(len(form) > len(row) and form.startswith(row) for form in forms)


def last_run(data: str | bytes) -> int:
    """Return where the letters begin that a text ends with: those of base64 and ends of lines."""
    if isinstance(data, str):
        return len(data.rstrip(_LETTERS))
    return len(data.rstrip(_LETTERS.encode()))


def _is_wide(text: str | bytes) -> bool:
    row = text[-NARROWEST:]
    told = row.decode("latin-1") if isinstance(row, bytes) else row
    return len(told) == NARROWEST and _ROW.fullmatch(told) is not None


def _folded(text: AnyStr) -> tuple[AnyStr, list[int]]:
    """Return a text without its ends of lines, and where each of its characters stood."""
    kept: list[int] = []
    after = 0
    for start, end in _gaps(text):
        kept += range(after, start)
        after = end
    if not after:
        return text, list(range(len(text)))
    kept += range(after, len(text))
    rows = [text[at : at + 1] for at in kept]
    return text[:0].join(rows), kept


def _gaps(text: str | bytes) -> list[tuple[int, int]]:
    if isinstance(text, str):
        return [gap.span() for gap in _GAP.finditer(text)]
    return [gap.span() for gap in _RAW_GAP.finditer(text)]
