"""Takes secrets out of text before it is kept or shown.

Owns how they are found fast in texts and in streams, and what stands in their place. Pure: it reads
no environment and no file. Which values are secrets is `maskvalues`, the forms of each `maskforms`.
It must not decide which texts are masked: whoever keeps a text does.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, AnyStr, Generic

from runtime.maskforms import address_secrets, forms_of, lines_of
from runtime.maskvalues import counts, holds_secret, is_secret_name, is_secret_value, secrets_of

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "MaskStream",
    "Masker",
    "holds_secret",
    "is_secret_name",
    "is_secret_value",
    "secrets_of",
]

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_WORDLIKE = 12
"""Letters and digits that all of many anchors have in a row: few words of a text are as long."""
_LONG_RUN = b"a" * _WORDLIKE
_SHAPE = bytes(97 if chr(code).isalnum() and code < 128 else 32 for code in range(256))  # noqa: PLR2004  # ASCII
_FEW = 64
"""Up to so many anchors, to look for each by itself is the fastest."""


class _Needles(Generic[AnyStr]):
    """All forms of all secrets, grouped by a part that each of a group holds."""

    def __init__(self, groups: dict[AnyStr, dict[AnyStr, AnyStr]]) -> None:
        self._groups: dict[AnyStr, dict[AnyStr, AnyStr]] = groups
        self.longest = max((len(form) for forms in groups.values() for form in forms), default=0)
        self._by_start: dict[AnyStr, list[AnyStr]] = {}
        for forms in groups.values():
            for form in forms:
                self._by_start.setdefault(form[:1], []).append(form)
        wordlike = [
            part for part in groups if len(part) >= _WORDLIKE and part.isalnum() and part.isascii()
        ]
        if len(wordlike) <= _FEW:
            wordlike = []
        self._alone: tuple[AnyStr, ...] = tuple(
            part for part in groups if part not in set(wordlike)
        )
        self._grams: dict[bytes, list[tuple[bytes, AnyStr]]] = {}
        for part in wordlike:
            raw = _bytes(part)
            self._grams.setdefault(raw[:_WORDLIKE], []).append((raw, part))

    def spans(self, data: AnyStr) -> list[tuple[int, int, AnyStr]]:
        """Return where secrets are, merged where they overlap, each with what to put there."""
        found: list[tuple[int, int, AnyStr]] = []
        for part in self._alone:
            if part in data:
                self._occurrences(data, part, found)
        if self._grams:
            for part in self._met(data):
                self._occurrences(data, part, found)
        if len(found) > 1:
            found.sort(key=lambda span: (span[0], -span[1]))
            return _merged(found)
        return found

    def _met(self, data: AnyStr) -> list[AnyStr]:
        """Look for many anchors at once, only where so many letters and digits stand in a row."""
        raw = _bytes(data, "replace")
        shape = raw.translate(_SHAPE)
        met: dict[AnyStr, None] = {}
        at = shape.find(_LONG_RUN)
        while at >= 0:
            end = shape.find(b" ", at)
            run = raw[at : end if end >= 0 else len(raw)]
            for first in range(len(run) - _WORDLIKE + 1):
                parts = self._grams.get(run[first : first + _WORDLIKE])
                if parts is not None:
                    met.update((part, None) for raw_part, part in parts if raw_part in run)
            at = shape.find(_LONG_RUN, at + len(run))
        return list(met)

    def _occurrences(
        self, data: AnyStr, part: AnyStr, found: list[tuple[int, int, AnyStr]]
    ) -> None:
        for form, marker in self._groups[part].items():
            at = data.find(form)
            while at >= 0:
                found.append((at, at + len(form), marker))
                at = data.find(form, at + 1)

    def undecided(self, data: AnyStr) -> int:
        """Return where the longest end of a text begins that may be the start of a secret."""
        size = len(data)
        for at in range(max(0, size - self.longest + 1), size):
            forms = self._by_start.get(data[at : at + 1])
            if forms:
                rest = data[at:]
                if any(len(form) > len(rest) and form.startswith(rest) for form in forms):
                    return at
        return size


def _merged(found: list[tuple[int, int, AnyStr]]) -> list[tuple[int, int, AnyStr]]:
    merged = [found[0]]
    for span in found[1:]:
        start, end, marker = merged[-1]
        if span[0] >= end:
            merged.append(span)
        elif span[1] > end:
            merged[-1] = (start, span[1], marker)
    return merged


class Masker:
    """Replaces secrets by their names, `***NAME***`; without secrets it changes nothing."""

    def __init__(self, secrets: Mapping[str, str] | None = None) -> None:
        self._secrets: dict[str, str] = {}
        self._text: _Needles[str] | None = None
        self._raw: _Needles[bytes] | None = None
        if secrets:
            self.learn(secrets)

    def __bool__(self) -> bool:
        return self._text is not None

    def __repr__(self) -> str:
        return f"<Masker of {', '.join(self._secrets) or 'nothing'}>"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the secrets it knows."""
        return tuple(self._secrets)

    def learn(self, secrets: Mapping[str, str]) -> None:
        """Mask these too from now on; a value that is known already keeps its first name."""
        known = set(self._secrets.values())
        new = {
            name: value for name, value in secrets.items() if value not in known and _cores(value)
        }
        if not new:
            return
        for name, value in new.items():
            self._secrets[_free(name, self._secrets)] = value
        text = _groups(self._secrets)
        raw = {
            _bytes(part): {_bytes(form): _bytes(marker) for form, marker in forms.items()}
            for part, forms in text.items()
        }
        self._raw = _Needles(raw)
        self._text = _Needles(text)

    def learn_from(self, environ: Mapping[str, str]) -> None:
        """Mask from now on what of these variables are secrets."""
        if found := secrets_of(environ):
            self.learn(found)

    def mask(self, text: str) -> str:
        """Return a text without the secrets in it; the very same where there are none."""
        return text if self._text is None else _masked(self._text, text, "")

    def mask_bytes(self, data: bytes) -> bytes:
        """Return bytes without the secrets in them; the very same where there are none."""
        return data if self._raw is None else _masked(self._raw, data, b"")

    def stream(self) -> MaskStream:
        """Return what masks a stream, however it is cut into pieces."""
        return MaskStream(self._raw)


