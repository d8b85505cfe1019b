"""Looks for many forms of many secrets at once, in texts and in bytes.

Owns how they are found fast. Pure. It must not know which values are secrets, nor what becomes of
what is found.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, AnyStr, Generic

from runtime.maskforms import address_secrets, forms_of, lines_of
from runtime.maskvalues import counts
from runtime.maskveils import LONG, has_long_run, has_wide_row
from runtime.maskwraps import (
    Wrap,
    found_around,
    last_run,
    may_go_on,
    width_of,
    wraps_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_UNNAMED = "***secret***"
_WORDLIKE = 12
"""Letters and digits that all of many anchors have in a row: few words of a text are as long."""
_LONG_RUN = b"a" * _WORDLIKE
_SHAPE = bytes(97 if chr(code).isalnum() and code < 128 else 32 for code in range(256))  # noqa: PLR2004  # ASCII
_FEW = 64
"""Up to so many anchors, to look for each by itself is the fastest."""


@dataclass(frozen=True, slots=True)
class Forms:
    """All forms of all secrets, each with what stands in its place."""

    groups: dict[str, dict[str, str]]
    """Those that have to be there as they are, by a part that all of a group hold."""
    wraps: dict[str, list[Wrap[str]]]
    """Base64 over ends of lines, by each part that it is looked for by."""
    markers: dict[str, str]
    """By form."""

    @classmethod
    def of(cls, secrets: Mapping[str, str]) -> Forms:
        """Return the forms of these secrets."""
        markers: dict[str, str] = {}
        parts: dict[str, str] = {}
        wraps: dict[str, list[Wrap[str]]] = {}
        for name, value in secrets.items():
            marker = f"***{name}***" if _PLAIN_NAME.fullmatch(name) else _UNNAMED
            for core in cores(value):
                for form, part in forms_of(core):
                    markers.setdefault(form, marker)
                    parts.setdefault(form, part)
                for part, wrap in wraps_of(core, marker):
                    wraps.setdefault(part, []).append(wrap)
        leaks = {mark for mark in set(markers.values()) if any(form in mark for form in markers)}
        told = {form: _UNNAMED if mark in leaks else mark for form, mark in markers.items()}
        groups: dict[str, dict[str, str]] = {}
        for form, part in parts.items():
            groups.setdefault(part, {})[form] = told[form]
        for part, each in wraps.items():
            wraps[part] = [wrap._replace(marker=told[wrap.form]) for wrap in each]
        return cls(groups, wraps, told)

    @property
    def longest(self) -> int:
        """Return how many characters one of them may take up."""
        plain = (len(form) for forms in self.groups.values() for form in forms)
        wide = (width_of(wrap.form) for wraps in self.wraps.values() for wrap in wraps)
        return max((*plain, *wide), default=0)

    def as_text(self) -> Needles[str]:
        """Return what finds them in a text."""
        return Needles(self.groups, self.wraps, self.longest)

    def as_bytes(self) -> Needles[bytes]:
        """Return what finds them in bytes."""
        groups = {
            raw(part): {raw(form): raw(marker) for form, marker in forms.items()}
            for part, forms in self.groups.items()
        }
        wraps = {
            raw(part): [Wrap(raw(each.form), each.offset, raw(each.marker)) for each in wraps]
            for part, wraps in self.wraps.items()
        }
        return Needles(groups, wraps, self.longest)


class Needles(Generic[AnyStr]):
    """All forms of all secrets, grouped by a part that each of a group holds."""

    def __init__(
        self,
        groups: dict[AnyStr, dict[AnyStr, AnyStr]],
        wraps: dict[AnyStr, list[Wrap[AnyStr]]],
        longest: int,
    ) -> None:
        self._groups: dict[AnyStr, dict[AnyStr, AnyStr]] = groups
        self._wraps: dict[AnyStr, list[Wrap[AnyStr]]] = wraps
        self.longest = longest
        self._by_start: dict[AnyStr, list[AnyStr]] = {}
        self._wraps_by_start: dict[AnyStr, list[AnyStr]] = {}
        for forms in groups.values():
            for form in forms:
                self._by_start.setdefault(form[:1], []).append(form)
        for form in dict.fromkeys(wrap.form for each in wraps.values() for wrap in each):
            self._wraps_by_start.setdefault(form[:1], []).append(form)
        words: dict[AnyStr, bytes] = {part: raw(part) for part in groups}
        wordlike = {part: word for part, word in words.items() if _is_wordlike(word)}
        if len(wordlike) <= _FEW:
            wordlike = {}
        alone = [part for part in groups if part not in wordlike]
        self._long: tuple[AnyStr, ...] = tuple(
            part for part in alone if len(part) >= LONG and _is_wordlike(words[part])
        )
        self._alone: tuple[AnyStr, ...] = tuple(part for part in alone if part not in self._long)
        self._grams: dict[bytes, list[tuple[bytes, AnyStr]]] = {}
        for part, word in wordlike.items():
            self._grams.setdefault(word[:_WORDLIKE], []).append((word, part))

    def spans(
        self, data: AnyStr, shape: bytes, ahead: bytes = b""
    ) -> list[tuple[int, int, AnyStr]]:
        """Return where secrets are, in any order, each with what to put there.

        `shape` is that of the data, `ahead` the shape of what stood in front of it.
        """
        found: list[tuple[int, int, AnyStr]] = []
        for part in self._alone:
            if part in data:
                self._occurrences(data, part, found)
        if self._grams:
            for part in self._met(data):
                self._occurrences(data, part, found)
        long = has_long_run(shape)
        for part in self._long if long else ():
            if part in data:
                self._occurrences(data, part, found)
        if (long or ahead) and has_wide_row(ahead + shape):
            self._wrapped(data, found)
        return found

    def _met(self, data: AnyStr) -> list[AnyStr]:
        """Look for many anchors at once, only where so many letters and digits stand in a row."""
        whole = raw(data, "replace")
        shape = whole.translate(_SHAPE)
        met: dict[AnyStr, None] = {}
        at = shape.find(_LONG_RUN)
        while at >= 0:
            end = shape.find(b" ", at)
            run = whole[at : end if end >= 0 else len(whole)]
            for first in range(len(run) - _WORDLIKE + 1):
                parts = self._grams.get(run[first : first + _WORDLIKE])
                if parts is not None:
                    met.update((part, None) for word, part in parts if word in run)
            at = shape.find(_LONG_RUN, at + len(run))
        return list(met)

    def _occurrences(
        self, data: AnyStr, part: AnyStr, found: list[tuple[int, int, AnyStr]]
    ) -> None:
        for form, marker in self._groups.get(part, {}).items():
            at = data.find(form)
            while at >= 0:
                found.append((at, at + len(form), marker))
                at = data.find(form, at + 1)

    def _wrapped(self, data: AnyStr, found: list[tuple[int, int, AnyStr]]) -> None:
        for part, wraps in self._wraps.items():
            at = data.find(part)
            while at >= 0:
                for wrap in wraps:
                    place = found_around(data, at, wrap)
                    if place is not None:
                        found.append((place[0], place[1], wrap.marker))
                at = data.find(part, at + 1)

    def undecided(self, data: AnyStr, before: AnyStr) -> int:
        """Return where the longest end of a text begins that may be the start of a secret.

        `before` is what stood in front of it.
        """
        size = len(data)
        letters = last_run(data)
        for at in range(max(0, size - self.longest + 1), size):
            first = data[at : at + 1]
            if forms := self._by_start.get(first):
                rest = data[at:]
                if any(len(form) > len(rest) and form.startswith(rest) for form in forms):
                    return at
            forms = self._wraps_by_start.get(first) if at >= letters else None
            if forms and may_go_on(forms, data, at, before):
                return at
        return size


def _is_wordlike(word: bytes) -> bool:
    return len(word) >= _WORDLIKE and word.isalnum()


def merged(found: list[tuple[int, int, AnyStr]]) -> list[tuple[int, int, AnyStr]]:
    """Bring what was found in order, as one where it overlaps."""
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


def raw(text: str | bytes, errors: str = "surrogateescape") -> bytes:
    """Return a text as bytes."""
    return text.encode(errors=errors) if isinstance(text, str) else text
