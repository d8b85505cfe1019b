"""Sees through what may stand inside a secret: colours, controls, signs that nobody sees; escapes.

A text is looked at once more without these, or with what is escaped as what it means. Only a text
that holds any is: most do not, and to tell that is cheap. Pure. It must not know which values are
secrets.
"""

from __future__ import annotations

import re
import string
from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, AnyStr, Generic, NamedTuple, cast

from runtime.maskwraps import NARROWEST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LONG = 40
"""Letters of base64 in a row: what is encoded mostly has as many, and few other texts have."""
TAIL = 4096
"""Characters that a secret may take up with all that stands inside it, where a stream is cut."""
_LETTERS = f"{string.ascii_letters}{string.digits}+/_-"
_LETTER, _CONTROL, _OTHER = b"a! "
_LONG_RUN = b"a" * LONG
_WIDE_ROW = b"a" * NARROWEST
_PAIRS = b"hh.hh.hh.hh.hh.hh"


def _class_of(code: int) -> int:
    if chr(code) in _LETTERS:
        return _LETTER
    return _CONTROL if (code < 32 and chr(code) not in "\t\n\r") or code == 127 else _OTHER  # noqa: PLR2004  # ASCII


_CLASSES = bytes(map(_class_of, range(256)))
_PAIR_CLASSES = bytes(
    b"h"[0] if chr(code) in string.hexdigits else b"."[0] if chr(code) in ": \n" else _OTHER
    for code in range(256)
)

_BACK = r"\\\\{0,7}"
"""Backslashes, more of them in JSON inside JSON; written so that a search for the first is fast."""
_ESC = rf"(?:\x1b|{_BACK}u001[bB])"
_ENDS = rf"(?:\x07|\x1b\\|{_BACK}u0007|{_BACK}u001[bB]\\{{1,8}})"
_SEQUENCE = (
    r"(?:\[[0-?]*[ -/]*[@-~]"  # colours, cursor
    rf'|\][^\x07\x1b\n\\"]*{_ENDS}'  # titles, links
    rf'|[PX^_][^\x1b\n\\"]*{_ENDS}'
    r"|[ -/]*[0-~])"
)
_CODES = (
    r"(?i:00(?:0[0-8bcef]|1[0-9a-f]|7f|[89][0-9a-f]|ad)|034f|061c|115f|1160|17b[45]|180[b-f]"
    r"|200[b-f]|202[89a-e]|206[0-9a-f]|3164|fe0[0-9a-f]|feff|ffa0|fff[0-9ab]"
    rf"|db40{_BACK}ud[c-f][0-9a-f]{{2}})"
)
_COLOURS = rf"\x1b{_SEQUENCE}"
_CONTROLS = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]"
_CODED = rf"{_BACK}(?:u001[bB]{_SEQUENCE}|u009[bB][0-?]*[ -/]*[@-~]|u{_CODES}|[bf])"
_UNSEEN = (
    "\x9b[0-?]*[ -/]*[@-~]|[\x80-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5"
    "\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff\ud800-\udfff]"
)
_UNSEEN_BY_LEAD = {
    b"\xc2": rb"(?:\x9b[0-?]*[ -/]*[@-~]|[\x80-\x9f\xad])",
    b"\xcd": rb"\x8f",
    b"\xd8": rb"\x9c",
    b"\xe1": rb"(?:\x85[\x9f\xa0]|\x9e[\xb4\xb5]|\xa0[\x8b-\x8f])",
    b"\xe2": rb"(?:\x80[\x8b-\x8f\xa8-\xae]|\x81[\xa0-\xaf])",
    b"\xe3": rb"\x85\xa4",
    b"\xed": rb"[\xa0-\xbf][\x80-\xbf]",
    b"\xef": rb"(?:\xb8[\x80-\x8f]|\xbb\xbf|\xbe\xa0|\xbf[\xb0-\xbb])",
    b"\xf0": rb"(?:\x9b\xb2[\xa0-\xa3]|\x9d\x85[\xb3-\xba])",
    b"\xf3": rb"\xa0[\x80-\xbf][\x80-\xbf]",
}
"""The same characters in UTF-8, by the byte that they begin with."""
_BY_LEAD = {lead: re.compile(lead + rest) for lead, rest in _UNSEEN_BY_LEAD.items()}
_RAW_UNSEEN = b"|".join(pattern.pattern for pattern in _BY_LEAD.values())
_BYTE = r"[0-9a-fA-F]"
_ESCAPED = rf"{_BACK}u00([2-7]{_BYTE})"
_QUOTED = rf"%([2-7]{_BYTE})"
_AFTER_PAIR = rf"[: \n](?<={_BYTE}{_BYTE}[: \n])"
_BETWEEN_PAIRS = rf"{_AFTER_PAIR}[ \n]{{0,8}}(?={_BYTE}{_BYTE})"
_BETWEEN_AT_END = rf"{_AFTER_PAIR}(?:[ \n]{{0,8}}(?={_BYTE}{_BYTE})|(?<!\n)(?={_BYTE}?\Z))"
_CODE_BEGUN = rf"{_BACK}(?:u{_BYTE}{{0,3}})?"
_COLOUR_BEGUN = r"[0-?]{0,32}[ -/]{0,4}"
_BEGUN = (
    rf"(?:{_ESC}(?:\[{_COLOUR_BEGUN}|[]PX^_][^\x07\x1b\n\\\"]{{0,200}}(?:\x1b\\?|{_CODE_BEGUN})?)?"
    rf"|(?:C1|{_BACK}u009[bB]){_COLOUR_BEGUN}|{_CODE_BEGUN}|%[2-7]?)\Z"
)
_RAW_BEGUN = _BEGUN.encode().replace(b"C1", rb"\xc2\x9b") + (
    rb"|(?:[\xc2\xcd\xd8]|[\xe1-\xef][\x80-\xbf]?|[\xf0\xf3][\x80-\xbf]{0,2})\Z"
)
_LONGEST_BEGUN = 256
_PAIR_LAST = rf"{_BYTE}{_BYTE}[: \n]{_BYTE}{{0,2}}\Z"
_CHARACTERS = {f"{code:02x}": chr(code) for code in range(0x20, 0x80)}
_CHARACTERS |= {name.upper(): char for name, char in _CHARACTERS.items()}
_CHARACTERS |= {f"{name[0]}{name[1].upper()}": char for name, char in _CHARACTERS.items()}
_RAW_CHARACTERS = {name.encode(): char.encode() for name, char in _CHARACTERS.items()}