class MaskStream:
    """Masks a stream of bytes piece by piece; gives what `mask_bytes` gives for the whole.

    Only an end that may be the start of a secret is held back until more comes, or until `end`.
    """

    def __init__(self, needles: _Needles[bytes] | None) -> None:
        self._needles = needles
        self._held = b""
        self._covered = 0
        """How much of the start of what is held belongs to a secret that was replaced already."""

    def feed(self, chunk: bytes) -> bytes:
        """Take the next piece; return what can be told by now."""
        if self._needles is None:
            return chunk
        data = self._held + chunk if self._held else chunk
        return self._told(self._needles, data, self._needles.undecided(data))

    def end(self) -> bytes:
        """Return the rest, once nothing more comes."""
        if self._needles is None:
            return b""
        return self._told(self._needles, self._held, len(self._held))

    @property
    def held(self) -> int:
        """How many bytes are held back."""
        return len(self._held)

    def _told(self, needles: _Needles[bytes], data: bytes, upto: int) -> bytes:
        pieces: list[bytes] = []
        at = self._covered
        for start, end, marker in needles.spans(data):
            if start >= upto:
                break
            if start < at:  # goes on from one that was replaced
                at = max(at, end)
                continue
            pieces += (data[at:start], marker)
            at = end
        pieces.append(data[at:upto])
        self._held, self._covered = data[upto:], max(0, at - upto)
        return b"".join(pieces)


def _masked(needles: _Needles[AnyStr], data: AnyStr, empty: AnyStr) -> AnyStr:
    spans = needles.spans(data)
    if not spans:
        return data
    pieces: list[AnyStr] = []
    at = 0
    for start, end, marker in spans:
        pieces += (data[at:start], marker)
        at = end
    pieces.append(data[at:])
    return empty.join(pieces)


def _cores(value: str) -> list[str]:
    """Return what of a value is to be found again: its lines, or all of it; a password in it."""
    lines = [line for line in lines_of(value) if counts(line)] or [value.strip()]
    return [each for each in (*lines, *address_secrets(value)) if counts(each)]


def _groups(secrets: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return the forms with their replacements, by a part that all forms of a group hold."""
    forms: dict[str, tuple[str, str]] = {}
    for name, value in secrets.items():
        marker = f"***{name}***" if _PLAIN_NAME.fullmatch(name) else "***"
        for core in _cores(value):
            for form, part in forms_of(core):
                forms.setdefault(form, (marker, part))
    leaks = {marker for marker, _ in forms.values() if any(form in marker for form in forms)}
    groups: dict[str, dict[str, str]] = {}
    for form, (marker, part) in forms.items():
        groups.setdefault(part, {})[form] = "***" if marker in leaks else marker
    return groups


def _free(name: str, taken: Mapping[str, str]) -> str:
    number, free = 2, name
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    return free


def _bytes(text: str | bytes, errors: str = "surrogateescape") -> bytes:
    return text.encode(errors=errors) if isinstance(text, str) else text
