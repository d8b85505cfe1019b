"""Searches for many forms of many secrets at once, also with colours or escapes inside.

Owns how they are found fast. Most of what is looked for are long runs of letters and digits, and
few texts have any: only such runs of a text are searched. A text with colours of a terminal or
single escaped characters is searched once more without them. Pure. It must not know which values
are secrets, nor what becomes of what is found.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING

from runtime.masking.detection import counts
from runtime.masking.encodings import address_secrets, forms_of, lines_of, part_of

if TYPE_CHECKING:
    from collections.abc import Mapping

Span = tuple[int, int, bytes]
"""From where to where a secret stands, and what is put there."""
TAIL = 4096
"""Bytes that a secret may take up with all that stands inside it, where a stream is cut."""
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_UNNAMED = "***secret***"
_RUN = 12
"""Letters and digits in a row that few words of ordinary text have."""
_BACKSLASHES = rb"\\\\{0,7}"
"""More of them in JSON inside JSON; written so that a search for the first is fast."""
_PARAMETERS = rb"[0-?]{0,32}[ -/]{0,4}"
_ESCAPE = rb"(?:\x1b|" + _BACKSLASHES + rb"u001[bB])"
_COLOUR = re.compile(_ESCAPE + rb"\[" + _PARAMETERS + rb"[@-~]")
_CHARACTER = re.compile(_BACKSLASHES + rb"u00([2-7][0-9a-fA-F])|%([0-9a-fA-F]{2})")
_EITHER = re.compile(_COLOUR.pattern + rb"|" + _CHARACTER.pattern)
_QUOTED = re.compile(rb"%[0-9a-fA-F]{2}")
_LONGEST_BEGUN = 64
_BEGUN = re.compile(
    rb"(?:" + _ESCAPE + rb"(?:\[" + _PARAMETERS + rb")?"
    rb"|" + _BACKSLASHES + rb"(?:u[0-9a-fA-F]{0,3})?|%[0-9a-fA-F]?)\Z"
)
_SHAPE = bytes(97 if chr(code).isalnum() and code < 128 else 32 for code in range(256))  # noqa: PLR2004  # ASCII


class Search:
    """Finds all forms of all secrets, grouped by a part that each of a group holds."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        """Look for these, by name."""
        self._groups = _groups_of(secrets)
        self._longest = max(len(form) for forms in self._groups.values() for form in forms)
        self._by_start: dict[int, list[bytes]] = {}
        for forms in self._groups.values():
            for form in forms:
                self._by_start.setdefault(form[0], []).append(form)
        starts = b"".join(re.escape(bytes([first])) for first in self._by_start)
        self._starts = re.compile(b"[" + starts + b"]")
        self._runs = tuple(part for part in self._groups if len(part) >= _RUN and part.isalnum())
        self._others = tuple(part for part in self._groups if part not in self._runs)
        self._least = b"a" * min(map(len, self._runs), default=0)

    def spans(self, data: bytes) -> list[Span]:
        """Return where secrets are, in order, overlapping ones as one."""
        found = self._found(data)
        if (bare := _Bare.of(data)) is not None:
            found += [(*bare.origin(at, end), marker) for at, end, marker in self._found(bare.text)]
        return _merged(found)

    def undecided(self, data: bytes) -> int:
        """Return where the longest end of the data begins that may be the start of a secret."""
        escape = _BEGUN.search(data, max(len(data) - _LONGEST_BEGUN, 0))
        whole = escape.start() if escape else len(data)
        found = min(self._begun(data), self._begun(data[:whole])) if escape else self._begun(data)
        last = max(whole - TAIL, 0)
        if (bare := _Bare.of(data[last:whole])) is not None:
            at = self._begun(bare.text)
            if at < len(bare.text):
                found = min(found, last + bare.origin(at, at + 1)[0])
        return min(found, whole)

    def _found(self, data: bytes) -> list[Span]:
        met = [part for part in self._others if part in data]
        if self._runs and (runs := self._long_runs(data)):
            met += [part for part in self._runs if part in runs]
        found: list[Span] = []
        for part in met:
            for form, marker in self._groups[part].items():
                at = data.find(form)
                while at >= 0:
                    found.append((at, at + len(form), marker))
                    at = data.find(form, at + 1)
        return found

    def _begun(self, data: bytes) -> int:
        for found in self._starts.finditer(data, max(0, len(data) - self._longest + 1)):
            rest = data[found.start() :]
            if any(
                len(form) > len(rest) and form.startswith(rest) for form in self._by_start[rest[0]]
            ):
                return found.start()
        return len(data)

    def _long_runs(self, data: bytes) -> bytes:
        """Return the runs of letters and digits that are long enough to hold what is looked for."""
        shape, least = data.translate(_SHAPE), self._least
        runs: list[bytes] = []
        at = shape.find(least)
        while at >= 0:
            end = shape.find(b" ", at + len(least))
            end = end if end >= 0 else len(shape)
            runs.append(data[at:end])
            at = shape.find(least, end)
        return b" ".join(runs)


class _Bare:
    """A text without colours, with each escaped character as what it means."""

    def __init__(self, pattern: re.Pattern[bytes], before: bytes, text: bytes) -> None:
        self.text = text
        self._pattern = pattern
        self._before = before
        self._ends: list[int] | None = None
        self._shifts: list[int] = []

    @classmethod
    def of(cls, data: bytes) -> _Bare | None:
        """Return what a text shows; None where it holds no colours and no escapes."""
        if b"\\u00" in data or (b"%" in data and _QUOTED.search(data)):
            pattern, text = _EITHER, _EITHER.sub(_meaning, data)
        elif b"\x1b[" in data:
            pattern, text = _COLOUR, _COLOUR.sub(b"", data)
        else:
            return None
        return None if len(text) == len(data) else cls(pattern, data, text)

    def origin(self, start: int, end: int) -> tuple[int, int]:
        """Return from where to where something stands in the text that was looked at."""
        last = self._origin(end - 1)
        escaped = _CHARACTER.match(self._before, last)
        return self._origin(start), escaped.end() if escaped else last + 1

    def _origin(self, at: int) -> int:
        if self._ends is None:
            found = list(self._pattern.finditer(self._before))
            more = (len(each[0]) - len(_meaning(each)) for each in found)
            self._shifts = list(accumulate(more, initial=0))
            self._ends = [
                each.end() - shift for each, shift in zip(found, self._shifts[1:], strict=True)
            ]
        return at + self._shifts[bisect_right(self._ends, at)]


def _meaning(found: re.Match[bytes]) -> bytes:
    """Return the character that an escape stands for; nothing for a colour."""
    code = found[found.lastindex] if found.lastindex else b""
    return bytes((int(code, 16),)) if code else b""


def _groups_of(secrets: Mapping[str, str]) -> dict[bytes, dict[bytes, bytes]]:
    """Return all forms with what stands in the place of each, by a part that a group shares."""
    markers: dict[str, str] = {}
    parts: dict[str, str] = {}
    for name, value in secrets.items():
        marker = f"***{name}***" if _PLAIN_NAME.fullmatch(name) else _UNNAMED
        for core in cores(value):
            seen = _CHARACTER.sub(_meaning, raw(core)).decode(errors="surrogateescape")
            for form, part in (*forms_of(core), (seen, part_of(seen))):
                markers.setdefault(form, marker)
                parts.setdefault(form, part)
    leaks = {mark for mark in set(markers.values()) if any(form in mark for form in markers)}
    groups: dict[bytes, dict[bytes, bytes]] = {}
    for form, part in parts.items():
        marker = _UNNAMED if markers[form] in leaks else markers[form]
        groups.setdefault(raw(part), {})[raw(form)] = raw(marker)
    return groups


def _merged(found: list[Span]) -> list[Span]:
    if len(found) < 2:  # noqa: PLR2004  # nothing to order
        return found
    found.sort(key=lambda span: (span[0], -span[1]))
    merged = [found[0]]
    for span in found[1:]:
        start, end, marker = merged[-1]
        if span[0] >= end:
            merged.append(span)
        elif span[1] > end:
            merged[-1] = (start, span[1], marker)
    return merged


def cores(value: str) -> list[str]:
    """Return what of a value is to be found again: its lines, or all of it; a password in it."""
    lines = [line for line in lines_of(value) if counts(line)] or [value.strip()]
    return [each for each in (*lines, *address_secrets(value)) if counts(each)]


def raw(text: str) -> bytes:
    """Return a text as the bytes it came from."""
    return text.encode(errors="surrogateescape")