class _Veil(NamedTuple, Generic[AnyStr]):
    """What is looked through, and what is seen in its place."""

    pattern: re.Pattern[AnyStr]
    seen: AnyStr | Callable[[re.Match[AnyStr]], AnyStr]
    width: int
    """Characters that are seen in the place of each."""


class _Veils(NamedTuple, Generic[AnyStr]):
    colours: _Veil[AnyStr]
    controls: _Veil[AnyStr]
    unseen: _Veil[AnyStr]
    coded: _Veil[AnyStr]
    escaped: _Veil[AnyStr]
    quoted: _Veil[AnyStr]
    pairs: _Veil[AnyStr]
    pairs_at_end: _Veil[AnyStr]
    pair_last: re.Pattern[AnyStr]
    begun: re.Pattern[AnyStr]
    escape: re.Pattern[AnyStr]
    """Without it nothing is escaped."""
    percent: AnyStr
    """Without it nothing is quoted."""


_TEXT: _Veils[str] = _Veils(
    _Veil(re.compile(_COLOURS), "", 0),
    _Veil(re.compile(_CONTROLS), "", 0),
    _Veil(re.compile(_UNSEEN), "", 0),
    _Veil(re.compile(_CODED), "", 0),
    _Veil(re.compile(_ESCAPED), lambda found: _CHARACTERS[found[1]], 1),
    _Veil(re.compile(_QUOTED), lambda found: _CHARACTERS[found[1]], 1),
    _Veil(re.compile(_BETWEEN_PAIRS), "", 0),
    _Veil(re.compile(_BETWEEN_AT_END), "", 0),
    re.compile(_PAIR_LAST),
    re.compile(_BEGUN.replace("C1", "\x9b")),
    re.compile(r"\\[ubf]"),
    "%",
)
_RAW: _Veils[bytes] = _Veils(
    _Veil(re.compile(_COLOURS.encode()), b"", 0),
    _Veil(re.compile(_CONTROLS.encode()), b"", 0),
    _Veil(re.compile(_RAW_UNSEEN), b"", 0),
    _Veil(re.compile(_CODED.encode()), b"", 0),
    _Veil(re.compile(_ESCAPED.encode()), lambda found: _RAW_CHARACTERS[found[1]], 1),
    _Veil(re.compile(_QUOTED.encode()), lambda found: _RAW_CHARACTERS[found[1]], 1),
    _Veil(re.compile(_BETWEEN_PAIRS.encode()), b"", 0),
    _Veil(re.compile(_BETWEEN_AT_END.encode()), b"", 0),
    re.compile(_PAIR_LAST.encode()),
    re.compile(_RAW_BEGUN),
    re.compile(rb"\\[ubf]"),
    b"%",
)
_KINDS: dict[type, _Veils[str] | _Veils[bytes]] = {str: _TEXT, bytes: _RAW}


