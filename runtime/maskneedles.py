"""Looks for many forms of many secrets at once.

Owns how they are found fast. Most of what is looked for are long runs of letters and digits, and
few texts have any: only such runs of a text are searched. Pure. It must not know which values are
secrets, nor what becomes of what is found.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from runtime.maskforms import address_secrets, forms_of, lines_of
from runtime.maskvalues import counts

if TYPE_CHECKING:
    from collections.abc import Mapping

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_UNNAMED = "***secret***"
_RUN = 12
"""Letters and digits in a row that few words of ordinary text have."""
_SHAPE = bytes(97 if chr(code).isalnum() and code < 128 else 32 for code in range(256))  # noqa: PLR2004  # ASCII


class Needles:
    """All forms of all secrets, grouped by a part that each of a group holds."""

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

    def spans(self, data: bytes) -> list[tuple[int, int, bytes]]:
        """Return where secrets are, in any order, each with what to put there."""
        met = [part for part in self._others if part in data]
        if self._runs and (runs := self._long_runs(data)):
            met += [part for part in self._runs if part in runs]
        found: list[tuple[int, int, bytes]] = []
        for part in met:
            for form, marker in self._groups[part].items():
                at = data.find(form)
                while at >= 0:
                    found.append((at, at + len(form), marker))
                    at = data.find(form, at + 1)
        return found

    def undecided(self, data: bytes) -> int:
        """Return where the longest end of a text begins that may be the start of a secret."""
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


def _groups_of(secrets: Mapping[str, str]) -> dict[bytes, dict[bytes, bytes]]:
    """Return all forms with what stands in the place of each, by a part that a group shares."""
    markers: dict[str, str] = {}
    parts: dict[str, str] = {}
    for name, value in secrets.items():
        marker = f"***{name}***" if _PLAIN_NAME.fullmatch(name) else _UNNAMED
        for core in cores(value):
            for form, part in forms_of(core):
                markers.setdefault(form, marker)
                parts.setdefault(form, part)
    leaks = {mark for mark in set(markers.values()) if any(form in mark for form in markers)}
    groups: dict[bytes, dict[bytes, bytes]] = {}
    for form, part in parts.items():
        marker = _UNNAMED if markers[form] in leaks else markers[form]
        groups.setdefault(raw(part), {})[raw(form)] = raw(marker)
    return groups


def merged(found: list[tuple[int, int, bytes]]) -> list[tuple[int, int, bytes]]:
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


def raw(text: str) -> bytes:
    """Return a text as the bytes it came from."""
    return text.encode(errors="surrogateescape")