class Bare(Generic[AnyStr]):
    """A text as it is seen through one veil more than the text `under` it."""

    def __init__(
        self, text: AnyStr, veil: _Veil[AnyStr], before: AnyStr, under: Bare[AnyStr] | None
    ) -> None:
        self.text: AnyStr = text
        self._veil: _Veil[AnyStr] = veil
        self._before: AnyStr = before
        self._under: Bare[AnyStr] | None = under
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
            pattern: re.Pattern[AnyStr] = self._veil.pattern
            width: int = self._veil.width
            spans: list[tuple[int, int]] = [
                found.span() for found in pattern.finditer(self._before)
            ]
            self._shifts = [0, *accumulate(end - start - width for start, end in spans)]
            self._ends = [
                end - shift for (_, end), shift in zip(spans, self._shifts[1:], strict=True)
            ]
        return at + self._shifts[bisect_right(self._ends, at)]


def shape_of(data: bytes) -> bytes:
    """Return of what kind each byte is; it is cheap to see from that what a text may hold."""
    return data.translate(_CLASSES)


def has_long_run(shape: bytes) -> bool:
    """Tell whether there are `LONG` letters in a row."""
    return _LONG_RUN in shape


def has_wide_row(shape: bytes) -> bool:
    """Tell whether there is a row of base64: few texts have one, and only these need a search."""
    return _WIDE_ROW in shape


def unveiled(data: AnyStr, raw: bytes, shape: bytes) -> Iterator[Bare[AnyStr]]:
    """Look at a text without what may stand inside a secret; nothing where it holds none of it."""
    return _looked_through(data, raw, shape, at_end=False)


def unveiled_end(data: bytes) -> Iterator[Bare[bytes]]:
    """Look like that at the end of a stream, where a secret may only have begun."""
    return _looked_through(data, data, shape_of(data), at_end=True)


def begun(data: AnyStr) -> int:
    """Return where an escape begins that a text ends in the middle of; its length if in none."""
    found = _veils(data).begun.search(data, max(len(data) - _LONGEST_BEGUN, 0))
    return found.start() if found else len(data)


def _veils(data: AnyStr) -> _Veils[AnyStr]:
    return cast("_Veils[AnyStr]", _KINDS[type(data)])


def _looked_through(
    data: AnyStr, raw: bytes, shape: bytes, *, at_end: bool
) -> Iterator[Bare[AnyStr]]:
    veils = _veils(data)
    escapes = veils.escape.search(data) is not None
    bare: Bare[AnyStr] | None = None
    if _CONTROL in shape:
        bare = _through(veils.colours, data, bare)
        if bare is None or _CONTROL in shape_of(_raw_of(bare.text)):
            bare = _through(veils.controls, data, bare)
    if not raw.isascii() and _has_unseen(raw):
        bare = _through(veils.unseen, data, bare)
    if escapes:
        bare = _through(veils.coded, data, bare)
    if bare is not None:
        yield bare
    for veil, is_there in (
        (veils.escaped, escapes),
        (veils.quoted, veils.percent in data),
        (veils.pairs, not at_end and _PAIRS in raw.translate(_PAIR_CLASSES)),
        (veils.pairs_at_end, at_end and _is_pair_last(data, veils.pair_last)),
    ):
        before = bare
        bare = _through(veil, data, bare) if is_there else bare
        if bare is not None and bare is not before:
            yield bare


def _through(veil: _Veil[AnyStr], data: AnyStr, under: Bare[AnyStr] | None) -> Bare[AnyStr] | None:
    before: AnyStr = data if under is None else under.text
    text = veil.pattern.sub(veil.seen, before)
    return under if len(text) == len(before) else Bare(text, veil, before, under)


def _raw_of(text: str | bytes) -> bytes:
    return text.encode(errors="surrogatepass") if isinstance(text, str) else text


def _has_unseen(raw: bytes) -> bool:
    return any(lead in raw and pattern.search(raw) for lead, pattern in _BY_LEAD.items())


def _is_pair_last(data: AnyStr, pattern: re.Pattern[AnyStr]) -> bool:
    return pattern.search(data, max(len(data) - _LONGEST_BEGUN, 0)) is not None
